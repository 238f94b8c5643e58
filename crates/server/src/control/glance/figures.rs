//! What was decided in some time: by reason, by limit, and how long decisions took. Figures of several nodes or of several
//! times add up.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::busy::BusyFigures;
use crate::control::candidates::CANDIDATE_PREFIX;
use crate::node::Node;
use crate::observe::readiness::Readiness;

/// How many limits are told apart; the others are counted together.
pub(super) const LIMITS_MAX: usize = 50;

/// What was decided in some time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Figures {
    /// How long that time was.
    pub(crate) millis: u64,
    /// Admitted requests.
    pub(crate) allowed: u64,
    /// Denied requests, by reason.
    pub(crate) denied: BTreeMap<String, u64>,
    /// The limits that decided the most, denials first.
    pub(crate) limits: BTreeMap<String, LimitFigures>,
    /// All other limits together.
    pub(crate) other_limits: LimitFigures,
    /// How many decisions took at most so many nanoseconds, and longer than the bound before.
    pub(crate) times: BTreeMap<u64, u64>,
}

/// What one limit decided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LimitFigures {
    /// Requests that it admitted.
    pub(crate) allowed: u64,
    /// Requests that it denied.
    pub(crate) denied: u64,
}

impl LimitFigures {
    fn add(&mut self, other: LimitFigures) {
        self.allowed += other.allowed;
        self.denied += other.denied;
    }

    pub(super) fn is_zero(self) -> bool {
        self == LimitFigures::default()
    }
}

impl Figures {
    /// Adds what was decided elsewhere or at another time; how long that took is not added.
    pub(crate) fn add(&mut self, other: &Figures) {
        self.allowed += other.allowed;
        for (reason, count) in &other.denied {
            *self.denied.entry(reason.clone()).or_default() += count;
        }
        for (name, figures) in &other.limits {
            self.limits.entry(name.clone()).or_default().add(*figures);
        }
        self.other_limits.add(other.other_limits);
        for (bound, count) in &other.times {
            *self.times.entry(*bound).or_default() += count;
        }
        self.cut_limits();
    }

    /// Counts the limits together that decided the least, if there are too many.
    pub(super) fn cut_limits(&mut self) {
        if self.limits.len() <= LIMITS_MAX {
            return;
        }
        let mut ranked: Vec<(String, LimitFigures)> = std::mem::take(&mut self.limits).into_iter().collect();
        ranked.sort_by_key(|(_, figures)| std::cmp::Reverse((figures.denied, figures.allowed)));
        for (_, rest) in ranked.drain(LIMITS_MAX..) {
            self.other_limits.add(rest);
        }
        self.limits = ranked.into_iter().collect();
    }

    /// All denials.
    pub(crate) fn denials(&self) -> u64 {
        self.denied.values().sum()
    }

    /// The time in nanoseconds that so many thousandths of all decisions did not exceed; `None` if none was measured.
    pub(crate) fn quantile(&self, permille: u64) -> Option<u64> {
        let all: u64 = self.times.values().sum();
        let rank = all.saturating_mul(permille).div_ceil(1_000).max(1);
        let mut so_far = 0;
        self.times.iter().find_map(|(bound, count)| {
            so_far += count;
            (so_far >= rank).then_some(*bound)
        })
    }
}

/// The figures of a node's last second, and how the node is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NodeFigures {
    /// What it decided.
    pub(crate) figures: Figures,
    /// `ready`, `degraded` or `unready`.
    pub(crate) status: String,
    /// Its problems, as `/readyz` names them, each with a sentence.
    pub(crate) problems: BTreeMap<String, String>,
    /// Where limits are counted: `local`, `strict` or `hybrid`.
    pub(crate) mode: String,
    /// Does the shared store answer? `None` without one.
    pub(crate) store_up: Option<bool>,
    /// Is everything admitted?
    pub(crate) kill_switch: bool,
    /// By how many tokens all nodes together may exceed a limit.
    pub(crate) overshoot_bound: u64,
    /// Its busiest keys of late.
    #[serde(default)]
    pub(crate) busy: BusyFigures,
}

impl NodeFigures {
    /// The figures of a node, and how it is now.
    pub(super) fn of(node: &Node, figures: Figures, busy: BusyFigures) -> NodeFigures {
        let readiness = Readiness::of(node);
        let problems = readiness.unready.iter().chain(&readiness.degraded);
        let mut bounds = node.shared().map(|shared| shared.store.overshoot_bounds()).unwrap_or_default();
        // Nobody gets tokens of a candidate.
        bounds.retain(|(name, _)| !name.starts_with(CANDIDATE_PREFIX));
        NodeFigures {
            figures,
            status: readiness.status().to_owned(),
            problems: problems.map(|reason| (reason.what.to_owned(), reason.detail.clone())).collect(),
            mode: node.settings().shared.as_ref().map_or("local", |shared| shared.mode_name()).to_owned(),
            store_up: node.shared().map(|shared| shared.health().up),
            kill_switch: node.limiter().kill_switch(),
            overshoot_bound: bounds.iter().map(|(_, bound)| *bound).max().unwrap_or_default(),
            busy,
        }
    }

    /// As much of it as other nodes are told.
    pub(crate) fn told(&self) -> NodeFigures {
        NodeFigures { busy: self.busy.told(), ..self.clone() }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn figures(number: u64) -> Figures {
        Figures {
            millis: 1_000,
            allowed: number,
            denied: BTreeMap::from([("blocked".to_owned(), number)]),
            limits: BTreeMap::from([(format!("l{number}"), LimitFigures { allowed: 1, denied: number })]),
            other_limits: LimitFigures::default(),
            times: BTreeMap::from([(100, number), (1_000, 1)]),
        }
    }

    proptest! {
        #[test]
        fn sums_lose_nothing_and_name_the_limits_that_denied_the_most(count in 1_u64..200) {
            let mut sum = Figures::default();
            (0..count).for_each(|number| sum.add(&figures(number)));
            let all = count * (count - 1) / 2;
            prop_assert_eq!((sum.allowed, sum.denials()), (all, all));
            let named: u64 = sum.limits.values().map(|limit| limit.denied).sum();
            prop_assert_eq!(named + sum.other_limits.denied, all);
            let most = format!("l{}", count - 1);
            prop_assert!(sum.limits.len() <= LIMITS_MAX && sum.limits.contains_key(&most));
        }
    }

    #[test]
    fn quantiles_are_upper_bounds() {
        assert_eq!(Figures::default().quantile(500), None);
        let times = BTreeMap::from([(100, 50), (250, 49), (1_000, 1)]);
        let figures = Figures { times, ..Figures::default() };
        let of = |permille| figures.quantile(permille);
        assert_eq!((of(500), of(501), of(990), of(999)), (Some(100), Some(250), Some(250), Some(1_000)));
    }
}
