//! Signals to redis-server processes, and waiting for conditions.

use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

pub(crate) use crate::support::process::{Redis, free_port};

/// Sends a signal to a server.
pub(crate) fn signal(redis: &Redis, signal: Signal) {
    let id = i32::try_from(redis.pid()).ok().and_then(Pid::from_raw);
    kill_process(id.expect("the id of a process"), signal).expect("it runs");
}

/// Waits until a condition holds; panics if that takes longer than `within`.
pub(crate) async fn until(within: Duration, what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let begun = tokio::time::Instant::now();
    while !is_so().await {
        assert!(begun.elapsed() < within, "not within {within:?}: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
