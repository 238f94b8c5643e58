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
mod tests;
