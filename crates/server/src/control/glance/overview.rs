//! What the API shows of the figures: of now, and of the last hour.

use std::collections::BTreeMap;

use serde::Serialize;
use tidegate::Nanos;
use tidegate_database::UnixMillis;
use tidegate_policy::RuleSet;
use utoipa::ToSchema;

use super::figures::{Figures, LimitFigures, tenths};
use super::fleet::{self, FleetFigures, FleetNode, Incomplete};
use super::hour::{self, Hour};
use super::last_hour::{HistoryStep, STEP_SECS};
use crate::control::ControlPlane;
use crate::control::access::Principal;
use crate::control::api::rfc3339;
use crate::control::startup::unix_millis;
use crate::node::Node;

/// How many limits are shown; the others are counted together.
const LIMITS_SHOWN_MAX: usize = 50;

/// The figures of the last second, over all nodes. For a token that is restricted to a tenant, only the limits of tenants in
/// its subtree.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct Overview {
    #[schema(format = DateTime)]
    time: String,
    /// Decisions of all kinds.
    #[serde(skip_serializing_if = "Option::is_none")]
    decisions_per_second: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    allowed_per_second: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    denied_per_second: Option<f64>,
    /// Denials by reason.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    denied_by_reason: BTreeMap<String, f64>,
    /// The limits that decided the most, denials first.
    limits: Vec<OverviewLimit>,
    /// What other limits decided, if there are more than are named.
    #[serde(skip_serializing_if = "Option::is_none")]
    other_limits: Option<OtherLimitRates>,
    /// How long decisions took.
    #[serde(skip_serializing_if = "Option::is_none")]
    decision_time_us: Option<DecisionTimes>,
    /// Does any node admit everything?
    #[serde(skip_serializing_if = "Option::is_none")]
    kill_switch: Option<bool>,
    /// By how many tokens all nodes together may exceed a limit, once for each key.
    #[serde(skip_serializing_if = "Option::is_none")]
    overshoot_bound_tokens: Option<u64>,
    /// The nodes, by name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    nodes: Vec<OverviewNode>,
    /// Commands that ask the node that answers for a decision.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    commands: Vec<String>,
    /// Why something is missing, each with a sentence: `database` or `store`, which does not answer, so that these are the
    /// figures of the node that answers alone; `limits`, of which there are more than nodes name to each other.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = Object)]
    incomplete: Incomplete,
}

/// What a limit decided.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct OverviewLimit {
    name: String,
    allowed_per_second: f64,
    denied_per_second: f64,
    /// By how much the two together may be too low: nodes name the busiest limits to each other, and may not have named this
    /// one. What is missing here is counted in `other_limits`.
    #[serde(skip_serializing_if = "Option::is_none")]
    error_per_second: Option<f64>,
}

/// What limits decided that are not named.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
pub(crate) struct OtherLimitRates {
    allowed_per_second: f64,
    denied_per_second: f64,
}

/// How long decisions took, in microseconds: upper bounds.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
pub(crate) struct DecisionTimes {
    p50: f64,
    p99: f64,
}

/// How a node is.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct OverviewNode {
    id: String,
    /// The version of the policy that it runs.
    version: Option<u64>,
    /// Since when.
    #[schema(format = DateTime)]
    since: String,
    /// `ready`, `degraded`, `unready`, or `unknown` while it starts.
    status: String,
    /// Its problems, as `/readyz` names them, each with a sentence.
    problems: BTreeMap<String, String>,
    /// Where limits are counted: `local`, `strict` or `hybrid`.
    mode: String,
    /// Does the shared store answer?
    #[serde(skip_serializing_if = "Option::is_none")]
    store_up: Option<bool>,
    decisions_per_second: f64,
    denied_per_second: f64,
}

/// The last hour, over all nodes.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct FleetHistory {
    /// The length of a step.
    step_seconds: u64,
    /// The steps, oldest first. One in which no node ran is absent.
    steps: Vec<HistoryPoint>,
    /// Why something is missing, each with a sentence: `database` or `store`, which does not answer, so that steps of other
    /// nodes may be missing; `limits`, of which there are more than nodes name to each other.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = Object)]
    incomplete: Incomplete,
}

/// What was decided in one step of the last hour.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct HistoryPoint {
    /// When it began.
    #[schema(format = DateTime)]
    time: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    allowed: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    denied: Option<u64>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    denied_by_reason: BTreeMap<String, u64>,
    /// The limits that decided the most.
    limits: BTreeMap<String, HistoryLimit>,
    /// What other limits decided, if there are more than are named.
    #[serde(skip_serializing_if = "Option::is_none")]
    other_limits: Option<OtherLimitCounts>,
    #[serde(skip_serializing_if = "Option::is_none")]
    decision_time_us: Option<DecisionTimes>,
}

/// What a limit decided in one step.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
pub(crate) struct HistoryLimit {
    allowed: u64,
    denied: u64,
    /// By how much the two together may be too low: nodes name the busiest limits to each other, and may not have named this
    /// one. What is missing here is counted in `other_limits`.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<u64>,
}

/// What limits decided in one step that are not named.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
pub(crate) struct OtherLimitCounts {
    allowed: u64,
    denied: u64,
}

/// The figures of now, as a caller may see them.
pub(crate) async fn overview(
    node: &Node,
    control: &ControlPlane,
    caller: &Principal,
    now: Nanos,
) -> Overview {
    let fleet = fleet::fleet(node, control).await;
    let mut shown = shown_now(&fleet, caller, &node.limiter().rules(), now);
    if caller.tenant.is_none() {
        shown.commands = control.glance().commands().to_vec();
    }
    shown
}

fn shown_now(fleet: &FleetFigures, caller: &Principal, rules: &RuleSet, now: Nanos) -> Overview {
    let (nodes, rates) = (&fleet.nodes, &fleet.rates);
    let seen = SeenLimits::of(rates, caller, rules);
    let mut limits: Vec<OverviewLimit> = seen.limits.into_iter().map(OverviewLimit::from).collect();
    limits.sort_by(|one, other| {
        let rank = |limit: &OverviewLimit| (limit.denied_per_second, limit.allowed_per_second);
        rank(other).partial_cmp(&rank(one)).unwrap_or(std::cmp::Ordering::Equal)
    });
    let (mut incomplete, time) = (fleet.incomplete.clone(), rfc3339(unix_millis(now)));
    incomplete.extend(seen.is_cut.then(limits_note));
    let other_limits = seen.others.map(|others| OtherLimitRates {
        allowed_per_second: shown(others.allowed),
        denied_per_second: shown(others.denied),
    });
    if caller.tenant.is_some() {
        return Overview { time, limits, other_limits, incomplete, ..Overview::empty() };
    }
    let denied = rates.denials();
    Overview {
        time,
        decisions_per_second: Some(shown(rates.allowed + denied)),
        allowed_per_second: Some(shown(rates.allowed)),
        denied_per_second: Some(shown(denied)),
        denied_by_reason: rates.denied.iter().map(|(reason, rate)| (reason.clone(), shown(*rate))).collect(),
        limits,
        other_limits,
        decision_time_us: DecisionTimes::of(rates),
        kill_switch: Some(nodes.iter().any(|node| node.figures.kill_switch)),
        overshoot_bound_tokens: nodes.iter().map(|node| node.figures.overshoot_bound).max(),
        nodes: nodes.iter().map(OverviewNode::from).collect(),
        commands: Vec::new(),
        incomplete,
    }
}

/// The last hour, as a caller may see it.
pub(crate) async fn history(node: &Node, control: &ControlPlane, caller: &Principal) -> FleetHistory {
    let hour = hour::last_hour(node, control).await;
    shown_hour(&hour, caller, &node.limiter().rules())
}

fn shown_hour(hour: &Hour, caller: &Principal, rules: &RuleSet) -> FleetHistory {
    let mut incomplete = hour.incomplete.clone();
    let shown = |step: &HistoryStep| {
        let seen = SeenLimits::of(&step.figures, caller, rules);
        incomplete.extend(seen.is_cut.then(limits_note));
        shown_step(step, seen, caller)
    };
    let steps = hour.steps.iter().map(shown).collect();
    FleetHistory { step_seconds: STEP_SECS, steps, incomplete }
}

fn shown_step(step: &HistoryStep, seen: SeenLimits, caller: &Principal) -> HistoryPoint {
    let HistoryStep { number, figures } = step;
    let limits = seen.limits.into_iter().map(|(name, LimitFigures { allowed, denied, error })| {
        (name, HistoryLimit { allowed, denied, error: (error > 0).then_some(error) })
    });
    let is_whole = caller.tenant.is_none();
    let begun = i64::try_from(number * STEP_SECS * 1_000).unwrap_or(i64::MAX);
    HistoryPoint {
        time: rfc3339(UnixMillis::new(begun)),
        allowed: is_whole.then_some(figures.allowed),
        denied: is_whole.then(|| figures.denials()),
        denied_by_reason: if is_whole { figures.denied.clone() } else { BTreeMap::new() },
        limits: limits.collect(),
        other_limits: seen
            .others
            .map(|LimitFigures { allowed, denied, .. }| OtherLimitCounts { allowed, denied }),
        decision_time_us: DecisionTimes::of(figures).filter(|_| is_whole),
    }
}

/// What a caller sees of the limits.
struct SeenLimits {
    limits: BTreeMap<String, LimitFigures>,
    /// The limits that it may see and that are not named; `None` if there are none.
    others: Option<LimitFigures>,
    /// May limits that it may see be missing in both? Nobody else's decisions are shown to it, not even as a sum.
    is_cut: bool,
}

impl SeenLimits {
    fn of(figures: &Figures, caller: &Principal, rules: &RuleSet) -> SeenLimits {
        let is_whole = caller.tenant.is_none();
        let seen = figures.limits.iter().filter(|(name, _)| is_whole || shows(caller, rules, name));
        let mut cut = Figures {
            limits: seen.map(|(name, figures)| (name.clone(), *figures)).collect(),
            other_limits: if is_whole { figures.other_limits } else { LimitFigures::default() },
            ..Figures::default()
        };
        cut.cut_limits(LIMITS_SHOWN_MAX, |_| None);
        let others = Some(cut.other_limits).filter(|others| !others.is_zero());
        SeenLimits { limits: cut.limits, others, is_cut: !is_whole && figures.others_at_most > 0 }
    }
}

/// May a restricted caller see the figures of a limit? It sees the limits of the tenants in its subtree.
fn shows(caller: &Principal, rules: &RuleSet, limit: &str) -> bool {
    let owner = rules.tenant_of_limit(limit);
    owner.is_some_and(|owner| caller.sees(rules.tenants(), Some(&owner.id)))
}

fn limits_note() -> (String, String) {
    let note = "more limits decide than nodes name to each other: some that decided little may be missing";
    ("limits".to_owned(), note.to_owned())
}

/// Tenths of decisions a second. Each count of each node is rounded to a tenth before it is added to anything: so whatever is
/// shown adds up, over reasons, limits and nodes.
type Tenths = u64;

fn shown(rate: Tenths) -> f64 {
    rate as f64 / 10.0
}

impl DecisionTimes {
    fn of(figures: &Figures) -> Option<DecisionTimes> {
        let micros = |nanos: u64| nanos as f64 / 1_000.0;
        let (p50, p99) = (figures.quantile(500)?, figures.quantile(990)?);
        Some(DecisionTimes { p50: micros(p50), p99: micros(p99) })
    }
}

impl From<(String, LimitFigures)> for OverviewLimit {
    fn from((name, LimitFigures { allowed, denied, error }): (String, LimitFigures)) -> OverviewLimit {
        OverviewLimit {
            name,
            allowed_per_second: shown(allowed),
            denied_per_second: shown(denied),
            error_per_second: (error > 0).then(|| shown(error)),
        }
    }
}

impl From<&FleetNode> for OverviewNode {
    fn from(node: &FleetNode) -> OverviewNode {
        let FleetNode { report, figures: told } = node;
        let rate = |count: u64| tenths(count, told.figures.millis);
        let denied: Tenths = told.figures.denied.values().map(|count| rate(*count)).sum();
        let mut problems = told.problems.clone();
        if let Some(error) = &report.error {
            problems.insert("policy".to_owned(), error.clone());
        }
        OverviewNode {
            id: report.id.clone(),
            version: report.version,
            since: rfc3339(report.since),
            status: told.status.clone(),
            problems,
            mode: told.mode.clone(),
            store_up: told.store_up,
            decisions_per_second: shown(rate(told.figures.allowed) + denied),
            denied_per_second: shown(denied),
        }
    }
}

impl Overview {
    /// Without anything about the whole system.
    fn empty() -> Overview {
        Overview {
            time: String::new(),
            decisions_per_second: None,
            allowed_per_second: None,
            denied_per_second: None,
            denied_by_reason: BTreeMap::new(),
            limits: Vec::new(),
            other_limits: None,
            decision_time_us: None,
            kill_switch: None,
            overshoot_bound_tokens: None,
            nodes: Vec::new(),
            commands: Vec::new(),
            incomplete: Incomplete::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn node(millis: u64, allowed: u64, denied: &[u64]) -> FleetNode {
        let denied =
            denied.iter().enumerate().map(|(index, count)| (format!("reason-{index}"), *count)).collect();
        let figures = Figures { millis, allowed, denied, ..Figures::default() };
        FleetNode {
            report: tidegate_database::NodeReport::default(),
            figures: super::super::figures::NodeFigures { figures, ..Default::default() },
        }
    }

    proptest! {
        /// Over reasons and over nodes, however long the last second of each was.
        #[test]
        fn what_is_shown_adds_up(
            nodes in prop::collection::vec((1_u64..3_000, 0_u64..50, prop::collection::vec(0_u64..50, 0..4)), 0..5),
        ) {
            let nodes: Vec<FleetNode> =
                nodes.iter().map(|(millis, allowed, denied)| node(*millis, *allowed, denied)).collect();
            let caller = Principal::admin();
            let (rules, incomplete) = (RuleSet::default(), Incomplete::new());
            let fleet = FleetFigures::of(nodes, incomplete, &rules);
            let overview = shown_now(&fleet, &caller, &rules, Nanos::ZERO);
            let all = |rates: &mut dyn Iterator<Item = f64>| rates.map(|rate| (rate * 10.0).round()).sum::<f64>();
            let one = |rate: Option<f64>| (rate.expect("the caller sees all") * 10.0).round();
            let (decided, denied) = (one(overview.decisions_per_second), one(overview.denied_per_second));
            prop_assert_eq!(all(&mut overview.nodes.iter().map(|node| node.decisions_per_second)), decided);
            prop_assert_eq!(all(&mut overview.nodes.iter().map(|node| node.denied_per_second)), denied);
            prop_assert_eq!(all(&mut overview.denied_by_reason.values().copied()), denied);
            prop_assert_eq!(one(overview.allowed_per_second) + denied, decided);
        }
    }

    const POLICY: &str = "version: 1
limits: []
upstreams: [{ name: openai, hosts: [a.example] }]
tenants:
- id: acme
  rate_limit: { sharing: enforce, sustained: { rate: 90, window: minute }, budget: { mode: allocated, total: 90, remainder: shared } }
  upstreams: { openai: { rate_limit: { sustained: { rate: 9 } } } }
- { id: shop, parent: acme }
- { id: acme/openai2, rate_limit: { sustained: { rate: 9 } } }
- { id: other, rate_limit: { sustained: { rate: 9 } } }
";

    fn rules() -> RuleSet {
        RuleSet::from(tidegate_policy::Policy::parse(POLICY).expect("a policy"))
    }

    fn restricted(tenant: &str) -> Principal {
        Principal { tenant: Some(tenant.into()), ..Principal::admin() }
    }

    fn figures(limits: &[(&str, u64)]) -> Figures {
        let limits = limits.iter().map(|(name, allowed)| {
            ((*name).to_owned(), LimitFigures { allowed: *allowed, ..LimitFigures::default() })
        });
        Figures { millis: 1_000, limits: limits.collect(), ..Figures::default() }
    }

    fn fleet(figures: Vec<Figures>, rules: &RuleSet) -> FleetFigures {
        let node = |figures| FleetNode {
            report: tidegate_database::NodeReport::default(),
            figures: super::super::figures::NodeFigures { figures, ..Default::default() },
        };
        FleetFigures::of(figures.into_iter().map(node).collect(), Incomplete::new(), rules)
    }

    fn names(overview: &Overview) -> Vec<&str> {
        overview.limits.iter().map(|limit| &*limit.name).collect()
    }

    #[test]
    fn a_partner_sees_all_kinds_of_its_limits_and_nobody_elses() {
        let rules = rules();
        let all = [
            "tenant:acme",
            "tenant:acme/openai",
            "tenant:acme:remainder",
            "tenant:shop",
            "tenant:acme/openai2",
            "tenant:other",
            "tenant:gone",
            "per-user",
        ];
        let all: Vec<(&str, u64)> = all.into_iter().zip((1..=8).rev()).collect();
        let fleet = fleet(vec![figures(&all)], &rules);
        let hour = Hour {
            steps: vec![HistoryStep { number: 7, figures: figures(&all) }],
            incomplete: Incomplete::new(),
        };
        for (tenant, expected) in [
            ("acme", &["tenant:acme", "tenant:acme/openai", "tenant:acme:remainder", "tenant:shop"][..]),
            ("shop", &["tenant:shop"]),
            ("other", &["tenant:other"]),
            ("acme/openai2", &["tenant:acme/openai2"]),
            ("gone", &[]),
        ] {
            let caller = restricted(tenant);
            let overview = shown_now(&fleet, &caller, &rules, Nanos::ZERO);
            assert_eq!(names(&overview), expected, "{tenant}");
            assert!(overview.other_limits.is_none() && overview.incomplete.is_empty(), "{tenant}");
            let history = shown_hour(&hour, &caller, &rules);
            assert!(history.steps[0].limits.keys().eq(expected), "{tenant}");
            assert!(history.steps[0].other_limits.is_none() && history.incomplete.is_empty(), "{tenant}");
        }
    }

    #[test]
    fn what_is_not_named_is_summed_and_a_partner_is_told_that_something_may_be_missing() {
        let rules = rules();
        let many: Vec<(String, u64)> = (0..60).map(|number| (format!("l{number}"), 10)).collect();
        let many: Vec<(&str, u64)> = many.iter().map(|(name, count)| (&**name, *count)).collect();
        let (one, mut other) = (figures(&many), figures(&[("l1", 5)]));
        (other.other_limits.allowed, other.others_at_most) = (3, 2);
        let fleet = fleet(vec![one.clone(), other], &rules);
        let whole = shown_now(&fleet, &Principal::admin(), &rules, Nanos::ZERO);
        let others = whole.other_limits.expect("there are more than are named");
        assert_eq!((whole.limits.len(), others.allowed_per_second), (50, 10.0 * 10.0 + 3.0));
        assert_eq!((&*whole.limits[0].name, whole.limits[0].error_per_second), ("l1", None));
        assert_eq!(whole.limits[1].error_per_second, Some(2.0));
        assert!(whole.incomplete.is_empty(), "the sum says it");
        let partner = shown_now(&fleet, &restricted("acme"), &rules, Nanos::ZERO);
        assert!(partner.limits.is_empty() && partner.other_limits.is_none());
        assert!(
            partner.incomplete.contains_key("limits"),
            "an empty list would say that nothing was decided"
        );
        let step = HistoryStep { number: 7, figures: one };
        let hour = Hour { steps: vec![step], incomplete: Incomplete::new() };
        let step = &shown_hour(&hour, &Principal::admin(), &rules).steps[0];
        assert_eq!((step.limits.len(), step.other_limits.map(|others| others.allowed)), (50, Some(100)));
    }
}
