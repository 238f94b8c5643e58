//! Looking up the keys of a request, against a check of the same request: both are asked one after the other, over HTTP,
//! on a Redis that has the buckets of three limits.

use std::path::Path;

use super::api_client::{ApiClient, ApiClientError};
use super::host::{ControlHost, HostDatabase, HostOptions, StoreHost};
use crate::report::{Bar, Figure, Report, Side};
use crate::server::ServerBenchError;
use crate::statistics::{median, median_ratio};
use crate::stopwatch::Stopwatch;

/// Three limits that admit every request.
const POLICY: &str = "version: 1
limits:
- { name: per-user, key: [user], sustained: { rate: 10 }, burst: { capacity: 1000000000 } }
- { name: per-route, key: [route], sustained: { rate: 100 }, burst: { capacity: 1000000000 } }
- { name: overall, sustained: { rate: 1000 }, burst: { capacity: 1000000000 } }
";
const REQUEST: &str = r#"{"user":"42","path":"/orders"}"#;
/// A lookup takes at most this many times as long as a check.
const TIMES_MAX: f64 = 2.0;

/// Adds what it has measured to the report.
pub(super) fn measure(program: &Path, quick: bool, report: &mut Report) -> Result<(), ServerBenchError> {
    let redis = StoreHost::start()?;
    let options = HostOptions { name: "lookup", policy: Some(POLICY), database: HostDatabase::None };
    let host = ControlHost::start_with(program, options, &redis.settings("strict"))?;
    let (mut admin, mut decisions) = (host.admin_api()?, host.decision_api()?);
    let (rounds, calls) = if quick { (3, 100) } else { (9, 300) };
    let asked = format!(r#"{{"request":{REQUEST}}}"#);
    let (mut lookups, mut checks) = (Vec::new(), Vec::new());
    // The first round opens connections and fills caches, and is not counted.
    for round in 0..=rounds {
        let check = micros(&mut decisions, "/v1/check", REQUEST, calls)?;
        let lookup = micros(&mut admin, "/api/v1/keys/lookup", &asked, calls)?;
        if round > 0 {
            checks.push(check);
            lookups.push(lookup);
        }
    }
    for (what, values) in [("a check of three limits", &checks), ("a lookup of its keys", &lookups)] {
        let value = median(values).unwrap_or(f64::NAN);
        let what = format!("{what} on Redis, one at a time, median");
        report.figures.push(Figure { what, contender: "tidegate", value, unit: "µs" });
    }
    let times = median_ratio(&lookups, &checks).unwrap_or(f64::NAN);
    report.bars.push(Bar::new("a lookup, times a check", times, Side::AtMost, TIMES_MAX, ""));
    Ok(())
}

/// The median time of a call, in microseconds.
fn micros(client: &mut ApiClient, path: &str, body: &str, calls: usize) -> Result<f64, ApiClientError> {
    let mut all = Vec::with_capacity(calls);
    for _ in 0..calls {
        let watch = Stopwatch::start();
        client.call("POST", path, "application/json", body)?;
        all.push(watch.nanos() / 1e3);
    }
    Ok(median(&all).unwrap_or(f64::NAN))
}
