//! One limit for one key: how much is used, and its answer to a cost.

use super::exact::{Exact, Wait, ceil, floor, fraction, whole};
use super::{bucket, windows};

/// How a limit counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Algorithm {
    TokenBucket,
    SlidingWindow,
    SlidingLog,
    FixedWindow,
}

impl Algorithm {
    /// The algorithm with this name in a policy.
    pub(crate) fn named(name: &str) -> Algorithm {
        match name {
            "token_bucket" => Algorithm::TokenBucket,
            "sliding_window" => Algorithm::SlidingWindow,
            "sliding_log" => Algorithm::SlidingLog,
            "fixed_window" => Algorithm::FixedWindow,
            other => panic!("{other} is no algorithm"),
        }
    }

    /// The reason of its denials.
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Algorithm::TokenBucket => "token_bucket_exceeded",
            Algorithm::SlidingWindow => "sliding_window_exceeded",
            Algorithm::SlidingLog => "sliding_log_exceeded",
            Algorithm::FixedWindow => "fixed_window_exceeded",
        }
    }
}

/// The numbers of a limit.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Quota {
    pub(crate) algorithm: Algorithm,
    /// Tokens in a nanosecond.
    pub(crate) rate: Exact,
    /// The window that the rate was written for, in nanoseconds.
    pub(crate) window: i128,
    /// The most at once: a bucket's capacity, or a window's limit.
    pub(crate) capacity: i128,
    /// The numbers of the override from which they are.
    pub(crate) overridden: Option<String>,
}

impl Quota {
    /// The numbers at a trust, in hundredths.
    pub(crate) fn trusting(&self, hundredths: i128) -> Quota {
        let capacity = floor(&fraction(self.capacity * (100 + hundredths), 100));
        let rate = self.rate.clone() * fraction(200 + hundredths, 200);
        Quota { rate, capacity, ..self.clone() }
    }

    /// How long an empty bucket takes to fill, in nanoseconds, rounded up.
    pub(crate) fn fill_time(&self) -> i128 {
        ceil(&(whole(self.capacity) / &self.rate))
    }
}

/// The usage of one limit by one key.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Usage {
    Bucket(Box<bucket::Bucket>),
    /// The costs and instants of all admitted requests.
    Admitted(Vec<(i128, i128)>),
}

/// The answer of a limit.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Reading {
    /// Would the cost be admitted?
    pub(crate) admits: bool,
    /// Whole tokens left.
    pub(crate) remaining: i128,
    /// Nanoseconds until all usage has expired.
    pub(crate) reset: i128,
    /// The time until the cost would be admitted.
    pub(crate) wait: Wait,
}

/// The answer of the limit to a cost, without charging. A cost of zero is always admitted.
pub(crate) fn look(usage: Option<&Usage>, quota: &Quota, cost: i128, now: i128) -> Reading {
    let (left, reset, wait) = match quota.algorithm {
        Algorithm::TokenBucket => bucket::look(bucket_of(usage), quota, cost, now),
        _ => windows::look(&admitted_of(usage), quota, cost.min(quota.capacity), now),
    };
    let remaining = floor(&left).max(0);
    assert!(remaining <= quota.capacity, "more left than there can be");
    if cost == 0 {
        return Reading { admits: true, remaining, reset, wait: Wait::NONE };
    }
    if cost > quota.capacity {
        return Reading { admits: false, remaining, reset, wait: Wait::Never };
    }
    Reading { admits: left >= whole(cost), remaining, reset, wait: Wait::For(ceil(&wait)) }
}

/// The usage after charging the cost.
pub(crate) fn charge(usage: Option<&Usage>, quota: &Quota, cost: i128, now: i128) -> Usage {
    match quota.algorithm {
        Algorithm::TokenBucket => Usage::Bucket(Box::new(bucket::charge(bucket_of(usage), quota, cost, now))),
        _ => Usage::Admitted(windows::charge(&admitted_of(usage), quota, cost, now)),
    }
}

/// The usage in the numbers of a quota, if it is stored in those of another override.
pub(crate) fn moved(usage: &Usage, quota: &Quota, now: i128) -> Option<Usage> {
    let Usage::Bucket(stored) = usage else { return None };
    (stored.overridden() != quota.overridden.as_deref()).then(|| charge(Some(usage), quota, 0, now))
}

fn bucket_of(usage: Option<&Usage>) -> Option<&bucket::Bucket> {
    usage.map(|usage| match usage {
        Usage::Bucket(bucket) => &**bucket,
        Usage::Admitted(_) => panic!("no algorithm changes while a trace runs"),
    })
}

fn admitted_of(usage: Option<&Usage>) -> Vec<(i128, i128)> {
    match usage {
        None => Vec::new(),
        Some(Usage::Admitted(admitted)) => admitted.clone(),
        Some(Usage::Bucket(_)) => panic!("no algorithm changes while a trace runs"),
    }
}
