//! How a server has used its store and its database, from its `/metrics`.

use std::io::{Error, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// The timeout for `/metrics`.
const PATIENCE: Duration = Duration::from_secs(5);

/// Counts since the start of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StoreUse {
    /// Decisions.
    pub(crate) decisions: u64,
    /// Calls to Redis about limits.
    pub(crate) calls: u64,
    /// Decisions that limits made without Redis because it failed.
    pub(crate) fallbacks: u64,
}

impl StoreUse {
    /// Reads them from the admin listener at this address.
    pub(crate) fn read(admin: SocketAddr) -> std::io::Result<StoreUse> {
        StoreUse::of(&read_page(admin)?)
    }

    fn of(page: &str) -> std::io::Result<StoreUse> {
        let sum = |metric: &str| sum(page, metric).ok_or_else(|| missing(metric));
        Ok(StoreUse {
            decisions: sum("tidegate_requests_total")?,
            calls: sum("tidegate_store_calls_total")?,
            fallbacks: sum("tidegate_store_fallback_decisions_total")?,
        })
    }

    /// Calls to Redis per thousand decisions.
    pub(crate) fn calls_per_thousand(self) -> f64 {
        self.calls as f64 * 1e3 / self.decisions as f64
    }
}

/// What became of the events of a server with a database, since its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordUse {
    /// Rows that were written.
    pub(crate) written: u64,
    /// Events that wait to be written.
    pub(crate) waiting: u64,
    /// Events that were merged into one for each name, without details.
    pub(crate) merged: u64,
    /// Events that were lost.
    pub(crate) lost: u64,
}

impl RecordUse {
    /// Reads them from the admin listener at this address.
    pub(crate) fn read(admin: SocketAddr) -> std::io::Result<RecordUse> {
        RecordUse::of(&read_page(admin)?)
    }

    fn of(page: &str) -> std::io::Result<RecordUse> {
        let sum = |metric: &str| sum(page, metric).ok_or_else(|| missing(metric));
        Ok(RecordUse {
            written: sum("tidegate_events_written_total")?,
            waiting: sum("tidegate_records_waiting")?,
            merged: sum("tidegate_events_merged_total")?,
            lost: sum("tidegate_events_dropped_total")?,
        })
    }
}

fn read_page(admin: SocketAddr) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(admin)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    write!(stream, "GET /metrics HTTP/1.1\r\nhost: {admin}\r\nconnection: close\r\n\r\n")?;
    let mut page = String::new();
    stream.read_to_string(&mut page)?;
    Ok(page)
}

/// The sum over all labels; `None` if the metric is missing.
fn sum(page: &str, metric: &str) -> Option<u64> {
    let values = page.lines().filter_map(|line| {
        let rest = line.strip_prefix(metric)?;
        // Skip other metrics whose names have the same prefix.
        let is_it = rest.starts_with(['{', ' ']);
        is_it.then(|| rest.rsplit(' ').next()?.parse::<u64>().ok()).flatten()
    });
    values.reduce(|sum, value| sum + value)
}

fn missing(metric: &str) -> Error {
    Error::new(ErrorKind::InvalidData, format!("there is no {metric}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "HTTP/1.1 200 OK\r\n\r\n# TYPE tidegate_requests_total counter
tidegate_requests_total{protocol=\"http\"} 1500
tidegate_requests_total{protocol=\"resp\"} 500
tidegate_store_calls_total 4
tidegate_store_calls_total_of_another_kind 7
tidegate_store_fallback_decisions_total{choice=\"local\"} 0
";

    #[test]
    fn labels_are_summed_up() {
        let store_use = StoreUse::of(PAGE).unwrap();
        assert_eq!(store_use, StoreUse { decisions: 2_000, calls: 4, fallbacks: 0 });
        assert!((store_use.calls_per_thousand() - 2.0).abs() < 1e-9);
    }

    #[test]
    fn records_are_counted_by_what_became_of_them() {
        let page = "tidegate_events_written_total{sink=\"database\"} 70\ntidegate_records_waiting 3
tidegate_events_merged_total 2\ntidegate_events_dropped_total{place=\"database\"} 0
tidegate_events_dropped_total{place=\"queue\"} 1\n";
        let counted = RecordUse::of(page).unwrap();
        assert_eq!(counted, RecordUse { written: 70, waiting: 3, merged: 2, lost: 1 });
    }

    #[test]
    fn what_is_not_told_is_no_zero() {
        let error = StoreUse::of("HTTP/1.1 404 Not Found\r\n\r\n").unwrap_err();
        assert_eq!(error.to_string(), "there is no tidegate_requests_total");
    }
}
