//! How a server has used its store, from its `/metrics`.

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
        let mut stream = TcpStream::connect(admin)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        write!(stream, "GET /metrics HTTP/1.1\r\nhost: {admin}\r\nconnection: close\r\n\r\n")?;
        let mut page = String::new();
        stream.read_to_string(&mut page)?;
        StoreUse::of(&page)
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
    fn what_is_not_told_is_no_zero() {
        let error = StoreUse::of("HTTP/1.1 404 Not Found\r\n\r\n").unwrap_err();
        assert_eq!(error.to_string(), "there is no tidegate_requests_total");
    }
}
