//! A single limit: one state word and a clock.

use std::sync::atomic::{AtomicU64, Ordering};

use smallvec::SmallVec;
use tidegate_core::token_bucket::QuotaAt;
use tidegate_core::{Cost, LimitDecision, Meter, Nanos};

use crate::charge::all_or_nothing;
use crate::memory::{WindowTime, charged_at};
use crate::{Clock, MonotonicClock, Verdict};

/// A single token bucket (or window), shared by all threads that hold a reference to it.
///
/// ```
/// use std::time::Duration;
/// use tidegate::{Bucket, Cost, Quota, RetryAfter};
///
/// // 10 per second, bursts of 50.
/// let bucket = Bucket::new(Quota::new(10, Duration::from_secs(1), 50)?);
///
/// let decision = bucket.take(Cost::new(50));
/// assert!(decision.is_allowed());
/// assert_eq!(decision.remaining, 0);
///
/// let decision = bucket.take(Cost::ONE);
/// assert!(!decision.is_allowed());
/// match decision.retry_after() {
///     RetryAfter::Wait(wait) => assert!(wait <= Duration::from_millis(100)),
///     RetryAfter::NotDenied | RetryAfter::Never => unreachable!("a token comes back within 100 ms"),
/// }
/// # Ok::<(), tidegate::QuotaError>(())
/// ```
#[derive(Debug)]
pub struct Bucket<C = MonotonicClock> {
    state: PaddedState,
    meter: Meter,
    windows: WindowTime,
    clock: C,
}

/// The state word in a cache line of its own. Otherwise threads that update the state would also evict the
/// quota and the clock from each other's caches.
#[derive(Debug, Default)]
#[repr(align(128))]
struct PaddedState(AtomicU64);

impl Bucket {
    /// A full bucket on the monotonic clock.
    pub fn new(meter: impl Into<Meter>) -> Bucket {
        Bucket::with_clock(meter, MonotonicClock::new())
    }
}

impl<C: Clock> Bucket<C> {
    /// A full bucket on the given clock.
    pub fn with_clock(meter: impl Into<Meter>, clock: C) -> Bucket<C> {
        Bucket { state: PaddedState::default(), meter: meter.into(), windows: WindowTime::default(), clock }
    }

    /// Takes `cost` if the bucket holds it; otherwise changes nothing.
    #[inline(always)]
    pub fn take(&self, cost: Cost) -> LimitDecision {
        self.take_at(cost, self.clock.now())
    }

    /// The decision that [`Bucket::take`] would return, without taking anything.
    pub fn peek(&self, cost: Cost) -> LimitDecision {
        self.peek_at(cost, self.clock.now())
    }

    /// Gives `cost` back, never above the capacity.
    pub fn refund(&self, cost: Cost) {
        let now = self.clock.now();
        // The closure always returns a state, so the result is always `Ok`.
        let at = self.windows.of(&self.meter, &self.clock, now);
        let _ = self.update(|state| Some(self.meter.refund(state, cost, at)));
    }

    /// Takes from several buckets, all or none.
    ///
    /// ```
    /// use tidegate::{Bucket, Cost, Quota};
    ///
    /// let per_second = Bucket::new(Quota::per_second(5)?);
    /// let per_hour = Bucket::new(Quota::per_hour(3)?);
    /// let take = || Bucket::take_all(&[(&per_second, Cost::ONE), (&per_hour, Cost::ONE)]);
    ///
    /// assert!((0..3).all(|_| take().allowed));
    /// assert!(!take().allowed, "the hourly limit is used up");
    /// assert_eq!(per_second.peek(Cost::ONE).remaining, 2, "a denial charges neither");
    /// # Ok::<(), tidegate::QuotaError>(())
    /// ```
    pub fn take_all(charges: &[(&Bucket<C>, Cost)]) -> Verdict {
        let now: SmallVec<[Nanos; 8]> = charges.iter().map(|(bucket, _)| bucket.clock.now()).collect();
        all_or_nothing(
            charges.len(),
            now.first().copied().unwrap_or_default(),
            |_| true,
            |i| charges[i].0.peek_at(charges[i].1, now[i]),
            |i| charges[i].0.take_at(charges[i].1, now[i]),
            |i| charges[i].0.hand_back(charges[i].1, now[i]),
        )
    }

    /// The clock of this bucket.
    pub fn clock(&self) -> &C {
        &self.clock
    }

    #[inline(always)]
    fn take_at(&self, cost: Cost, now: Nanos) -> LimitDecision {
        match &self.meter {
            Meter::TokenBucket(quota) => {
                let moment = QuotaAt::new(quota, now);
                let charged = self.update(|state| moment.charge(state, cost));
                moment.decision(charged, cost)
            }
            Meter::SlidingWindow(_) | Meter::FixedWindow(_) => self.take_windowed(cost, now),
        }
    }

    /// Kept out of line, because the token bucket is faster without this code beside it.
    #[inline(never)]
    fn take_windowed(&self, cost: Cost, now: Nanos) -> LimitDecision {
        let at = self.windows.of(&self.meter, &self.clock, now);
        let charged = self.update(|state| self.meter.charge(state, cost, at));
        self.meter.decision(charged, cost, at)
    }

    fn peek_at(&self, cost: Cost, now: Nanos) -> LimitDecision {
        let at = self.windows.of(&self.meter, &self.clock, now);
        self.meter.peek(self.state.0.load(Ordering::Acquire), cost, at)
    }

    fn hand_back(&self, cost: Cost, at: Nanos) {
        let now = self.windows.of(&self.meter, &self.clock, self.clock.now().max(at));
        let at = charged_at(&self.meter, &self.clock, at);
        // As in `refund`, the result is always `Ok`.
        let _ = self.update(|state| Some(self.meter.hand_back(state, cost, at, now)));
    }

    /// Applies a pure function to the state until the compare-exchange succeeds: `Ok` with the stored state, or
    /// `Err` with the state that was left unchanged.
    #[inline(always)]
    fn update(&self, step: impl Fn(u64) -> Option<u64>) -> Result<u64, u64> {
        let mut seen = self.state.0.load(Ordering::Acquire);
        loop {
            let next = step(seen).ok_or(seen)?;
            if next == seen {
                return Ok(seen);
            }
            match self.state.0.compare_exchange_weak(seen, next, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Ok(next),
                Err(other) => seen = other,
            }
        }
    }
}
