//! Measures the library alone, within this process.

mod bars;
mod batches;
mod cases;
mod flood;
mod hot;
mod keyed;
mod latency;
mod memory;
mod notes;
mod placement;
mod setup;

use std::process::ExitCode;

use clap::ValueEnum;

pub(crate) use memory::{FillArgs, fill};
pub(crate) use setup::InprocessArgs;

use crate::report::Report;
use setup::Setup;

/// Why a measurement failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BenchError {
    #[error(
        "{contender} answered {allowed} times yes and {denied} times no in the case `{case}`, where only one of them is right: its times are meaningless"
    )]
    Unexpected { case: String, contender: &'static str, allowed: u64, denied: u64 },
    #[error("the table evicted {evictions} keys during the measurement, so its times are meaningless")]
    Forgot { evictions: u64 },
    #[error("could not measure memory in a separate process: {0}")]
    Fill(String),
    #[error("could not write JSON: {0}")]
    Json(#[from] serde_json::Error),
}

/// The parts that can be measured separately, in this order: resident memory first, before other parts leave freed
/// memory behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum InprocessPart {
    /// A single bucket
    Hot,
    /// Memory per key
    Memory,
    /// Far more keys than the table has slots
    Flood,
    /// How many keys find no slot in a table with enough slots
    Placement,
    /// Many keys, uniform and Zipf, against other limiters and the bare compare-and-swap
    Keyed,
    /// Many keys in batches
    Batches,
    /// The latency of single decisions under load
    Latency,
}

/// Measures, and prints the results.
pub(crate) fn run(args: &InprocessArgs) -> Result<ExitCode, BenchError> {
    let setup = Setup::new(args);
    let mut report = Report::default();
    for &part in InprocessPart::value_variants().iter().filter(|&&part| setup.includes(part)) {
        match part {
            InprocessPart::Hot => hot::run(&setup, &mut report)?,
            InprocessPart::Keyed => keyed::run(&setup, &mut report)?,
            InprocessPart::Batches => batches::run(&setup, &mut report)?,
            InprocessPart::Memory => memory::run(&setup, &mut report)?,
            InprocessPart::Flood => flood::run(&setup, &mut report),
            InprocessPart::Placement => placement::run(&setup, &mut report),
            InprocessPart::Latency => latency::run(&setup, &mut report),
        }
    }
    report.notes = notes::of(&setup);
    Ok(report.finish(args.json, args.check)?)
}

/// Prints progress to standard error.
fn progress(what: &str) {
    eprintln!("measuring: {what}");
}
