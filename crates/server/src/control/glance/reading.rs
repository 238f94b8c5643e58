//! The counters of a node at one instant.

use std::collections::{BTreeMap, HashMap};

use tidegate::engine::Reason;
use tidegate::engine::counting::counters::RuleOutcome;
use tidegate::measure::DurationSnapshot;
use tidegate::{Clock, Nanos};

use super::figures::{Figures, LimitFigures};
use crate::node::Node;

/// The name under which denials of `/v1/throttle` and `CL.THROTTLE` are counted; their buckets are no limits of the policy.
const THROTTLED: &str = "throttle";

/// The counters of a node at one instant.
#[derive(Debug)]
pub(super) struct Reading {
    at: Nanos,
    reasons: [u64; Reason::ALL.len()],
    throttled: LimitFigures,
    limits: HashMap<String, LimitFigures>,
    times: DurationSnapshot,
}

impl Reading {
    /// The counters now.
    pub(super) fn of(node: &Node) -> Reading {
        let limiter = node.limiter();
        let throttled = limiter.ad_hoc_counters();
        let limits = limiter.limit_counters().into_iter().map(|(name, counted)| {
            let allowed = counted.allowed + counted.queued + counted.degraded;
            (name, LimitFigures { allowed, denied: counted.denied, error: 0 })
        });
        Reading {
            at: node.clock().now(),
            reasons: Reason::ALL.map(|reason| limiter.decided(reason)),
            throttled: LimitFigures {
                allowed: throttled.get(RuleOutcome::Allowed),
                denied: throttled.get(RuleOutcome::Denied),
                error: 0,
            },
            limits: limits.collect(),
            times: node.metrics().decision_times(),
        }
    }

    /// What was decided since an earlier reading, with all limits that have decided something.
    pub(super) fn since(&self, before: &Reading) -> Figures {
        let throttled = difference(self.throttled, before.throttled);
        let mut figures = Figures {
            millis: self.at.saturating_sub(before.at).get() / 1_000_000,
            allowed: throttled.allowed,
            times: BTreeMap::new(),
            ..Figures::default()
        };
        for (index, reason) in Reason::ALL.iter().enumerate() {
            let count = self.reasons[index].saturating_sub(before.reasons[index]);
            if is_denial(*reason) && count > 0 {
                figures.denied.insert(reason.as_str().to_owned(), count);
            } else if !is_denial(*reason) {
                figures.allowed += count;
            }
        }
        if throttled.denied > 0 {
            *figures.denied.entry(Reason::TokenBucketExceeded.as_str().to_owned()).or_default() +=
                throttled.denied;
        }
        for (name, now) in &self.limits {
            let counted = difference(*now, before.limits.get(name).copied().unwrap_or_default());
            if !counted.is_zero() {
                figures.limits.insert(name.clone(), counted);
            }
        }
        if !throttled.is_zero() {
            figures.limits.insert(THROTTLED.to_owned(), throttled);
        }
        let longer = Nanos::MAX.get();
        let bounds = self.times.buckets().zip(before.times.buckets());
        for ((bound, now), (_, before)) in bounds {
            let count = now.saturating_sub(before);
            if count > 0 {
                figures.times.insert(bound.map_or(longer, Nanos::get), count);
            }
        }
        figures
    }
}

fn difference(now: LimitFigures, before: LimitFigures) -> LimitFigures {
    LimitFigures {
        allowed: now.allowed.saturating_sub(before.allowed),
        denied: now.denied.saturating_sub(before.denied),
        error: 0,
    }
}

/// Does a decision with this reason refuse the request?
fn is_denial(reason: Reason) -> bool {
    !matches!(reason, Reason::Ok | Reason::NoLimit | Reason::Allowlisted | Reason::KillSwitch)
}
