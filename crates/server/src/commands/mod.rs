//! What each command does.

mod ask;
mod check;
mod explain;
mod explained;
pub(super) mod flags;
mod import;
pub(super) mod request_pairs;
mod serve;
mod simulate;
pub(crate) mod terminal;
mod validate;

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use tidegate::{Clock, MonotonicClock, Nanos};
use tidegate_policy::Policy;

use crate::commands::flags::{Cli, CliCommand, command};
use crate::commands::terminal::exit::{CommandFailure, complain, read_text, shown};
use crate::commands::terminal::paint::{Paint, Tone, printable};
use crate::commands::terminal::report;

/// Runs what was typed.
pub fn run() -> ExitCode {
    let Cli { command } = Cli::parse();
    let done = match command {
        CliCommand::Serve(args) => serve::run(&args),
        CliCommand::Check(args) => check::run(&args),
        CliCommand::Validate(args) => validate::run(&args),
        CliCommand::Explain(args) => explain::run(&args),
        CliCommand::Simulate(args) => simulate::run(&args),
        CliCommand::Import(args) => import::run(&args),
        CliCommand::Schema => print(&tidegate_policy::json_schema()),
        CliCommand::Completions { shell } => completions(shell),
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

fn completions(shell: clap_complete::Shell) -> Result<(), CommandFailure> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut command(), "tidegate", &mut text);
    print(&String::from_utf8_lossy(&text))
}

/// Prints to standard output. That nobody listens any more is no failure.
fn print(text: &str) -> Result<(), CommandFailure> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(CommandFailure::Running(format!("cannot write: {error}")))
        }
        _ => Ok(()),
    }
}

/// This instant, by the wall clock.
fn now() -> Nanos {
    MonotonicClock::new().now()
}

/// A policy to be used. Its problems go to standard error.
fn load_policy(path: &str, now: Nanos, quiet: bool) -> Result<Policy, CommandFailure> {
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
            Err(CommandFailure::Invalid)
        }
    }
}
