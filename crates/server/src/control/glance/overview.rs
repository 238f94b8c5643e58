//! What the API shows of the figures: of now, and of the last hour.

use std::collections::BTreeMap;

use serde::Serialize;
use tidegate::Nanos;
use tidegate_database::{DatabaseError, UnixMillis};
use tidegate_policy::{TENANT_PREFIX, Tenants};
use utoipa::ToSchema;

use super::figures::{Figures, LimitFigures};
use super::fleet::{self, FleetNode};
use super::last_hour::{HistoryStep, STEP_SECS};
use crate::control::ControlPlane;
use crate::control::access::Principal;
use crate::control::api::rfc3339;
use crate::control::startup::unix_millis;
use crate::node::Node;

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
}

/// What a limit decided.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct OverviewLimit {
    name: String,
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
    #[serde(skip_serializing_if = "Option::is_none")]
    decision_time_us: Option<DecisionTimes>,
}

/// What a limit decided in one step.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
pub(crate) struct HistoryLimit {
    allowed: u64,
    denied: u64,
}

/// The figures of now, as a caller may see them.
///
/// # Errors
/// When the database fails.
pub(crate) async fn overview(
    node: &Node,
    control: &ControlPlane,
    caller: &Principal,
    now: Nanos,
) -> Result<Overview, DatabaseError> {
    let nodes = fleet::nodes(node, control).await?;
    let mut shown = shown_now(&nodes, caller, node.limiter().rules().tenants(), now);
    if caller.tenant.is_none() {
        shown.commands = control.glance().commands().to_vec();
    }
    Ok(shown)
}

fn shown_now(nodes: &[FleetNode], caller: &Principal, tenants: &Tenants, now: Nanos) -> Overview {
    let mut rates = Rates::default();
    nodes.iter().for_each(|node| rates.add(&node.figures.figures));
    let mut limits: Vec<OverviewLimit> = rates.limits.into_iter().map(OverviewLimit::from).collect();
    limits.retain(|limit| shows(caller, tenants, &limit.name));
    limits.sort_by(|one, other| {
        let rank = |limit: &OverviewLimit| (limit.denied_per_second, limit.allowed_per_second);
        rank(other).partial_cmp(&rank(one)).unwrap_or(std::cmp::Ordering::Equal)
    });
    let time = rfc3339(unix_millis(now));
    if caller.tenant.is_some() {
        return Overview { time, limits, ..Overview::empty() };
    }
    let denied = rates.denied.values().sum();
    Overview {
        time,
        decisions_per_second: Some(shown(rates.allowed + denied)),
        allowed_per_second: Some(shown(rates.allowed)),
        denied_per_second: Some(shown(denied)),
        denied_by_reason: rates.denied.into_iter().map(|(reason, rate)| (reason, shown(rate))).collect(),
        limits,
        decision_time_us: DecisionTimes::of(&rates.sum),
        kill_switch: Some(nodes.iter().any(|node| node.figures.kill_switch)),
        overshoot_bound_tokens: nodes.iter().map(|node| node.figures.overshoot_bound).max(),
        nodes: nodes.iter().map(OverviewNode::from).collect(),
        commands: Vec::new(),
    }
}

/// The last hour, as a caller may see it.
///
/// # Errors
/// When the database fails.
pub(crate) async fn history(
    node: &Node,
    control: &ControlPlane,
    caller: &Principal,
) -> Result<FleetHistory, DatabaseError> {
    let steps = fleet::last_hour(node, control).await?;
    let rules = node.limiter().rules();
    let shown = |step: &HistoryStep| shown_step(step, caller, rules.tenants());
    Ok(FleetHistory { step_seconds: STEP_SECS, steps: steps.iter().map(shown).collect() })
}

fn shown_step(step: &HistoryStep, caller: &Principal, tenants: &Tenants) -> HistoryPoint {
    let HistoryStep { number, figures } = step;
    let seen = figures.limits.iter().filter(|(name, _)| shows(caller, tenants, name));
    let limits = seen.map(|(name, LimitFigures { allowed, denied })| {
        (name.clone(), HistoryLimit { allowed: *allowed, denied: *denied })
    });
    let is_whole = caller.tenant.is_none();
    let begun = i64::try_from(number * STEP_SECS * 1_000).unwrap_or(i64::MAX);
    HistoryPoint {
        time: rfc3339(UnixMillis::new(begun)),
        allowed: is_whole.then_some(figures.allowed),
        denied: is_whole.then(|| figures.denials()),
        denied_by_reason: if is_whole { figures.denied.clone() } else { BTreeMap::new() },
        limits: limits.collect(),
        decision_time_us: DecisionTimes::of(figures).filter(|_| is_whole),
    }
}

/// May a caller see the figures of a limit? A restricted one sees the limits of the tenants in its subtree.
fn shows(caller: &Principal, tenants: &Tenants, limit: &str) -> bool {
    caller.tenant.is_none()
        || limit.strip_prefix(TENANT_PREFIX).is_some_and(|tenant| caller.sees(tenants, Some(tenant)))
}

/// Figures for each second, summed over nodes whose last seconds were not equally long. Each count of each node is rounded to
/// a tenth before it is added to anything: so whatever is shown adds up, over reasons, limits and nodes.
#[derive(Debug, Default)]
struct Rates {
    allowed: Tenths,
    denied: BTreeMap<String, Tenths>,
    limits: BTreeMap<String, (Tenths, Tenths)>,
    sum: Figures,
}

/// Tenths of decisions a second.
type Tenths = u64;

impl Rates {
    fn add(&mut self, figures: &Figures) {
        let rate = |count: u64| tenths(count, figures.millis);
        self.allowed += rate(figures.allowed);
        for (reason, count) in &figures.denied {
            *self.denied.entry(reason.clone()).or_default() += rate(*count);
        }
        for (name, counted) in &figures.limits {
            let sum = self.limits.entry(name.clone()).or_default();
            *sum = (sum.0 + rate(counted.allowed), sum.1 + rate(counted.denied));
        }
        self.sum.add(figures);
    }
}

/// A count as a rate.
fn tenths(count: u64, millis: u64) -> Tenths {
    let rounded = u128::from(count) * 10_000 + u128::from(millis / 2);
    u64::try_from(rounded.checked_div(u128::from(millis)).unwrap_or(0)).unwrap_or(u64::MAX)
}

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

impl From<(String, (Tenths, Tenths))> for OverviewLimit {
    fn from((name, (allowed, denied)): (String, (Tenths, Tenths))) -> OverviewLimit {
        OverviewLimit { name, allowed_per_second: shown(allowed), denied_per_second: shown(denied) }
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
            decision_time_us: None,
            kill_switch: None,
            overshoot_bound_tokens: None,
            nodes: Vec::new(),
            commands: Vec::new(),
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
            let overview = shown_now(&nodes, &caller, &Tenants::default(), Nanos::ZERO);
            let all = |rates: &mut dyn Iterator<Item = f64>| rates.map(|rate| (rate * 10.0).round()).sum::<f64>();
            let one = |rate: Option<f64>| (rate.expect("the caller sees all") * 10.0).round();
            let (decided, denied) = (one(overview.decisions_per_second), one(overview.denied_per_second));
            prop_assert_eq!(all(&mut overview.nodes.iter().map(|node| node.decisions_per_second)), decided);
            prop_assert_eq!(all(&mut overview.nodes.iter().map(|node| node.denied_per_second)), denied);
            prop_assert_eq!(all(&mut overview.denied_by_reason.values().copied()), denied);
            prop_assert_eq!(one(overview.allowed_per_second) + denied, decided);
        }
    }
}
