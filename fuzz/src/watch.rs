//! The only place that reads the time.

use std::time::{Duration, Instant};

/// Time since the start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Watch(Instant);

impl Watch {
    #[expect(clippy::disallowed_methods, reason = "a fuzzer runs for a time, and looks out for what hangs")]
    pub(crate) fn start() -> Watch {
        Watch(Instant::now())
    }

    pub(crate) fn elapsed(self) -> Duration {
        self.0.elapsed()
    }
}
