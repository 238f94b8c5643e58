//! Loads that change over time: latency and memory, second by second.

mod open_loop;
mod seconds;
mod shapes;

use std::path::Path;
use std::process::ExitCode;

pub(crate) use seconds::{ProfileSecond, table};
pub(crate) use shapes::{LoadPlan, LoadShape};

use super::hosts::RunningServer;
use super::lanes::{ListenerKind, ServerKind};
use super::{ServerBenchError, megabytes};
use crate::report::{Bar, Figure, Report, Side};
use crate::resident;
use shapes::Schedule;

/// The largest growth of memory while no new keys are used.
const GROWTH_MOST: f64 = 1.05;

const WHAT: &str = "/v1/check, three limits";

/// Runs one shape against Tidegate, and prints it second by second.
pub(crate) fn run(
    plan: LoadPlan,
    bin: Option<&Path>,
    json: bool,
    check: bool,
) -> Result<ExitCode, ServerBenchError> {
    let host = ServerKind::Tidegate;
    let running = RunningServer::start(host, bin)?;
    let process = running.server.id();
    let schedule = Schedule::new(plan.stages());
    let outcome = open_loop::run(
        running.address(ListenerKind::Http),
        schedule,
        &|| resident::of(process),
        &mut |second| eprintln!("{}", second.line()),
    );
    let outcome =
        outcome.map_err(|source| ServerBenchError::Talk { host: host.name(), what: WHAT, source })?;
    let mut report = Report::default();
    let (what, value) = ("resident memory, idle".to_owned(), megabytes(running.server.idle_bytes));
    report.figures.push(Figure { what, contender: host.name(), value, unit: "MB" });
    let unanswered = outcome.unanswered as f64;
    report.bars.push(Bar::new("requests without an answer", unanswered, Side::AtMost, 0.0, ""));
    if plan.shape == LoadShape::Soak {
        let growth = seconds::memory_growth(&outcome.seconds);
        let name = "flat memory: the last quarter's, in the second quarter's";
        report.bars.push(Bar::new(name, growth, Side::AtMost, GROWTH_MOST, "x"));
    }
    report.seconds = outcome.seconds;
    Ok(report.finish(json, check)?)
}
