//! Candidate scenarios: beside the policy in force, every node tries out a draft with other numbers on the same server.

use tidegate_core::{Limit, Meter, Nanos, Quota, WindowQuota};

use super::{LimitSpec, Scenario};
use crate::Random;

impl Scenario {
    /// Any faults, and a candidate.
    pub(super) fn of_candidates(seed: u64) -> Scenario {
        let mut random = Random::new(seed ^ 0x6361_6e64_6964);
        let base = Scenario::of_faults(random.between(0, u64::from(u32::MAX)));
        let mut candidate: Vec<LimitSpec> = Vec::new();
        for spec in &base.limits {
            // The record tells the two policies apart by their numbers.
            let is_new =
                |limit: &Limit| base.limits.iter().chain(&candidate).all(|other| other.limit != *limit);
            let limit = (0..).map(|_| altered(&mut random, &spec.limit)).find(is_new);
            let limit = limit.expect("there are many numbers");
            candidate.push(LimitSpec { limit, ..spec.clone() });
        }
        Scenario { seed, candidate, ..base }
    }

    /// The bucket in which the candidate counts a key of a limit, if there is a candidate. It has as many keys as the
    /// policy.
    pub fn candidate_bucket(&self, limit: usize, key: usize) -> Option<usize> {
        (!self.candidate.is_empty()).then(|| self.buckets().len() + self.bucket(limit, key))
    }

    /// The document of the candidate.
    pub fn candidate_policy(&self) -> String {
        Scenario { limits: self.candidate.clone(), ..self.clone() }.policy()
    }
}

/// A limit with another burst or another count, smaller or larger.
fn altered(random: &mut Random, limit: &Limit) -> Limit {
    let most = u64::from(limit.capacity());
    let most = random.between((most / 3).max(1), most * 3 + 5) as u32;
    let altered = match limit {
        Limit::Meter(Meter::TokenBucket(quota)) => {
            let rate = quota.rate();
            Quota::new(rate.tokens(), Nanos::new(rate.nanos()), most).map(Limit::from)
        }
        Limit::Meter(Meter::SlidingWindow(quota)) => {
            WindowQuota::new(most, quota.length()).map(Limit::sliding_window)
        }
        Limit::Meter(Meter::FixedWindow(quota)) => {
            WindowQuota::new(most, quota.length()).map(Limit::fixed_window)
        }
        Limit::Log(quota) => tidegate_core::LogQuota::new(most, quota.window()).map(Limit::from),
    };
    altered.expect("small numbers are in range")
}
