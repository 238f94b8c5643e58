//! The library alone, within this process.

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

/// Why there is nothing to report.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BenchError {
    #[error(
        "{contender} answered {allowed} times yes and {denied} times no in the case `{case}`, which is not what it is about: its times mean nothing"
    )]
    Unexpected { case: String, contender: &'static str, allowed: u64, denied: u64 },
    #[error("the table forgot {evictions} keys while it was measured, so that its times mean nothing")]
    Forgot { evictions: u64 },
    #[error("could not measure memory in a process of its own: {0}")]
    Fill(String),
    #[error("could not write JSON: {0}")]
    Json(#[from] serde_json::Error),
}

/// What can be measured alone, in this order: resident memory before what leaves some behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum InprocessPart {
    /// A single bucket
    Hot,
    /// Bytes for a key
    Memory,
    /// Far more keys than the table is for
    Flood,
    /// How many keys find no place in a table that is not overfull
    Placement,
    /// Many keys, uniform and by Zipf's law, against peers and the bare compare-and-swap
    Keyed,
    /// Many keys in batches
    Batches,
    /// How long single decisions take under load
    Latency,
}

/// Measures, and prints what came out.
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

/// Says on the error stream what is going on.
fn progress(what: &str) {
    eprintln!("measuring: {what}");
}
