//! `tidegate-sim`: runs simulated scenarios from seeds, and writes a page of measurements.

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use tidegate_sim::{SeedOutcome, report};

/// Simulates nodes, clocks, a network and a Redis server that fail, each run from one seed, and checks invariants.
#[derive(Debug, Parser)]
#[command(name = "tidegate-sim", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run seeds, and check the invariants of each; exit 1 if a run violates one.
    Run(RunArgs),
    /// Write an HTML page with charts of overshoot and Redis commands, by number of nodes and lease life.
    Report(ReportArgs),
}

#[derive(Debug, Args)]
struct RunArgs {
    /// How many seeds to run.
    #[arg(long, default_value_t = 300, conflicts_with = "seed")]
    seeds: u64,
    /// The first seed.
    #[arg(long, default_value_t = 0, conflicts_with = "seed")]
    from: u64,
    /// Run only this seed.
    #[arg(long)]
    seed: Option<u64>,
    /// Print the event log of the run: one line for each event.
    #[arg(long, alias = "trace", requires = "seed")]
    event_log: bool,
}

#[derive(Debug, Args)]
struct ReportArgs {
    /// The directory to write the page to.
    #[arg(long, default_value = "target/sim-report")]
    out: PathBuf,
}

fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Run(args) => run(&args),
        Command::Report(args) => write_report(&args),
    }
}

fn run(args: &RunArgs) -> ExitCode {
    if let Some(seed) = args.seed {
        let outcome = tidegate_sim::run_seed(seed, args.event_log);
        print!("{}", outcome.event_log);
        print_violations(&outcome);
        println!("{}", summary(&[&outcome]));
        return exit(&[outcome]);
    }
    let progress = std::io::stderr().is_terminal();
    let mut outcomes = Vec::new();
    for done in 0..args.seeds {
        if progress {
            eprint!("\rseed {} ({done} of {})", args.from + done, args.seeds);
        }
        let outcome = tidegate_sim::run_seed(args.from + done, false);
        if !outcome.violations.is_empty() {
            if progress {
                eprint!("\r\x1b[K");
            }
            print_violations(&outcome);
            keep_seed(&outcome);
        }
        outcomes.push(outcome);
    }
    if progress {
        eprint!("\r\x1b[K");
        // The progress line is only a convenience.
        let _ = std::io::stderr().flush();
    }
    println!("{}", summary(&outcomes.iter().collect::<Vec<_>>()));
    exit(&outcomes)
}

fn print_violations(outcome: &SeedOutcome) {
    if outcome.violations.is_empty() {
        return;
    }
    println!("seed {} violates invariants:", outcome.seed);
    for violation in &outcome.violations {
        println!("  {violation}");
    }
    println!("  replay: cargo run --release -p tidegate-sim -- run --seed {} --event-log", outcome.seed);
}

/// The file of seeds that once failed, relative to the root of the project.
const SEEDS_FILE: &str = "sim/seeds/failed-once.txt";

/// Adds the seed to those that the tests run from now on.
fn keep_seed(outcome: &SeedOutcome) {
    let shown = outcome.violations.first().map(ToString::to_string).unwrap_or_default();
    let line = format!("{:<5} # {}", outcome.seed, shown.lines().next().unwrap_or_default());
    let file = std::fs::OpenOptions::new().append(true).open(SEEDS_FILE);
    match file.and_then(|mut file| writeln!(file, "{line}")) {
        Ok(()) => println!("  added to {SEEDS_FILE}, whose seeds the tests run"),
        Err(error) => {
            println!("  please add {} to {SEEDS_FILE}, whose seeds the tests run ({error})", outcome.seed)
        }
    }
}

fn summary(outcomes: &[&SeedOutcome]) -> String {
    let sum = |of: fn(&SeedOutcome) -> u64| outcomes.iter().map(|outcome| of(outcome)).sum::<u64>();
    let failed = outcomes.iter().filter(|outcome| !outcome.violations.is_empty()).count();
    format!(
        "{} runs, {failed} with violations: {} requests, {} admitted, {} decided without the store, {} commands, \
         {} retry promises tested, {} burst escalations, {} penalties lost with other writes of the server",
        outcomes.len(),
        sum(|outcome| outcome.requests),
        sum(|outcome| outcome.admitted),
        sum(|outcome| outcome.without_store),
        sum(|outcome| outcome.commands),
        sum(|outcome| outcome.promises),
        sum(|outcome| outcome.escalations),
        sum(|outcome| outcome.penalties_lost),
    )
}

fn exit(outcomes: &[SeedOutcome]) -> ExitCode {
    let all_well = outcomes.iter().all(|outcome| outcome.violations.is_empty());
    if all_well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn write_report(args: &ReportArgs) -> ExitCode {
    let page = report::page(&report::measure());
    let path = args.out.join("index.html");
    let written = std::fs::create_dir_all(&args.out).and_then(|()| std::fs::write(&path, page));
    match written {
        Ok(()) => {
            println!("{}", path.display());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: cannot write {}: {error}", path.display());
            ExitCode::FAILURE
        }
    }
}
