//! Measures Tidegate against other limiters, in one run on one machine.

mod contenders;
mod inprocess;
mod keys;
mod matching;
mod random;
mod redis;
mod report;
mod resident;
mod rounds;
mod server;
mod simulate;
mod statistics;
mod stopwatch;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Measures Tidegate against other limiters, in one run on one machine.
#[derive(Debug, Parser)]
#[command(name = "tidegate-bench")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Console(server::control::console::ConsoleArgs),
    Control(server::control::ControlArgs),
    Inprocess(inprocess::InprocessArgs),
    Matching(matching::MatchingArgs),
    Redis(redis::RedisArgs),
    Server(server::ServerArgs),
    Simulate(simulate::SimulateArgs),
    Tokens(server::tokens::TokensArgs),
    /// Fills one limiter and prints by how many bytes the process has grown.
    #[command(hide = true)]
    Fill(inprocess::FillArgs),
}

fn main() -> ExitCode {
    let outcome: Result<ExitCode, Box<dyn std::error::Error>> = match Cli::parse().command {
        Command::Console(args) => server::control::console::run(&args).map_err(Into::into),
        Command::Control(args) => server::control::run(&args).map_err(Into::into),
        Command::Inprocess(args) => inprocess::run(&args).map_err(Into::into),
        Command::Matching(args) => matching::run(&args).map_err(Into::into),
        Command::Redis(args) => redis::run(&args).map_err(Into::into),
        Command::Server(args) => server::run(&args).map_err(Into::into),
        Command::Simulate(args) => simulate::run(&args).map_err(Into::into),
        Command::Tokens(args) => server::tokens::run(&args).map_err(Into::into),
        Command::Fill(args) => inprocess::fill(&args).map_err(Into::into),
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
