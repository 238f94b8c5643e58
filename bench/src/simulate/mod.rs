//! How fast a trace runs through the real engine, on one core.

mod trace;

use std::process::ExitCode;

use clap::builder::RangedU64ValueParser;
use tidegate_policy::{Policy, PolicyError};
use tidegate_server::simulate::{SimulateError, run as simulate};

use crate::report::{Bar, Figure, Report, Side};
use crate::stopwatch::CpuWatch;
use trace::Lines;

/// Simulation: a trace of a million requests against three limits, on one core.
///
/// Reading, deciding and writing are all counted; the trace and the decisions are in memory.
/// Seconds are those that the thread had a processor.
/// Exit 0: done; 1: the bar was missed (with --check) or measuring failed; 2: bad usage.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Exit 1 if the bar is missed
    #[arg(long)]
    check: bool,
    /// Print JSON instead of tables
    #[arg(long)]
    json: bool,
    /// How many requests the trace has
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = RangedU64ValueParser::<u32>::new().range(1_000..=10_000_000))]
    lines: u32,
    /// How often it is run; the best counts, since others use the machine too
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = RangedU64ValueParser::<usize>::new().range(1..=1_000))]
    rounds: usize,
}

/// Why there is nothing to report.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SpeedError {
    #[error("the policy that was made up is none: {0}")]
    Policy(#[from] PolicyError),
    #[error("the trace that was made up does not run: {0}")]
    Run(#[from] SimulateError),
    #[error("could not write JSON: {0}")]
    Json(#[from] serde_json::Error),
}

/// Decisions that a second must bring.
const PER_SECOND_LEAST: f64 = 500_000.0;

/// As many keys as the command has room for by default.
const MAX_KEYS: usize = 1_000_000;

const CONTENDER: &str = "tidegate simulate";

/// Measures, and prints what came out.
pub(crate) fn run(args: &Args) -> Result<ExitCode, SpeedError> {
    let mut report = Report::default();
    let plain = measure(args, &mut report, "plain lines", Lines::Plain)?;
    measure(args, &mut report, "lines of a gateway", Lines::Gateway)?;
    let name = "simulation on one core: decisions a second, plain lines, kept in memory";
    report.bars.push(Bar::new(name, plain, Side::AtLeast, PER_SECOND_LEAST, ""));
    Ok(report.finish(args.json, args.check)?)
}

/// Decisions a second, kept in memory.
fn measure(args: &Args, report: &mut Report, label: &str, kind: Lines) -> Result<f64, SpeedError> {
    let lines = trace::lines(args.lines as usize, kind);
    eprintln!("measuring: {label}, decisions thrown away");
    let (sunk, denied) = best(args, || run_once(&lines, std::io::sink()))?;
    eprintln!("measuring: {label}, decisions kept in memory");
    let mut kept = Vec::new();
    let (stored, _) = best(args, || {
        kept.clear();
        run_once(&lines, &mut kept)
    })?;
    let each = |bytes: usize| bytes as f64 / f64::from(args.lines);
    let figures = [
        ("bytes of a line, on average", each(lines.len()), "bytes"),
        ("bytes of a decision, on average", each(kept.len()), "bytes"),
        ("denied", denied as f64, "requests"),
        ("decisions, thrown away", sunk, "a second"),
        ("decisions, kept in memory", stored, "a second"),
    ];
    for (what, value, unit) in figures {
        report.figures.push(Figure { what: format!("{label}: {what}"), contender: CONTENDER, value, unit });
    }
    Ok(stored)
}

/// The most decisions a second in any round, and how many were denials.
fn best(
    args: &Args,
    mut once: impl FnMut() -> Result<(f64, u64), SpeedError>,
) -> Result<(f64, u64), SpeedError> {
    let (mut fastest, mut denied) = (f64::INFINITY, 0);
    for _ in 0..args.rounds {
        let (seconds, refused) = once()?;
        (fastest, denied) = (fastest.min(seconds), refused);
    }
    Ok((f64::from(args.lines) / fastest, denied))
}

/// Seconds of the processor for the whole trace, and how many were denied.
fn run_once(lines: &str, out: impl std::io::Write) -> Result<(f64, u64), SpeedError> {
    let policy = Policy::parse(trace::POLICY)?;
    let watch = CpuWatch::start();
    let summary = simulate(policy, MAX_KEYS, lines.as_bytes(), out, |_| {})?;
    Ok((watch.seconds(), summary.requests - summary.allowed))
}
