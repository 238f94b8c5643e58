//! Clocks. Only this module reads the time.

mod offsets;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use tidegate_core::Nanos;

use offsets::Offsets;

/// A source of `now`: nanoseconds since the Unix epoch.
///
/// There are two times. `now` is monotonic: buckets refill by it and waits are measured by it. The wall clock
/// shows the time of the day and jumps when it is set: windows, dates and expiries use it.
///
/// `now` should not step back. If it does, no bucket is refilled; buckets only look emptier until it has caught
/// up. The wall clock may step back: the newest window in which something was counted stays the current one
/// until the clock has reached it again.
pub trait Clock: Send + Sync {
    /// The current instant.
    fn now(&self) -> Nanos;

    /// The wall clock's time at an instant of this clock: at `now` or in the past. The same instant always
    /// gives the same answer, even if the wall clock was set since. By default there is no separate wall clock,
    /// and the answer is `now`.
    #[inline]
    fn wall_at(&self, now: Nanos) -> Nanos {
        now
    }

    /// The wall clock's current time.
    fn wall(&self) -> Nanos {
        self.wall_at(self.now())
    }
}

impl<C: Clock + ?Sized> Clock for &C {
    fn now(&self) -> Nanos {
        (**self).now()
    }

    fn wall_at(&self, now: Nanos) -> Nanos {
        (**self).wall_at(now)
    }
}

impl<C: Clock + ?Sized> Clock for Arc<C> {
    fn now(&self) -> Nanos {
        (**self).now()
    }

    fn wall_at(&self, now: Nanos) -> Nanos {
        (**self).wall_at(now)
    }
}

/// The default clock: monotonic, set to the wall clock's time once, when it is created.
///
/// It reads the processor's time-stamp counter if that is invariant, and the system's monotonic clock
/// otherwise. Later changes of the wall clock do not affect `now`; [`Clock::wall`] follows them within a
/// millisecond, with a precision of a millisecond.
#[derive(Clone, Debug)]
pub struct MonotonicClock {
    counter: quanta::Clock,
    counter_at_start: u64,
    start: Nanos,
    /// Nanoseconds per count: the integer part, and the fraction in units of 2⁻⁶⁴. The same conversion as
    /// quanta's, with a single multiplication.
    nanos_whole: u64,
    nanos_part: u64,
    wall: Arc<WallClock>,
}

/// The conversion factor is computed for 2⁵² counts (some weeks), so that it is precise.
const SAMPLE_BITS: u32 = 52;

/// How often the wall clock is read, and its precision.
const WALL_EVERY: Nanos = Nanos::MILLISECOND;

/// How often the two clocks are read as a pair, at most, to find a good pair: if the thread is suspended
/// between the two readings, they are far apart.
const WALL_READINGS: usize = 3;

/// The wall clock beside a monotonic one, read at intervals.
#[derive(Debug)]
struct WallClock {
    offsets: Offsets,
    /// When it was last read.
    read_at: AtomicU64,
    /// Held by the thread that reads it.
    reading: Mutex<()>,
}

impl MonotonicClock {
    /// A clock that starts at the wall clock's time and is monotonic from then on. The first one in a process
    /// takes a few milliseconds to calibrate.
    #[expect(clippy::disallowed_methods, reason = "reads the wall time once, to start from it")]
    pub fn new() -> MonotonicClock {
        let counter = quanta::Clock::new();
        let counter_at_start = counter.raw();
        // A wall clock before 1970 reads as the epoch.
        let start = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let nanos = counter.delta_as_nanos(0, 1 << SAMPLE_BITS);
        let nanos_whole = nanos >> SAMPLE_BITS;
        let nanos_part = nanos << (64 - SAMPLE_BITS);
        let start = Nanos::from(start);
        let read_at = AtomicU64::new(start.get());
        let wall = WallClock { offsets: Offsets::default(), read_at, reading: Mutex::default() };
        MonotonicClock { counter, counter_at_start, start, nanos_whole, nanos_part, wall: Arc::new(wall) }
    }

    /// How far the wall clock is ahead of this one, and the possible error of that.
    #[expect(clippy::disallowed_methods, reason = "the wall clock itself")]
    fn measure(&self) -> (i64, u64) {
        let mut best = (0, u64::MAX);
        for _ in 0..WALL_READINGS {
            let before = self.now();
            let wall = Nanos::from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default());
            let error = self.now().saturating_sub(before).get();
            if error < best.1 {
                best = (wall.get().wrapping_sub(before.get()) as i64, error);
            }
            if error < WALL_EVERY.get() / 10 {
                break;
            }
        }
        best
    }

    /// Reads the wall clock, unless another thread is doing so: of two readings, the older one must not be
    /// stored last. The new offset applies from `now` on, which is not after the current instant.
    #[cold]
    fn read_wall(&self, now: Nanos) {
        let Ok(_reading) = self.wall.reading.try_lock() else { return };
        let this = self.now();
        let (offset, error) = self.measure();
        let known = self.wall.offsets.latest();
        if offset.abs_diff(known) > error.saturating_add(WALL_EVERY.get()) {
            self.wall.offsets.set(now.min(this), offset);
        }
        self.wall.read_at.store(this.get(), Ordering::Relaxed);
    }
}

impl Default for MonotonicClock {
    fn default() -> MonotonicClock {
        MonotonicClock::new()
    }
}

impl Clock for MonotonicClock {
    #[inline]
    fn now(&self) -> Nanos {
        // The counter of another core may be behind the one read at the start.
        let counts = self.counter.raw().saturating_sub(self.counter_at_start);
        let part = (u128::from(counts) * u128::from(self.nanos_part)) >> 64;
        Nanos::new(self.start.get().wrapping_add(counts * self.nanos_whole + part as u64))
    }

    #[inline]
    fn wall_at(&self, now: Nanos) -> Nanos {
        let read_at = self.wall.read_at.load(Ordering::Relaxed);
        if now.get() >= read_at.saturating_add(WALL_EVERY.get()) {
            self.read_wall(now);
        }
        self.wall.offsets.at(now)
    }
}

/// A clock that only moves when it is advanced: for tests. Clones share the time.
///
/// ```
/// use tidegate::{Bucket, Cost, ManualClock, Nanos, Quota};
///
/// let clock = ManualClock::default();
/// let bucket = Bucket::with_clock(Quota::per_second(1)?, clock.clone());
/// assert!(bucket.take(Cost::ONE).is_allowed());
/// assert!(!bucket.take(Cost::ONE).is_allowed());
/// clock.advance(Nanos::SECOND);
/// assert!(bucket.take(Cost::ONE).is_allowed());
/// # Ok::<(), tidegate::QuotaError>(())
/// ```
#[derive(Clone, Debug)]
pub struct ManualClock {
    shared: Arc<Manual>,
}

#[derive(Debug)]
struct Manual {
    now: AtomicU64,
    wall: Offsets,
    #[cfg(feature = "async")]
    sleepers: std::sync::Mutex<Vec<(Nanos, std::task::Waker)>>,
}

impl ManualClock {
    /// A clock that shows `start`.
    pub fn new(start: Nanos) -> ManualClock {
        let shared = Manual {
            now: AtomicU64::new(start.get()),
            wall: Offsets::default(),
            #[cfg(feature = "async")]
            sleepers: std::sync::Mutex::default(),
        };
        ManualClock { shared: Arc::new(shared) }
    }

    /// Moves the clock forward.
    pub fn advance(&self, span: impl Into<Nanos>) {
        self.set(self.now().saturating_add(span.into()));
    }

    /// Moves the clock to an instant, which may be in its past.
    pub fn set(&self, now: Nanos) {
        self.shared.now.store(now.get(), Ordering::SeqCst);
        #[cfg(feature = "async")]
        self.wake_sleepers(now);
    }

    /// Sets the wall clock, as an administrator would: `now` does not change, and from then on both advance
    /// together.
    ///
    /// ```
    /// use tidegate::{Clock, ManualClock, Nanos};
    ///
    /// let clock = ManualClock::new(Nanos::from_secs(100));
    /// clock.set_wall(Nanos::from_secs(5_000));
    /// clock.advance(Nanos::SECOND);
    /// assert_eq!((clock.now(), clock.wall()), (Nanos::from_secs(101), Nanos::from_secs(5_001)));
    /// ```
    pub fn set_wall(&self, wall: Nanos) {
        let now = self.now();
        self.shared.wall.set(now, wall.get().wrapping_sub(now.get()) as i64);
    }
}

impl Default for ManualClock {
    /// Starts at 1,800,000,000 seconds, in January 2027.
    fn default() -> ManualClock {
        ManualClock::new(Nanos::from_secs(1_800_000_000))
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Nanos {
        Nanos::new(self.shared.now.load(Ordering::SeqCst))
    }

    fn wall_at(&self, now: Nanos) -> Nanos {
        self.shared.wall.at(now)
    }
}

#[cfg(feature = "async")]
pub use sleep::Sleep;

#[cfg(feature = "async")]
mod sleep {
    use std::future::{Future, poll_fn};
    use std::sync::PoisonError;
    use std::task::{Poll, Waker};

    use super::{Clock, ManualClock, MonotonicClock, Nanos};

    /// A clock on which a task can sleep.
    pub trait Sleep: Clock {
        /// Resolves once the clock has advanced by `span`.
        fn sleep(&self, span: Nanos) -> impl Future<Output = ()> + Send;
    }

    impl Sleep for MonotonicClock {
        fn sleep(&self, span: Nanos) -> impl Future<Output = ()> + Send {
            tokio::time::sleep(span.into())
        }
    }

    impl Sleep for ManualClock {
        fn sleep(&self, span: Nanos) -> impl Future<Output = ()> + Send {
            let due = self.now().saturating_add(span);
            poll_fn(move |context| {
                self.add_sleeper(due, context.waker());
                // Read the clock after registering, so that a concurrent `set` is not missed.
                if self.now() < due { Poll::Pending } else { Poll::Ready(()) }
            })
        }
    }

    impl ManualClock {
        fn add_sleeper(&self, due: Nanos, waker: &Waker) {
            let sleepers = &self.shared.sleepers;
            sleepers.lock().unwrap_or_else(PoisonError::into_inner).push((due, waker.clone()));
        }

        pub(super) fn wake_sleepers(&self, now: Nanos) {
            let sleepers = &self.shared.sleepers;
            let mut sleepers = sleepers.lock().unwrap_or_else(PoisonError::into_inner);
            for (_, waker) in sleepers.extract_if(.., |(due, _)| *due <= now) {
                waker.wake();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_monotonic_clock_shows_wall_time_and_does_not_step_back() {
        let clock = MonotonicClock::new();
        let mut last = clock.now();
        assert!(last > Nanos::from_secs(1_700_000_000), "anchored to the wall clock");
        for _ in 0..10_000 {
            let now = clock.now();
            assert!(now >= last);
            last = now;
        }
    }

    #[test]
    fn counts_are_converted_as_the_counter_itself_does() {
        let clock = MonotonicClock::new();
        for counts in [0, 1, 1_000, 1 << 32, 1 << 45] {
            let theirs = clock.counter.delta_as_nanos(0, counts);
            let part = (u128::from(counts) * u128::from(clock.nanos_part)) >> 64;
            let ours = counts * clock.nanos_whole + part as u64;
            assert!(ours.abs_diff(theirs) <= 1, "{counts} counts are {theirs} ns, not {ours}");
        }
    }

    #[test]
    fn the_wall_clock_is_followed_and_the_steady_one_is_not_moved_by_it() {
        let clock = MonotonicClock::new();
        let (now, wall) = (clock.now(), clock.wall());
        assert!(wall.get().abs_diff(now.get()) < Nanos::SECOND.get(), "both were set a moment ago");
        // As if it had been an hour ahead until now.
        let hour = Nanos::HOUR.get() as i64;
        clock.wall.offsets.set(now, hour);
        assert_eq!(clock.wall.offsets.at(now), now.saturating_add(Nanos::HOUR));
        let later = clock.now().max(now).saturating_add(WALL_EVERY).saturating_add(WALL_EVERY);
        let read = clock.wall_at(later);
        assert!(
            read.get().abs_diff(later.get()) < Nanos::SECOND.get(),
            "{read} is what the wall clock shows"
        );
        assert_eq!(clock.wall_at(now.saturating_sub(Nanos::SECOND)), now.saturating_sub(Nanos::SECOND));
        assert!(clock.now() < now.saturating_add(Nanos::MINUTE), "it goes on as it did");
    }

    #[test]
    fn clones_of_a_manual_clock_show_the_same_time() {
        let clock = ManualClock::default();
        let other = clock.clone();
        clock.advance(Nanos::SECOND);
        assert_eq!(other.now(), Nanos::from_secs(1_800_000_001));
        other.set(Nanos::ZERO);
        assert_eq!(clock.now(), Nanos::ZERO);
    }
}
