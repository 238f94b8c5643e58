//! `cargo xtask COMMAND`. Exit 0: success; 1: the command found problems or failed; 2: bad usage.

use std::process::ExitCode;

use xtask::{suite, tidy};

struct Command {
    name: &'static str,
    about: &'static str,
    run: Run,
}

enum Run {
    Plain(fn() -> ExitCode),
    WithArguments(fn(&[&str]) -> ExitCode),
}

const COMMANDS: &[Command] = &[
    Command {
        name: "gen",
        about: "rewrite the reference pages and the generated protobuf code; tests check both",
        run: Run::Plain(run_gen),
    },
    Command {
        name: "test",
        about: "run `cargo test ARGUMENTS...`, with tests that wait in parallel to tests that compute",
        run: Run::WithArguments(run_test),
    },
    Command {
        name: "tidy",
        about: "check the rules of CONTRIBUTING.md; prints every problem",
        run: Run::Plain(run_tidy),
    },
];

const BAD_USAGE: u8 = 2;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args.as_slice() {
        ["--help" | "-h" | "help", ..] | [_, "--help" | "-h"] => {
            print!("{}", usage());
            ExitCode::SUCCESS
        }
        [] => bad_usage("no command given"),
        [name, rest @ ..] => match COMMANDS.iter().find(|command| command.name == *name) {
            None => bad_usage(&format!("unknown command `{name}`")),
            Some(command) => match command.run {
                Run::WithArguments(run) => run(rest),
                Run::Plain(run) if rest.is_empty() => run(),
                Run::Plain(_) => bad_usage(&format!("`{name}` takes no arguments, got `{}`", rest.join(" "))),
            },
        },
    }
}

fn usage() -> String {
    let mut text = String::from("usage: cargo xtask COMMAND\n\ncommands:\n");
    for command in COMMANDS {
        text.push_str(&format!("  {:<8} {}\n", command.name, command.about));
    }
    text
}

fn bad_usage(why: &str) -> ExitCode {
    eprint!("error: {why}\n\n{}", usage());
    ExitCode::from(BAD_USAGE)
}

/// The tests that check generated files also write them, so that xtask need not be built with
/// the whole server and a protobuf compiler.
fn run_gen() -> ExitCode {
    let pages = ["-p", "tidegate-server", "--test", "all", "commands::reference::"];
    let protos = ["-p", "xtask", "--test", "protos"];
    for (test, what) in
        [(&protos[..], "crates/server/src/grpc/proto is current"), (&pages[..], "docs/reference is current")]
    {
        if let Err(why) = bless(test) {
            eprintln!("error: {why}");
            return ExitCode::FAILURE;
        }
        println!("gen: {what}");
    }
    ExitCode::SUCCESS
}

fn bless(test: &[&str]) -> Result<(), String> {
    let ran = xtask::cargo()
        .args(["test", "--quiet"])
        .args(test)
        .current_dir(xtask::workspace_root())
        .env("TIDEGATE_BLESS", "1")
        .status();
    match ran {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => Err(format!("`cargo test {}` failed", test.join(" "))),
        Err(error) => Err(format!("cannot run cargo: {error}")),
    }
}

fn run_test(arguments: &[&str]) -> ExitCode {
    match suite::run(&xtask::workspace_root(), arguments) {
        Ok(tally) => {
            println!("{} tests passed, {} binaries failed", tally.passed, tally.failed.len());
            tally.failed.iter().for_each(|source| println!("  {source}"));
            if tally.failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run_tidy() -> ExitCode {
    match tidy::run(&xtask::workspace_root()) {
        Ok(problems) if problems.is_empty() => {
            println!("tidy: no problems");
            ExitCode::SUCCESS
        }
        Ok(problems) => {
            for problem in &problems {
                println!("{problem}");
            }
            eprintln!("tidy: {} to fix", problems.len());
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
