//! What changes of the policy cost the threads that decide: decisions at one change a second, compared with no changes.

use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use super::api_client::{ApiClient, ApiClientError};
use super::host::{ControlHost, write_change};
use super::tenant_tree::TenantChange;
use super::{DECIDING, LEAST_LEFT, LOAD, decisions_figure, others_figure, per_cpu_second};
use crate::report::{Bar, Figure, Report, Side};
use crate::server::ServerBenchError;
use crate::server::closed_loop::{self, LoadDurations, TurnResult};
use crate::server::limits::{KeyPopulation, KeySequence};
use crate::server::wire::http::Http;
use crate::statistics::median_ratio;
use crate::stopwatch::Stopwatch;

const WARM_UP: Duration = Duration::from_millis(300);
/// As many changes as seconds fall into this.
const MEASURED: Duration = Duration::from_secs(2);
/// The first change of a turn comes after this time, so that all that follows from the last one is measured too.
const FIRST_CHANGE: Duration = Duration::from_millis(800);
const CHANGE_PERIOD: Duration = Duration::from_secs(1);

/// Adds what it has measured to the report.
pub(super) fn measure(
    program: &Path,
    postgres: Option<&str>,
    quick: bool,
    report: &mut Report,
) -> Result<(), ServerBenchError> {
    let host = ControlHost::with_tenants(program, "writing", postgres)?;
    let rounds = if quick { 5 } else { 15 };
    let (mut without, mut with, mut changes) = (Vec::new(), Vec::new(), 0);
    for round in 0..rounds {
        eprintln!("deciding while the policy changes: round {} of {rounds}", round + 1);
        // In turns, so that neither of the two always comes first.
        for is_changing in [round % 2 == 0, round % 2 == 1] {
            if is_changing {
                let (turn, done) = turn_with_changes(&host, round, changes)?;
                changes = done;
                with.push(turn);
            } else {
                without.push(turn(&host, round)?);
            }
        }
    }
    report.figures.push(decisions_figure("deciding: no changes, for each CPU-second".to_owned(), &without));
    report
        .figures
        .push(decisions_figure("deciding: one change a second, for each CPU-second".to_owned(), &with));
    let per_round = f64::from(changes) / rounds as f64;
    report.figures.push(Figure {
        what: "deciding: changes in each turn of two seconds".to_owned(),
        contender: "tidegate",
        value: per_round,
        unit: "",
    });
    report.figures.push(others_figure("deciding", &[&without, &with]));
    let left = median_ratio(&per_cpu_second(&with), &per_cpu_second(&without)).unwrap_or(f64::NAN);
    let name = "decisions per CPU-second at one change a second, in those without changes";
    report.bars.push(Bar::new(name, left, Side::AtLeast, LEAST_LEFT, "x"));
    Ok(())
}

/// Decisions for the tenants, for one turn.
fn turn(host: &ControlHost, round: u64) -> Result<TurnResult, ServerBenchError> {
    let (server, what) = ("tidegate", "decisions for tenants");
    let mut keys = KeySequence::of(KeyPopulation::Tenants, round);
    let spans = LoadDurations { warm_up: WARM_UP, measured: MEASURED };
    let cpu = || host.server.cpu_nanos_of(DECIDING);
    let protocol = || Box::new(Http::check_tenant()) as _;
    let turn = closed_loop::run(host.http, protocol, LOAD, &mut keys, spans, &cpu);
    let turn = turn.map_err(|source| ServerBenchError::Talk { host: server, what, source })?;
    match KeyPopulation::Tenants.expects(turn.verdicts) {
        true => Ok(turn),
        false => Err(ServerBenchError::Verdicts { host: server, what, verdicts: turn.verdicts }),
    }
}

/// The same while the policy changes. Changes are numbered from `next`; also returns the next number.
fn turn_with_changes(
    host: &ControlHost,
    round: u64,
    next: u32,
) -> Result<(TurnResult, u32), ServerBenchError> {
    // The server closes a connection that is not used for some seconds.
    let mut admin = host.admin_api()?;
    let (end, ended) = channel();
    std::thread::scope(|scope| {
        let writer = scope.spawn(move || change_until(&ended, &mut admin, next));
        let turn = turn(host, round);
        drop(end);
        let changed = writer.join().expect("it does not panic");
        Ok((turn?, changed?))
    })
}

/// Changes the policy once a second until the other side is dropped.
fn change_until(ended: &Receiver<()>, admin: &mut ApiClient, mut next: u32) -> Result<u32, ApiClientError> {
    let (watch, mut due) = (Stopwatch::start(), FIRST_CHANGE);
    loop {
        let pause = due.saturating_sub(Duration::from_secs_f64(watch.seconds()));
        if ended.recv_timeout(pause) != Err(RecvTimeoutError::Timeout) {
            return Ok(next);
        }
        write_change(admin, TenantChange::nth(next))?;
        next += 1;
        due += CHANGE_PERIOD;
    }
}
