//! Measures how fast a trace runs through the real engine, on one core.

mod trace;
mod yardstick;

use std::process::ExitCode;

use clap::builder::RangedU64ValueParser;
use tidegate_policy::{Policy, PolicyError};
use tidegate_server::replay::{ReplaySettings, SimulateError, run as simulate};

use crate::report::{Bar, Figure, Report, Side};
use crate::stopwatch::CpuWatch;
use trace::Lines;

/// Simulation: a trace of a million requests against three limits, on one core.
///
/// Parsing, deciding and writing are all included; the trace and the decisions are in memory.
/// Times are CPU seconds of the thread. The bar (threshold) is a ratio to a fixed loop over the same
/// trace, run in turn with it, so that it is the same on a slow or busy machine.
/// Exit 0: done; 1: the bar was missed (with --check) or measuring failed; 2: bad usage.
#[derive(Debug, clap::Args)]
pub(crate) struct SimulateArgs {
    /// Exit 1 if the bar is missed
    #[arg(long)]
    check: bool,
    /// Print JSON instead of tables
    #[arg(long)]
    json: bool,
    /// The number of requests in the trace
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = RangedU64ValueParser::<u32>::new().range(1_000..=10_000_000))]
    lines: u32,
    /// The number of runs; the fastest counts, because other programs use the machine too
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = RangedU64ValueParser::<usize>::new().range(1..=1_000))]
    rounds: usize,
}

/// Why a measurement failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SpeedError {
    #[error("the generated policy is invalid: {0}")]
    Policy(#[from] PolicyError),
    #[error("the generated trace does not run: {0}")]
    Run(#[from] SimulateError),
    #[error("could not write JSON: {0}")]
    Json(#[from] serde_json::Error),
}

/// The least number of decisions per line of the fixed loop. It was 1.5 when this was set, on a machine on which the
/// loop did 239,000 lines a second.
const RATIO_LEAST: f64 = 1.2;

/// The default number of keys of the command `simulate`.
const MAX_KEYS: usize = 1_000_000;

const CONTENDER: &str = "tidegate simulate";
const YARDSTICK: &str = "fixed loop";

/// Measures, and prints the results.
pub(crate) fn run(args: &SimulateArgs) -> Result<ExitCode, SpeedError> {
    let mut report = Report::default();
    let plain = measure(args, &mut report, "plain lines", Lines::Plain)?;
    measure(args, &mut report, "lines of a gateway", Lines::Gateway)?;
    let name = "simulation on one core: decisions for each line of a fixed loop, plain lines, kept in memory";
    report.bars.push(Bar::new(name, plain, Side::AtLeast, RATIO_LEAST, ""));
    Ok(report.finish(args.json, args.check)?)
}

/// Decisions, kept in memory, for each line of the fixed loop.
fn measure(args: &SimulateArgs, report: &mut Report, label: &str, kind: Lines) -> Result<f64, SpeedError> {
    let lines = trace::lines(args.lines as usize, kind);
    eprintln!("measuring: {label}, decisions thrown away");
    let (mut sunk, mut denied) = (f64::INFINITY, 0);
    for _ in 0..args.rounds {
        let (seconds, refused) = run_once(&lines, std::io::sink())?;
        (sunk, denied) = (sunk.min(seconds), refused);
    }
    eprintln!("measuring: {label}, decisions kept in memory, and a fixed loop in turn");
    let (mut kept, mut looped) = (Vec::new(), Vec::new());
    let (mut stored, mut fixed) = (f64::INFINITY, f64::INFINITY);
    for _ in 0..args.rounds {
        kept.clear();
        stored = stored.min(run_once(&lines, &mut kept)?.0);
        looped.clear();
        let watch = CpuWatch::start();
        yardstick::run(&lines, &mut looped)?;
        fixed = fixed.min(watch.seconds());
    }
    let a_second = |seconds: f64| f64::from(args.lines) / seconds;
    let each = |bytes: usize| bytes as f64 / f64::from(args.lines);
    let figures = [
        ("bytes of a line, on average", each(lines.len()), "bytes"),
        ("bytes of a decision, on average", each(kept.len()), "bytes"),
        ("denied", denied as f64, "requests"),
        ("decisions, thrown away", a_second(sunk), "a second"),
        ("decisions, kept in memory", a_second(stored), "a second"),
    ];
    for (what, value, unit) in figures {
        report.figures.push(Figure { what: format!("{label}: {what}"), contender: CONTENDER, value, unit });
    }
    let what = format!("{label}: read, counted and written");
    report.figures.push(Figure { what, contender: YARDSTICK, value: a_second(fixed), unit: "a second" });
    Ok(fixed / stored)
}

/// CPU seconds for the whole trace, and the number of denied requests.
fn run_once(lines: &str, out: impl std::io::Write) -> Result<(f64, u64), SpeedError> {
    let policy = Policy::parse(trace::POLICY)?;
    let watch = CpuWatch::start();
    let summary = simulate(policy, ReplaySettings::default(), MAX_KEYS, lines.as_bytes(), out, |_| {})?;
    Ok((watch.seconds(), summary.requests - summary.allowed))
}
