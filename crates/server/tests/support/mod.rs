//! Helpers of the tests: a temporary directory, a running server, a Redis and a PostgreSQL server. Each is removed when
//! its test ends.

pub(crate) mod home;
#[path = "../../../database/tests/support/postgres.rs"]
pub(crate) mod postgres;
pub(crate) mod redis;
pub(crate) mod server;

use std::time::Duration;

use tidegate::{Clock, MonotonicClock};

/// Waits until `holds` returns true; panics after `most`.
pub(crate) fn within(most: Duration, what: &str, mut holds: impl FnMut() -> bool) {
    let clock = MonotonicClock::new();
    let last = clock.now().saturating_add(most.into());
    while !holds() {
        assert!(clock.now() < last, "not within {most:?}: {what}");
        std::thread::park_timeout(Duration::from_millis(20));
    }
}
