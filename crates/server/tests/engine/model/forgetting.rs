//! Which buckets may be forgotten.
//!
//! A bucket that is full in all numbers that are in force may be forgotten at any time, and is then full in whatever
//! numbers come next. As long as no others come, that changes no decision. But an override that is put in force later and
//! takes longer to fill may find a bucket full that would otherwise still be filling up in its numbers.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::decide::{Bucket, Model};
use super::meter::Usage;
use super::overrides::Override;
use super::terms::Applied;

/// What forgetting depends on beside the usage.
#[derive(Clone, Debug, Default)]
pub(crate) struct Forgetting {
    /// The instant of the last request: nothing is forgotten between two requests.
    pub(super) now: i128,
    /// The overrides that are in force.
    in_force: Vec<Override>,
    /// The limit of each bucket at its last charge.
    limits: BTreeMap<Bucket, Applied>,
    /// The buckets that may have been forgotten before the overrides changed, and were not seen since.
    forgettable: BTreeSet<Bucket>,
    /// How many were forgotten.
    forgotten: usize,
}

impl Forgetting {
    /// Other overrides are about to be put in force.
    pub(super) fn before_change(&mut self, usage: &BTreeMap<Bucket, Usage>, overrides: &[Override]) {
        let idle = usage.iter().filter(|(bucket, used)| self.is_idle(&self.limits[*bucket], used));
        let idle: Vec<Bucket> = idle.map(|(bucket, _)| bucket.clone()).collect();
        self.forgettable.extend(idle);
        self.in_force = overrides.to_vec();
    }

    /// A bucket was charged.
    pub(super) fn charged(&mut self, bucket: Bucket, limit: &Applied) {
        self.forgettable.remove(&bucket);
        self.limits.insert(bucket, limit.clone());
    }

    /// A decision shows what a bucket holds: one that is not full has not been forgotten.
    pub(super) fn shown(&mut self, bucket: &Bucket, is_full: bool) {
        if !is_full {
            self.forgettable.remove(bucket);
        }
    }

    /// Is a bucket full in all numbers that are in force?
    ///
    /// At another trust it goes on filling up at its own rate, to at most twice the capacity without trust. In other
    /// numbers it goes on filling up at their rate: where there are overrides, it is kept for as long as the slowest
    /// numbers take to fill from empty, and for twice as long if trust scales them. So it is if it was charged in an override
    /// that has ended, since it is charged in other numbers next.
    fn is_idle(&self, limit: &Applied, used: &Usage) -> bool {
        // Overrides keep the length of a window or a log, so what has expired counts in no numbers.
        let Usage::Bucket(bucket) = used else { return false };
        let at_any_trust = match limit.trust {
            Some(_) => bucket.has_received(2 * limit.untrusted.capacity, self.now),
            None => true,
        };
        let of_limit = self.in_force.iter().filter(|one| one.limit == limit.name);
        let times = of_limit.filter_map(|one| one.numbers_of(limit)).map(|numbers| numbers.fill_time());
        let longest = match (times.max(), bucket.overridden()) {
            (None, None) => 0,
            (longest, _) => limit.plain.fill_time().max(longest.unwrap_or(0)),
        };
        let kept = if limit.trust.is_some() { 2 * longest } else { longest };
        at_any_trust && bucket.is_full(self.now - kept)
    }
}

impl Model {
    /// Decides a line of a trace. If an engine has `found` something else, it may have forgotten buckets of the request:
    /// those that may be forgotten and with which the decision is `found` are forgotten here too. If there are none,
    /// the decision is that of [`Model::decide`].
    pub(crate) fn decide_or_forget(&mut self, line: &Value, found: &Value) -> Value {
        let before = (!self.forgetting.forgettable.is_empty()).then(|| self.clone());
        let expected = self.decide(line);
        let Some(before) = before.filter(|_| expected != *found) else { return expected };
        let mut forgettable = before.buckets(line);
        forgettable.retain(|bucket| before.forgetting.forgettable.contains(bucket));
        for chosen in 1..1_u32 << forgettable.len() {
            let mut other = before.clone();
            for (_, bucket) in (0..).zip(&forgettable).filter(|(number, _)| chosen >> number & 1 == 1) {
                other.usage.remove(bucket);
                other.forgetting.forgettable.remove(bucket);
                other.forgetting.forgotten += 1;
            }
            if other.decide(line) == *found {
                *self = other;
                return found.clone();
            }
        }
        expected
    }

    /// How many buckets [`Model::decide_or_forget`] has forgotten.
    pub(crate) fn forgotten(&self) -> usize {
        self.forgetting.forgotten
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::engine::Case;

    /// Ten tokens, one a second. One user takes a token, another five; a second before the second one's bucket is full,
    /// an override of forty tokens is put in force.
    fn overridden() -> Model {
        let limit =
            json!({"name": "a", "key": ["user"], "sustained": {"rate": 1}, "burst": {"capacity": 10}});
        let policy = json!({"version": 1, "limits": [limit], "defaults": {}});
        let mut model = Model::new(&Case::new(policy, Vec::new()));
        for line in [
            json!({"at_ms": 0, "user": "one"}),
            json!({"at_ms": 2_000, "user": "five", "cost": 5}),
            json!({"at_ms": 6_000, "user": "other"}),
        ] {
            assert_eq!(model.decide(&line)["allowed"], true);
        }
        let entry = json!({"who": {"user": ["one", "five"]}, "numbers": {"capacity": 40}});
        model.set_overrides(vec![Override { id: "o".to_owned(), limit: "a".to_owned(), entry }]);
        model
    }

    /// A request, and the decision of an engine that has forgotten its bucket.
    fn forgotten(user: &str, at_ms: u32) -> (Value, Value) {
        let line = json!({"at_ms": at_ms, "user": user, "cost": 0});
        let mut model = overridden();
        model.reset(&line);
        let found = model.decide(&line);
        assert_eq!(found["remaining"], 40);
        (line, found)
    }

    #[test]
    fn only_a_bucket_that_was_full_before_the_override_may_be_forgotten() {
        let (line, found) = forgotten("one", 11_000);
        let mut model = overridden();
        assert_eq!(model.decide_or_forget(&line, &found), found, "it was full at one second");
        assert_eq!((model.decide(&line), model.forgotten()), (found, 1), "and stays forgotten");
        let (line, found) = forgotten("five", 11_000);
        assert_eq!(overridden().decide_or_forget(&line, &found)["remaining"], 14, "it was not yet full");
    }

    #[test]
    fn a_bucket_that_was_seen_while_it_fills_up_is_not_forgotten() {
        let (line, found) = forgotten("one", 12_000);
        let mut model = overridden();
        let earlier = json!({"at_ms": 11_000, "user": "one", "cost": 0});
        assert_eq!(model.decide(&earlier)["remaining"], 20);
        assert_eq!(model.decide_or_forget(&line, &found)["remaining"], 21);
    }
}
