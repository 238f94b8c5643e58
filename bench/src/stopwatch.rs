//! The only module that reads the clock.

use std::time::{Instant, SystemTime};

/// Measures times of milliseconds and more.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stopwatch(Instant);

impl Stopwatch {
    /// Starts now.
    #[expect(clippy::disallowed_methods, reason = "measuring is what this program is for")]
    pub(crate) fn start() -> Stopwatch {
        Stopwatch(Instant::now())
    }

    /// Nanoseconds since the start.
    pub(crate) fn nanos(self) -> f64 {
        self.0.elapsed().as_nanos() as f64
    }

    /// Seconds since the start.
    pub(crate) fn seconds(self) -> f64 {
        self.0.elapsed().as_secs_f64()
    }
}

/// Measures the CPU time of this thread, which does not depend on other load.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CpuWatch {
    used: Option<u64>,
    wall: Stopwatch,
}

impl CpuWatch {
    /// Starts now.
    pub(crate) fn start() -> CpuWatch {
        CpuWatch { used: cpu_nanos(), wall: Stopwatch::start() }
    }

    /// CPU seconds since the start; wall clock seconds if the system does not report CPU time.
    pub(crate) fn seconds(self) -> f64 {
        match (self.used, cpu_nanos()) {
            (Some(start), Some(now)) if now > start => (now - start) as f64 / 1e9,
            _ => self.wall.seconds(),
        }
    }
}

/// The CPU time of this thread in nanoseconds, from Linux's `schedstat`.
fn cpu_nanos() -> Option<u64> {
    let schedstat = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    schedstat.split_ascii_whitespace().next()?.parse().ok()
}

/// Measures single calls: reading the CPU's cycle counter costs less than reading the system clock.
#[derive(Clone, Debug)]
pub(crate) struct FineWatch(quanta::Clock);

impl FineWatch {
    /// Calibrates, which takes some milliseconds.
    pub(crate) fn new() -> FineWatch {
        FineWatch(quanta::Clock::new())
    }

    /// Nanoseconds that `call` takes, and what it returns.
    #[inline]
    pub(crate) fn time<T>(&self, call: impl FnOnce() -> T) -> (u64, T) {
        let start = self.0.raw();
        let answer = call();
        (self.0.delta_as_nanos(start, self.0.raw()), answer)
    }
}

/// The wall clock, for limiters that take the time as an argument.
#[expect(clippy::disallowed_methods, reason = "some peers take the wall clock's time as an argument")]
#[inline]
pub(crate) fn wall_clock() -> SystemTime {
    SystemTime::now()
}
