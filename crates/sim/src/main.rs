//! `tidegate-sim`: worlds from seeds, and a page of what they show.

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use tidegate_sim::{SeedOutcome, report};

/// Plays worlds of nodes, clocks, a network and a Redis that all fail, each from one seed, and judges them.
#[derive(Debug, Parser)]
#[command(name = "tidegate-sim", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Plays seeds; exit 1 if one of them shows what must not be.
    Run(RunArgs),
    /// Writes a page with plots: overshoot and Redis commands, over nodes and lease lives.
    Report(ReportArgs),
}

#[derive(Debug, Args)]
struct RunArgs {
    /// How many seeds.
    #[arg(long, default_value_t = 300, conflicts_with = "seed")]
    seeds: u64,
    /// The first of them.
    #[arg(long, default_value_t = 0, conflicts_with = "seed")]
    from: u64,
    /// This seed only.
    #[arg(long)]
    seed: Option<u64>,
    /// Print everything that happens, a line each.
    #[arg(long, requires = "seed")]
    trace: bool,
}

#[derive(Debug, Args)]
struct ReportArgs {
    /// Where the page goes.
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
        let outcome = tidegate_sim::run(seed, args.trace);
        print!("{}", outcome.trace);
        tell(&outcome);
        println!("{}", summary(&[&outcome]));
        return exit(&[outcome]);
    }
    let progress = std::io::stderr().is_terminal();
    let mut outcomes = Vec::new();
    for done in 0..args.seeds {
        if progress {
            eprint!("\rseed {} ({done} of {})", args.from + done, args.seeds);
        }
        let outcome = tidegate_sim::run(args.from + done, false);
        if !outcome.violations.is_empty() {
            if progress {
                eprint!("\r\x1b[K");
            }
            tell(&outcome);
            remember(&outcome);
        }
        outcomes.push(outcome);
    }
    if progress {
        eprint!("\r\x1b[K");
        // It is only for the eye.
        let _ = std::io::stderr().flush();
    }
    println!("{}", summary(&outcomes.iter().collect::<Vec<_>>()));
    exit(&outcomes)
}

fn tell(outcome: &SeedOutcome) {
    if outcome.violations.is_empty() {
        return;
    }
    println!("seed {} shows what must not be:", outcome.seed);
    for violation in &outcome.violations {
        println!("  {violation}");
    }
    println!("  replay: cargo run --release -p tidegate-sim -- run --seed {} --trace", outcome.seed);
}

/// Where seeds are kept that have shown something once, as seen from the root of the project.
const KEPT: &str = "sim/seeds/failed-once.txt";

/// Adds the seed to those that tests play from now on.
fn remember(outcome: &SeedOutcome) {
    let shown = outcome.violations.first().map(ToString::to_string).unwrap_or_default();
    let line = format!("{:<5} # {}", outcome.seed, shown.lines().next().unwrap_or_default());
    let file = std::fs::OpenOptions::new().append(true).open(KEPT);
    match file.and_then(|mut file| writeln!(file, "{line}")) {
        Ok(()) => println!("  added to {KEPT}, which tests play"),
        Err(error) => println!("  please add {} to {KEPT}, which tests play ({error})", outcome.seed),
    }
}

fn summary(outcomes: &[&SeedOutcome]) -> String {
    let sum = |of: fn(&SeedOutcome) -> u64| outcomes.iter().map(|outcome| of(outcome)).sum::<u64>();
    let failed = outcomes.iter().filter(|outcome| !outcome.violations.is_empty()).count();
    format!(
        "{} worlds, {failed} with violations: {} requests, {} admitted, {} decided without the store, {} commands, \
         {} promises kept",
        outcomes.len(),
        sum(|outcome| outcome.requests),
        sum(|outcome| outcome.admitted),
        sum(|outcome| outcome.without_store),
        sum(|outcome| outcome.commands),
        sum(|outcome| outcome.promises),
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
