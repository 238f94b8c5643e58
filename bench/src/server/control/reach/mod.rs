//! How long an action on live state takes until every node decides by it: on nodes that share a Redis, a database or both,
//! and on one node alone.

mod actions;
mod candidates;
mod cells;
mod expiry;
mod fleet;

use std::path::Path;

pub(crate) use cells::{ReachCell, table};

use crate::report::{Bar, Report, Side};
use crate::server::ServerBenchError;
use actions::{Measured, Round};
use fleet::{Fleet, FleetKind};

/// Every action must be followed by all nodes within this time, in milliseconds.
const FOLLOWED_MILLIS: f64 = 1_000.0;
/// When waiting is given up: that is no longer a measurement but a fault.
pub(crate) const REACH_SECONDS: f64 = 10.0;

/// Adds what it has measured to the report.
pub(super) fn measure(
    program: &Path,
    postgres: Option<&str>,
    quick: bool,
    report: &mut Report,
) -> Result<(), ServerBenchError> {
    let rounds = if quick { 5 } else { 20 };
    for kind in FleetKind::ALL {
        let fleet = Fleet::start(kind, program, postgres)?;
        let measured = fleet.under_load(|| rounds_on(&fleet, rounds))?;
        let cells = ReachCell::of(kind.name(), &measured);
        let longest = cells.iter().map(|cell| cell.longest_millis).reduce(f64::max).unwrap_or(f64::NAN);
        let name = format!("{}: every action, followed by all nodes, longest", kind.name());
        report.bars.push(Bar::new(name, longest, Side::AtMost, FOLLOWED_MILLIS, "ms"));
        report.reach.extend(cells);
    }
    Ok(())
}

fn rounds_on(fleet: &Fleet, rounds: usize) -> Result<Vec<Measured>, ServerBenchError> {
    let mut all = Vec::new();
    // The first round opens connections and fills caches, and is not counted.
    for number in 0..=rounds {
        eprintln!("{}: round {number} of {rounds} of all actions", fleet.kind.name());
        let mut round = Round { fleet, number, measured: Vec::new() };
        round.run()?;
        if number > 0 {
            all.append(&mut round.measured);
        }
    }
    Ok(all)
}
