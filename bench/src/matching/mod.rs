//! Measures the time to find the limits that apply among many, and the time of a whole check.

mod checks;
mod shapes;

use std::hint::black_box;
use std::process::ExitCode;

use clap::builder::RangedU64ValueParser;
use tidegate::engine::{Limiter, LimiterError};
use tidegate::{LimitError, MemoryError, MemoryOptions, MonotonicClock};
use tidegate_policy::{Policy, PolicyError};

use crate::report::{Bar, Figure, Report, Side};
use crate::rounds::{Contender, RoundPlan, measure};
use crate::stopwatch::Stopwatch;
use shapes::{APPLYING, PolicyShape};

/// Matching: policies of 10 to 10,000 limits, three of which apply.
///
/// Prints the time of planning and of a whole check for each size, then the bars (thresholds): 10,000
/// limits must not take much longer than 10.
/// Exit 0: done; 1: a bar was missed (with --check) or measuring failed; 2: bad usage.
#[derive(Debug, clap::Args)]
pub(crate) struct MatchingArgs {
    /// Exit 1 if a bar is missed
    #[arg(long)]
    check: bool,
    /// Print JSON instead of tables
    #[arg(long)]
    json: bool,
    /// The number of rounds of each case; results are medians over the rounds
    #[arg(long, value_name = "N", default_value_t = 9, value_parser = RangedU64ValueParser::<usize>::new().range(1..=1_000))]
    rounds: usize,
}

/// Why a measurement failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MatchingError {
    #[error("the generated policy is invalid: {0}")]
    Policy(#[from] PolicyError),
    #[error(transparent)]
    Limits(#[from] LimitError),
    #[error(transparent)]
    Limiter(#[from] LimiterError),
    #[error(transparent)]
    Memory(#[from] MemoryError),
    #[error("{applying} limits apply in the case `{case}`, where {APPLYING} must: its times are meaningless")]
    Unexpected { case: String, applying: usize },
    #[error("could not write JSON: {0}")]
    Json(#[from] serde_json::Error),
}

/// The number of limits of a policy, and its name in the table.
const SIZES: [(usize, &str); 4] =
    [(10, "10 limits"), (100, "100 limits"), (1_000, "1,000 limits"), (10_000, "10,000 limits")];

/// The largest allowed ratio of the largest policy's time to the smallest's.
const GROWTH_MOST: f64 = 1.5;

/// Timed operations in a round, and before them.
const OPS: usize = 40_000;
const WARM_UP: usize = 4_000;

/// Few keys, so that the table stays in the cache and does not affect the results.
const OPTIONS: MemoryOptions = MemoryOptions { max_keys: 1_000, max_log_entries: 0 };

/// Measures, and prints the results.
pub(crate) fn run(args: &MatchingArgs) -> Result<ExitCode, MatchingError> {
    let mut report = Report::default();
    for shape in PolicyShape::ALL {
        eprintln!("measuring: {shape}");
        measure_shape(shape, args.rounds, &mut report)?;
    }
    eprintln!("measuring: a check and its parts");
    checks::run(args.rounds, &mut report)?;
    report.notes.push(
        "the same request is checked again and again, so that all it needs is in the cache at every size",
    );
    Ok(report.finish(args.json, args.check)?)
}

/// A policy of one size, in use.
struct Loaded {
    name: &'static str,
    limiter: Limiter,
    /// The same rules, to plan without deciding.
    policy: Policy,
}

impl Loaded {
    fn load(
        shape: PolicyShape,
        (limits, name): (usize, &'static str),
    ) -> Result<(Loaded, f64), MatchingError> {
        let text = shapes::document(shape, limits);
        let watch = Stopwatch::start();
        let limiter = Limiter::in_memory(Policy::parse(&text)?, OPTIONS, MonotonicClock::new())?;
        let millis = watch.nanos() / 1e6;
        Ok((Loaded { name, limiter, policy: Policy::parse(&text)? }, millis))
    }
}

fn measure_shape(shape: PolicyShape, rounds: usize, report: &mut Report) -> Result<(), MatchingError> {
    let mut sizes = Vec::new();
    let mut loading = 0.0;
    for size in SIZES {
        let (loaded, millis) = Loaded::load(shape, size)?;
        let applying = loaded.limiter.check(&shapes::request()).limits().len();
        if applying != APPLYING {
            return Err(MatchingError::Unexpected { case: format!("{shape}, {}", loaded.name), applying });
        }
        sizes.push(loaded);
        loading = millis;
    }
    let request = &shapes::request();
    let planning = |loaded: &Loaded| {
        let rules = &loaded.policy.rules;
        let count = || black_box(rules.plan(&rules.facts(black_box(request)))).items().len() == APPLYING;
        count()
    };
    measure_sizes(shape, "planning", &sizes, planning, rounds, report);
    let checking = |loaded: &Loaded| loaded.limiter.check(black_box(request)).is_allowed();
    measure_sizes(shape, "check", &sizes, checking, rounds, report);
    let (what, contender) = (format!("{shape}: loading the document"), SIZES[SIZES.len() - 1].1);
    report.figures.push(Figure { what, contender, value: loading, unit: "ms" });
    Ok(())
}

/// Measures all sizes in turn, and adds a bar for the largest.
fn measure_sizes(
    shape: PolicyShape,
    what: &str,
    sizes: &[Loaded],
    ask: impl Fn(&Loaded) -> bool + Sync,
    rounds: usize,
    report: &mut Report,
) {
    let ask = &ask;
    let contenders: Vec<Contender<'_>> = sizes
        .iter()
        .map(|loaded| Contender::new(loaded.name, move |share| share.each_time(|| ask(loaded))))
        .collect();
    let plan = RoundPlan { rounds, threads: 1, ops: OPS, warm_up: WARM_UP, sequences: &[] };
    let lanes = measure(&contenders.iter().collect::<Vec<_>>(), &plan);
    for lane in &lanes {
        let what = format!("{shape}: {what}");
        report.figures.push(Figure { what, contender: lane.name, value: lane.median_nanos(), unit: "ns" });
    }
    if let [smallest, .., largest] = &lanes[..] {
        let name = format!("{shape}: {what}, {}, in {}'s", largest.name, smallest.name);
        let times = largest.times(smallest).unwrap_or(f64::NAN);
        report.bars.push(Bar::new(name, times, Side::AtMost, GROWTH_MOST, "x"));
    }
}
