//! How long a change takes: from the request until it is answered, until decisions follow it, and until those of another
//! node do.

use std::path::Path;

use super::api_client::{ApiClient, ApiClientError};
use super::host::{ControlHost, HostDatabase, HostOptions, write_change};
use super::tenant_tree::{TenantChange, customer_id};
use crate::report::{Bar, Figure, Report, Side};
use crate::server::ServerBenchError;
use crate::server::process::pause;
use crate::statistics::median;
use crate::stopwatch::Stopwatch;

/// The longest time in which a change must be in force, in milliseconds.
const IN_FORCE_MILLIS: f64 = 200.0;
/// Another node must follow within this time.
const FOLLOWED_SECONDS: f64 = 10.0;
const NAME: &str = "publish";

/// How long a change took, in milliseconds from its request.
#[derive(Clone, Copy, Debug)]
struct ChangeMillis {
    answered: f64,
    decided: f64,
    followed: f64,
}

/// Adds what it has measured to the report.
pub(super) fn measure(
    program: &Path,
    postgres: Option<&str>,
    quick: bool,
    report: &mut Report,
) -> Result<(), ServerBenchError> {
    let host = ControlHost::with_tenants(program, NAME, postgres)?;
    let database = postgres.map_or(HostDatabase::SqliteOf(NAME), HostDatabase::Postgres);
    let options = HostOptions { name: "publish-follower", policy: None, database };
    let follower = ControlHost::start(program, options)?;
    let mut clients = (host.admin_api()?, host.decision_api()?, follower.decision_api()?);
    let changes: u32 = if quick { 10 } else { 50 };
    let (mut measured, mut used) = (Vec::new(), 0);
    // The first one opens connections and fills caches, and is not counted.
    for number in 0..=changes {
        if number % 10 == 0 {
            eprintln!("publishing: {number} of {changes} changes");
        }
        if number == 1 {
            used = host.server.cpu_nanos().map_err(cpu_unknown)?;
        }
        let millis = one_change(&mut clients, TenantChange::nth(number))?;
        if number > 0 {
            measured.push(millis);
        }
    }
    add_to(report, &measured);
    let used = host.server.cpu_nanos().map_err(cpu_unknown)? - used;
    report.figures.push(Figure {
        what: "a change of one of 1,000 tenants: CPU time of all threads of the node".to_owned(),
        contender: "tidegate",
        value: used as f64 / 1e6 / f64::from(changes),
        unit: "ms",
    });
    Ok(())
}

fn cpu_unknown(source: std::io::Error) -> ServerBenchError {
    ServerBenchError::Talk { host: "tidegate", what: "CPU time", source: source.into() }
}

fn one_change(
    (admin, decisions, follower): &mut (ApiClient, ApiClient, ApiClient),
    change: TenantChange,
) -> Result<ChangeMillis, ServerBenchError> {
    let watch = Stopwatch::start();
    let millis = || watch.seconds() * 1e3;
    write_change(admin, change)?;
    let answered = millis();
    let is_late = || watch.seconds() > FOLLOWED_SECONDS;
    while !decides_by(decisions, change)? {
        if is_late() {
            return Err(ServerBenchError::NotFollowed("the node that it was written to"));
        }
    }
    let decided = millis();
    while !decides_by(follower, change)? {
        if is_late() {
            return Err(ServerBenchError::NotFollowed("another node"));
        }
        pause();
    }
    Ok(ChangeMillis { answered, decided, followed: millis() })
}

/// Does a decision about the tenant have the new burst?
fn decides_by(decisions: &mut ApiClient, change: TenantChange) -> Result<bool, ApiClientError> {
    let tenant = customer_id(change.customer);
    let decision =
        decisions.call("POST", "/v1/check", "application/json", &format!(r#"{{"tenant":"{tenant}"}}"#))?;
    let name = format!("tenant:{tenant}");
    let limits = decision["limits"].as_array().map(Vec::as_slice).unwrap_or_default();
    Ok(limits.iter().any(|limit| limit["name"] == name && limit["limit"] == change.capacity))
}

fn add_to(report: &mut Report, measured: &[ChangeMillis]) {
    let all = |of: fn(&ChangeMillis) -> f64| -> Vec<f64> { measured.iter().map(of).collect() };
    let decided = all(|change| change.decided);
    let columns = [
        ("answered", &all(|change| change.answered)),
        ("followed by decisions", &decided),
        ("followed by decisions of another node", &all(|change| change.followed)),
    ];
    for (what, millis) in columns {
        for (which, value) in [("median", middle(millis)), ("longest", longest(millis))] {
            let what = format!("a change of one of 1,000 tenants: {what}, {which}");
            report.figures.push(Figure { what, contender: "tidegate", value, unit: "ms" });
        }
    }
    let name = "a change of one of 1,000 tenants: validated, published and followed by decisions, median";
    report.bars.push(Bar::new(name, middle(&decided), Side::AtMost, IN_FORCE_MILLIS, "ms"));
}

fn middle(millis: &[f64]) -> f64 {
    median(millis).unwrap_or(f64::NAN)
}

fn longest(millis: &[f64]) -> f64 {
    millis.iter().copied().reduce(f64::max).unwrap_or(f64::NAN)
}
