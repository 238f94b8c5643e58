//! Measures Tidegate against its peers, in one run on one machine.

mod contenders;
mod inprocess;
mod keys;
mod random;
mod report;
mod resident;
mod rounds;
mod statistics;
mod stopwatch;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Measures Tidegate against its peers, in one run on one machine.
#[derive(Debug, Parser)]
#[command(name = "tidegate-bench")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Inprocess(inprocess::Args),
    /// Fills one limiter and prints by how many bytes the process grew.
    #[command(hide = true)]
    Fill(inprocess::FillArgs),
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Inprocess(args) => inprocess::run(&args),
        Command::Fill(args) => inprocess::fill(&args),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("error: {error}");
        ExitCode::FAILURE
    })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn wrong_usage_exits_with_2() {
        for line in
            [&["tidegate-bench"][..], &["tidegate-bench", "inprocess", "--fast"], &["tidegate-bench", "x"]]
        {
            let error = Cli::try_parse_from(line).expect_err("not a command");
            assert_eq!(error.exit_code(), 2, "{line:?}");
        }
    }
}
