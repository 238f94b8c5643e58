//! The only module that reads the clock.

use std::time::{Duration, Instant};

/// Time since the start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunTimer(Instant);

impl RunTimer {
    #[expect(clippy::disallowed_methods, reason = "a fuzzer runs for a fixed time, and detects hangs")]
    pub(crate) fn start() -> RunTimer {
        RunTimer(Instant::now())
    }

    pub(crate) fn elapsed(self) -> Duration {
        self.0.elapsed()
    }
}
