//! The subcommands of `tidegate`, one file each. `flags` defines the command line, `terminal` has colours, error
//! output and exit codes.

mod admin;
mod audit;
mod backup;
mod bucket_output;
mod check;
mod database_place;
mod demo;
mod events;
mod explain;
pub(super) mod explain_json;
mod explain_output;
pub(super) mod flags;
mod http_client;
mod import;
mod key;
pub(super) mod request_pairs;
mod serve;
mod simulate;
mod tenant_output;
pub(crate) mod terminal;
mod token;
mod validate;

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use tidegate::{Clock, MonotonicClock, Nanos};
use tidegate_policy::Policy;

use crate::commands::flags::audit::AuditCommand;
use crate::commands::flags::{Cli, CliCommand, KeyCommand, TokenCommand, command};
use crate::commands::terminal::exit::{CommandFailure, display_path, print_stderr, read_text};
use crate::commands::terminal::paint::{Paint, Tone, printable};
use crate::commands::terminal::report;

/// Parses the command line and runs the command.
pub fn run() -> ExitCode {
    let Cli { command } = Cli::parse();
    let done = match command {
        CliCommand::Serve(args) => serve::run(&args),
        CliCommand::Demo(args) => demo::run(&args),
        CliCommand::Check(args) => check::run(&args),
        CliCommand::Admin(args) => admin::run(&args),
        CliCommand::Top(args) => admin::top::run(&args),
        CliCommand::Validate(args) => validate::run(&args),
        CliCommand::Explain(args) => explain::run(&args),
        CliCommand::Simulate(args) => simulate::run(&args),
        CliCommand::Import(args) => import::run(&args),
        CliCommand::Events(args) => events::run(&args),
        CliCommand::Audit(AuditCommand::Verify(args)) => audit::verify(&args),
        CliCommand::Audit(AuditCommand::Erase(args)) => audit::erase(&args),
        CliCommand::Key(KeyCommand::Create(args)) => key::create(&args),
        CliCommand::Token(TokenCommand::Create(args)) => token::create(&args),
        CliCommand::Backup(args) => backup::backup(&args),
        CliCommand::Restore(args) => backup::restore(&args),
        CliCommand::Schema => print(&tidegate_policy::json_schema()),
        CliCommand::Completions { shell } => completions(shell),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            let message = failure.to_string();
            if !message.is_empty() {
                print_stderr(format_args!(
                    "{}: {}\n",
                    Paint::stderr().tone(Tone::Bad, "error"),
                    printable(&message)
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

/// Prints to standard output. A closed pipe, as with `| head`, is not an error.
fn print(text: &str) -> Result<(), CommandFailure> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(CommandFailure::Running(format!("cannot write to standard output: {error}")))
        }
        _ => Ok(()),
    }
}

/// The current time, by the wall clock.
fn now() -> Nanos {
    MonotonicClock::new().now()
}

/// Reads and compiles a policy file. Its problems are printed to standard error.
fn load_policy(path: &str, now: Nanos, quiet: bool) -> Result<Policy, CommandFailure> {
    let text = read_text(path)?;
    let paint = Paint::stderr();
    match Policy::parse_at(&text, now) {
        Ok(policy) => {
            if !quiet && !policy.warnings.is_empty() {
                let (path, counts) = (display_path(path), report::counts(&policy.warnings));
                let note = format!("{path}: {counts}; run `tidegate validate {path}` for details");
                print_stderr(format_args!("{}\n", paint.tone(Tone::Faint, note)));
            }
            Ok(policy)
        }
        Err(error) => {
            print_stderr(format_args!("{}", report::text(display_path(path), &text, &error.problems, paint)));
            print_stderr(format_args!("{}: {}\n", display_path(path), report::counts(&error.problems)));
            Err(CommandFailure::Invalid)
        }
    }
}
