//! Random numbers for limits: usual ones, and those at the edges of the valid range.

use proptest::prelude::*;
use tidegate_core::{LogQuota, Meter, Nanos, Quota, WindowQuota};

use crate::model::{Bucket, Kind, Windows};
use crate::run::Reach;

pub(crate) const SLOWEST_TOKEN: u64 = 366 * Nanos::DAY.get();
pub(crate) const LONGEST: u64 = 200 * Nanos::YEAR.get();

/// The numbers of a token bucket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BucketNumbers {
    pub(crate) tokens: u64,
    pub(crate) window: u64,
    pub(crate) capacity: u32,
}

impl BucketNumbers {
    pub(crate) fn quota(self) -> Quota {
        Quota::new(self.tokens, Nanos::new(self.window), self.capacity).expect("numbers within the range")
    }

    pub(crate) fn model(self) -> Bucket {
        Bucket::new(self.tokens, Nanos::new(self.window), self.capacity)
    }

    /// About the time in which one token is refilled.
    pub(crate) fn unit(self) -> u64 {
        self.window.div_ceil(self.tokens)
    }

    /// With the capacity reduced to what can be filled in time.
    fn fillable(self) -> BucketNumbers {
        let most = u128::from(LONGEST) * u128::from(self.tokens) / u128::from(self.window);
        let capacity = u128::from(self.capacity).min(most) as u32;
        BucketNumbers { capacity, ..self }
    }
}

/// Any number up to `most`; every bit length is equally likely, and both ends occur now and then.
pub(crate) fn up_to(most: u64) -> impl Strategy<Value = u64> {
    let bits = u64::BITS - most.leading_zeros();
    prop_oneof![
        8 => (1..=bits, any::<u64>()).prop_map(move |(bits, random)| (random >> (64 - bits)).clamp(1, most)),
        1 => (0_u64..3).prop_map(move |off| most.saturating_sub(off).max(1)),
        1 => (1_u64..=4).prop_map(move |least| least.min(most)),
    ]
}

fn capacity() -> impl Strategy<Value = u32> {
    up_to(u64::from(u32::MAX)).prop_map(|capacity| capacity as u32)
}

/// What people usually write.
fn usual_bucket() -> impl Strategy<Value = BucketNumbers> {
    let window = prop::sample::select(vec![Nanos::SECOND, Nanos::MINUTE, Nanos::HOUR, Nanos::DAY]);
    (1_u64..=10_000, window, 1_u32..=1_000).prop_map(|(tokens, window, capacity)| BucketNumbers {
        tokens,
        window: window.get(),
        capacity,
    })
}

/// Rates whose tick is awkward, or as long or as short as possible.
fn awkward_bucket() -> impl Strategy<Value = BucketNumbers> {
    let second = Nanos::SECOND.get();
    let rates = vec![
        (1, SLOWEST_TOKEN),
        (1_000_000_000, second),
        (999_999_999, second),
        (999_983, second),
        (3, second),
        (7, 11 * second),
        (83, 1_000 * second),
        (6, 7 * second),
        (7, 7 * SLOWEST_TOKEN - 1),
        (LONGEST - 1, LONGEST),
    ];
    (prop::sample::select(rates), capacity())
        .prop_map(|((tokens, window), capacity)| BucketNumbers { tokens, window, capacity }.fillable())
}

/// Their instants, in quarters and sixths of a nanosecond, use all values of a word.
fn brimming_bucket() -> impl Strategy<Value = BucketNumbers> {
    let brimming = vec![
        (4, 1_705_417_105_585_933, 4_155),
        (4, 4_611_947_099, 1_536_446_087),
        (6, 554_493_125_723_689, 2_535),
        (6, 26_521_510_824_708_521, 53),
    ];
    prop::sample::select(brimming).prop_map(|(tokens, window, capacity)| BucketNumbers {
        tokens,
        window,
        capacity,
    })
}

/// Anything in range.
fn any_bucket() -> impl Strategy<Value = BucketNumbers> {
    up_to(LONGEST)
        .prop_flat_map(|window| (any_tokens(window), Just(window), capacity()))
        .prop_map(|(tokens, window, capacity)| BucketNumbers { tokens, window, capacity }.fillable())
}

/// A rate neither too slow nor too fast over `window`.
fn any_tokens(window: u64) -> impl Strategy<Value = u64> {
    let least = window.div_ceil(SLOWEST_TOKEN);
    up_to(window).prop_map(move |tokens| tokens.max(least))
}

pub(crate) fn bucket() -> impl Strategy<Value = BucketNumbers> {
    prop_oneof![4 => usual_bucket(), 4 => awkward_bucket(), 1 => brimming_bucket(), 4 => any_bucket()]
}

/// The numbers of a window algorithm.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WindowNumbers {
    pub(crate) kind: Kind,
    pub(crate) limit: u32,
    pub(crate) length: u64,
}

impl WindowNumbers {
    pub(crate) fn meter(self) -> Meter {
        let quota = WindowQuota::new(self.limit, Nanos::new(self.length)).expect("numbers within the range");
        match self.kind {
            Kind::Sliding => Meter::SlidingWindow(quota),
            Kind::Fixed => Meter::FixedWindow(quota),
        }
    }

    pub(crate) fn model(self) -> Windows {
        Windows::new(self.kind, self.limit, Nanos::new(self.length))
    }

    /// The number of windows after which the window number of a word wraps.
    pub(crate) fn turn(self) -> u64 {
        // At the highest trust, a key may have used twice as much.
        let count_max = (2 * self.limit).min(WindowQuota::LIMIT_MAX);
        let count_bits = u32::BITS - count_max.leading_zeros();
        1 << (u64::BITS - 2 * count_bits)
    }

    /// If the window number wraps before the last instant, a step back is recognised for a minute, and counts
    /// are distinguished for a cycle minus that minute.
    pub(crate) fn reach(self) -> Reach {
        if Nanos::END.get() / self.length < self.turn() / 2 {
            return Reach::EVERYWHERE;
        }
        let minute = Nanos::MINUTE.get();
        let told_apart = self.turn() - 2 * minute.div_ceil(self.length) - 4;
        Reach { back: minute, ahead: told_apart.saturating_mul(self.length) }
    }
}

/// The limit nearest to `limit` that is neither too slow nor too fast over `window`.
pub(crate) fn fitting(limit: u32, window: u64) -> u32 {
    u64::from(limit).clamp(window.div_ceil(SLOWEST_TOKEN), window) as u32
}

fn kind() -> impl Strategy<Value = Kind> {
    prop_oneof![Just(Kind::Sliding), Just(Kind::Fixed)]
}

/// A limit up to `most`, and a window over which it is neither too slow nor too fast.
fn limit_and_window(most: u32) -> impl Strategy<Value = (u32, u64)> {
    let usual = prop::sample::select(vec![
        Nanos::MILLISECOND.get(),
        Nanos::SECOND.get(),
        Nanos::MINUTE.get(),
        Nanos::HOUR.get(),
        30 * Nanos::DAY.get(),
    ]);
    let length = prop_oneof![2 => usual, 1 => up_to(LONGEST)];
    let limit = prop_oneof![2 => 1_u32..=200, 1 => up_to(u64::from(most)).prop_map(|limit| limit as u32)];
    (limit, length).prop_map(|(limit, length)| {
        let slowest = u64::from(limit).saturating_mul(SLOWEST_TOKEN);
        (limit, length.clamp(u64::from(limit), slowest))
    })
}

pub(crate) fn windows() -> impl Strategy<Value = WindowNumbers> {
    (kind(), limit_and_window(WindowQuota::LIMIT_MAX)).prop_map(|(kind, (limit, length))| WindowNumbers {
        kind,
        limit,
        length,
    })
}

/// Numbers whose window number never wraps: the clock may go anywhere.
pub(crate) fn lasting_windows() -> impl Strategy<Value = WindowNumbers> {
    windows().prop_map(|numbers| {
        let lasting = Nanos::END.get() / (numbers.turn() / 2) + 1;
        WindowNumbers { length: numbers.length.max(lasting), ..numbers }
    })
}

/// Numbers whose window number wraps before the last instant.
pub(crate) fn wrapping_windows() -> impl Strategy<Value = WindowNumbers> {
    let limit = 500_000..=WindowQuota::LIMIT_MAX;
    (kind(), limit, 1_000_000_u64..10_000_000_000).prop_map(|(kind, limit, length)| WindowNumbers {
        kind,
        limit,
        length,
    })
}

pub(crate) fn log() -> impl Strategy<Value = LogQuota> {
    limit_and_window(LogQuota::LIMIT_MAX).prop_map(|(limit, window)| {
        LogQuota::new(limit, Nanos::new(window)).expect("numbers within the range")
    })
}
