//! What was decided in some time: by reason, by limit, and how long decisions took. Figures of several nodes or of several
//! times add up.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tidegate_policy::RuleSet;

use super::busy::BusyFigures;
use super::choosing::chosen;
use crate::control::candidates::CANDIDATE_PREFIX;
use crate::node::Node;
use crate::observe::readiness::Readiness;

/// How many limits a node names to the others, for each second and each step: so much is written each second.
pub(super) const LIMITS_TOLD_MAX: usize = 150;

/// What was decided in some time.
///
/// Not every limit is named where there are very many. Of one that is, the counts are never too high, and too low by its
/// `error` at most; of one that is not, `others_at_most` is a bound. Whatever is added or left out, these stay true.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Figures {
    /// How long that time was.
    pub(crate) millis: u64,
    /// Admitted requests.
    pub(crate) allowed: u64,
    /// Denied requests, by reason.
    pub(crate) denied: BTreeMap<String, u64>,
    /// What limits decided.
    pub(crate) limits: BTreeMap<String, LimitFigures>,
    /// What was decided by limits and is not in the counts of `limits`.
    pub(crate) other_limits: LimitFigures,
    /// No limit that is not named decided more than that.
    #[serde(default)]
    pub(crate) others_at_most: u64,
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
    /// How many decisions of this limit may be counted among those of other limits.
    #[serde(default, skip_serializing_if = "is_none")]
    pub(crate) error: u64,
}

fn is_none(error: &u64) -> bool {
    *error == 0
}

impl LimitFigures {
    fn add(&mut self, other: LimitFigures) {
        self.allowed = self.allowed.saturating_add(other.allowed);
        self.denied = self.denied.saturating_add(other.denied);
        self.error = self.error.saturating_add(other.error);
    }

    /// The highest number of decisions that it can have made.
    fn at_most(self) -> u64 {
        self.allowed.saturating_add(self.denied).saturating_add(self.error)
    }

    pub(super) fn is_zero(self) -> bool {
        self == LimitFigures::default()
    }
}

impl Figures {
    /// Reads figures as a node has written them. One of an older version of Tidegate has not written the bound for limits that
    /// it does not name.
    pub(super) fn normalized(mut self) -> Figures {
        if self.others_at_most == 0 {
            self.others_at_most = self.other_limits.at_most();
        }
        self
    }

    /// Adds what was decided elsewhere or at another time; how long that took is not added.
    pub(crate) fn add(&mut self, other: &Figures) {
        self.allowed = self.allowed.saturating_add(other.allowed);
        for (reason, count) in &other.denied {
            let sum = self.denied.entry(reason.clone()).or_default();
            *sum = sum.saturating_add(*count);
        }
        self.add_limits(other);
        for (bound, count) in &other.times {
            let sum = self.times.entry(*bound).or_default();
            *sum = sum.saturating_add(*count);
        }
    }

    /// A limit that only one of the two names may be among the others of the other one.
    fn add_limits(&mut self, other: &Figures) {
        if other.others_at_most > 0 {
            let unnamed = self.limits.iter_mut().filter(|(name, _)| !other.limits.contains_key(*name));
            unnamed
                .for_each(|(_, figures)| figures.error = figures.error.saturating_add(other.others_at_most));
        }
        for (name, figures) in &other.limits {
            match self.limits.get_mut(name) {
                Some(sum) => sum.add(*figures),
                None => {
                    let error = figures.error.saturating_add(self.others_at_most);
                    self.limits.insert(name.clone(), LimitFigures { error, ..*figures });
                }
            }
        }
        self.other_limits.add(other.other_limits);
        self.others_at_most = self.others_at_most.saturating_add(other.others_at_most);
    }

    /// Counts limits together if there are too many to name. `tenant` is whose limit one is: the busiest limits of all stay,
    /// and of as many tenants as possible the busiest one.
    pub(super) fn cut_limits<'t>(&mut self, most: usize, tenant: impl Fn(&str) -> Option<&'t str>) {
        if self.limits.len() <= most {
            return;
        }
        let mut ranked: Vec<(String, LimitFigures)> = std::mem::take(&mut self.limits).into_iter().collect();
        // Stable, so that equal ones are in the order of their names.
        ranked.sort_by_key(|(_, figures)| std::cmp::Reverse((figures.denied, figures.allowed)));
        let is_chosen = chosen(ranked.iter().map(|(name, _)| tenant(name)), most);
        for ((name, figures), is_chosen) in ranked.into_iter().zip(is_chosen) {
            if is_chosen {
                self.limits.insert(name, figures);
                continue;
            }
            self.others_at_most = self.others_at_most.max(figures.at_most());
            self.other_limits.add(LimitFigures { error: 0, ..figures });
        }
    }

    /// The same in tenths of decisions a second. Each count is rounded by itself, so that sums of what this returns add up.
    pub(super) fn tenths_per_second(&self) -> Figures {
        let rate = |count: u64| tenths(count, self.millis);
        let limit = |figures: &LimitFigures| LimitFigures {
            allowed: rate(figures.allowed),
            denied: rate(figures.denied),
            error: rate(figures.error).max(figures.error.min(1)),
        };
        Figures {
            millis: 1_000,
            allowed: rate(self.allowed),
            denied: self.denied.iter().map(|(reason, count)| (reason.clone(), rate(*count))).collect(),
            limits: self.limits.iter().map(|(name, figures)| (name.clone(), limit(figures))).collect(),
            other_limits: limit(&self.other_limits),
            others_at_most: rate(self.others_at_most).max(self.others_at_most.min(1)),
            times: self.times.clone(),
        }
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
    pub(super) fn told(&self, rules: &RuleSet) -> NodeFigures {
        let mut figures = self.figures.clone();
        figures.cut_limits(LIMITS_TOLD_MAX, |name| tenant_of(rules, name));
        NodeFigures { figures, busy: self.busy.told(rules), ..self.clone() }
    }

    /// Reads what a node has told.
    pub(super) fn normalized(self) -> NodeFigures {
        NodeFigures { figures: self.figures.normalized(), ..self }
    }
}

/// The id of the tenant whose limit has a name.
pub(super) fn tenant_of<'r>(rules: &'r RuleSet, limit: &str) -> Option<&'r str> {
    rules.tenant_of_limit(limit).map(|tenant| &*tenant.id)
}

/// A count as a rate, in tenths a second.
pub(super) fn tenths(count: u64, millis: u64) -> u64 {
    let rounded = u128::from(count) * 10_000 + u128::from(millis / 2);
    u64::try_from(rounded.checked_div(u128::from(millis)).unwrap_or(0)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What limits decided on a node within a step: by the number of the limit.
    type Exact = BTreeMap<u8, (u64, u64)>;

    fn name(number: u8) -> String {
        format!("l{number}")
    }

    fn figures(exact: &Exact) -> Figures {
        let limits = exact.iter().map(|(number, (allowed, denied))| {
            (name(*number), LimitFigures { allowed: *allowed, denied: *denied, error: 0 })
        });
        let denied: u64 = exact.values().map(|(_, denied)| denied).sum();
        Figures {
            millis: 1_000,
            allowed: exact.values().map(|(allowed, _)| allowed).sum(),
            denied: BTreeMap::from([("blocked".to_owned(), denied)]),
            limits: limits.collect(),
            times: BTreeMap::from([(100, denied), (1_000, 1)]),
            ..Figures::default()
        }
    }

    /// Of each eighth limit the same tenant; of some limits none.
    fn tenant(limit: &str) -> Option<&'static str> {
        let number: usize = limit[1..].parse().expect("it is a number");
        [None, Some("a"), Some("b"), Some("c"), Some("d"), Some("e"), None, Some("f")][number % 8]
    }

    fn exact() -> impl Strategy<Value = Exact> {
        prop::collection::btree_map(0_u8..40, (0_u64..100, 0_u64..100), 0..30)
    }

    proptest! {
        /// Whatever is cut where: the seconds of a node are added to a step, which is cut when it is told, and those of all
        /// nodes are added, and cut again before they are shown.
        #[test]
        fn what_is_named_is_true_within_its_error_and_nothing_is_lost(
            nodes in prop::collection::vec(prop::collection::vec(exact(), 0..4), 0..5),
            told in 1_usize..30,
            shown in 1_usize..30,
        ) {
            let mut sum = Figures::default();
            let mut all = Exact::new();
            for seconds in &nodes {
                let mut step = Figures::default();
                for second in seconds {
                    step.add(&figures(second));
                    for (number, (allowed, denied)) in second {
                        let sum = all.entry(*number).or_default();
                        *sum = (sum.0 + allowed, sum.1 + denied);
                    }
                }
                prop_assert!(step.limits.values().all(|limit| limit.error == 0) && step.others_at_most == 0);
                step.cut_limits(told, tenant);
                prop_assert!(step.limits.len() <= told);
                let text = serde_json::to_string(&step).expect("it is JSON");
                prop_assert_eq!(&serde_json::from_str::<Figures>(&text).expect("it is read back").normalized(), &step);
                sum.add(&step);
            }
            sum.cut_limits(shown, tenant);
            prop_assert!(sum.limits.len() <= shown);
            for number in 0..40 {
                let (allowed, denied) = all.get(&number).copied().unwrap_or_default();
                match sum.limits.get(&name(number)) {
                    Some(named) => {
                        prop_assert!(named.allowed <= allowed && named.denied <= denied, "{:?}", named);
                        prop_assert!(allowed + denied <= named.at_most(), "{:?}", named);
                    }
                    None => prop_assert!(allowed + denied <= sum.others_at_most),
                }
            }
            let total = |of: fn(&LimitFigures) -> u64| sum.limits.values().map(of).sum::<u64>() + of(&sum.other_limits);
            let (allowed, denied) = all.values().fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1));
            prop_assert_eq!((total(|limit| limit.allowed), total(|limit| limit.denied)), (allowed, denied));
            prop_assert_eq!((sum.allowed, sum.denials()), (allowed, denied));
            prop_assert_eq!(sum.other_limits.error, 0);
            if told == 29 && all.len() <= shown {
                prop_assert!(sum.limits.values().all(|limit| limit.error == 0), "there was room for all");
            }
        }
    }

    #[test]
    fn sixty_tenants_are_named_by_each_node_in_each_step() {
        let limits = |step: u64| (0..60).map(move |tenant| (format!("tenant:{tenant}"), tenant * step % 7));
        let rules = RuleSet::default();
        let mut hour = Figures::default();
        for step in 0..120 {
            let named = limits(step)
                .map(|(name, more)| (name, LimitFigures { allowed: 10 + more, ..LimitFigures::default() }));
            let mut one = Figures { limits: named.collect(), ..Figures::default() };
            one.cut_limits(LIMITS_TOLD_MAX, |name| tenant_of(&rules, name));
            hour.add(&one);
        }
        for (tenant, (name, _)) in limits(0).enumerate() {
            let exact: u64 = (0..120).map(|step| 10 + tenant as u64 * step % 7).sum();
            assert_eq!(hour.limits[&name], LimitFigures { allowed: exact, denied: 0, error: 0 }, "{name}");
        }
    }

    #[test]
    fn others_of_an_older_version_are_bounded_by_their_sum() {
        let text = r#"{"millis":1,"allowed":9,"denied":{},"limits":{"a":{"allowed":4,"denied":1}},"other_limits":{"allowed":3,"denied":2},"times":{}}"#;
        let told = serde_json::from_str::<Figures>(text).expect("it is read").normalized();
        assert_eq!((told.others_at_most, told.limits["a"].error), (5, 0));
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
