//! What each command does.

mod ask;
mod check;
mod explain;
mod explained;
mod import;
mod serve;
mod simulate;
mod validate;

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use tidegate::{Clock, MonotonicClock, Nanos};
use tidegate_policy::Policy;

use crate::cli::{Cli, Command, command};
use crate::exit::{Failure, complain, read_text, shown};
use crate::paint::{Paint, Tone, printable};
use crate::report;

/// Runs what was typed.
pub fn run() -> ExitCode {
    let Cli { command } = Cli::parse();
    let done = match command {
        Command::Serve(args) => serve::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Validate(args) => validate::run(&args),
        Command::Explain(args) => explain::run(&args),
        Command::Simulate(args) => simulate::run(&args),
        Command::Import(args) => import::run(&args),
        Command::Schema => print(&tidegate_policy::json_schema()),
        Command::Completions { shell } => completions(shell),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            let said = failure.to_string();
            if !said.is_empty() {
                complain(format_args!(
                    "{}: {}\n",
                    Paint::stderr().tone(Tone::Bad, "error"),
                    printable(&said)
                ));
            }
            failure.code()
        }
    }
}

fn completions(shell: clap_complete::Shell) -> Result<(), Failure> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut command(), "tidegate", &mut text);
    print(&String::from_utf8_lossy(&text))
}

/// Prints to standard output. That nobody listens any more is no failure.
fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Failure::Running(format!("cannot write: {error}")))
        }
        _ => Ok(()),
    }
}

/// This instant, by the wall clock.
fn now() -> Nanos {
    MonotonicClock::new().now()
}

/// A policy to be used. Its problems go to standard error.
fn load_policy(path: &str, now: Nanos, quiet: bool) -> Result<Policy, Failure> {
    let text = read_text(path)?;
    let paint = Paint::stderr();
    match Policy::parse_at(&text, now) {
        Ok(policy) => {
            if !quiet && !policy.warnings.is_empty() {
                let (path, counts) = (shown(path), report::counts(&policy.warnings));
                let note = format!("{path}: {counts}; `tidegate validate {path}` tells more");
                complain(format_args!("{}\n", paint.tone(Tone::Faint, note)));
            }
            Ok(policy)
        }
        Err(error) => {
            complain(format_args!("{}", report::text(shown(path), &text, &error.problems, paint)));
            complain(format_args!("{}: {}\n", shown(path), report::counts(&error.problems)));
            Err(Failure::Invalid)
        }
    }
}
