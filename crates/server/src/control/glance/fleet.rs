//! The figures of all nodes that share a database or, without one, a Redis.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tidegate::{Clock, Nanos};
use tidegate_database::{NodeReport, PageRequest, UnixMillis};
use tidegate_policy::RuleSet;
use tidegate_redis::{StoreError, ToldByNode};

use super::FRESH;
use super::busy::BusyFigures;
use super::figures::{Figures, NodeFigures, tenant_of};
use crate::control::startup::unix_millis;
use crate::control::{ControlPlane, PolicySource};
use crate::node::Node;
use crate::node::store::SharedRedisStore;

/// A node that was not seen for so long no longer counts.
const SEEN_MILLIS: i64 = 5_000;
/// How many nodes are summed.
const NODES_MAX: u32 = 1_000;
/// How many limits the sum names.
const LIMITS_MAX: usize = 10_000;

/// A node, and its figures if it has told them.
#[derive(Clone, Debug)]
pub(crate) struct FleetNode {
    pub(crate) report: NodeReport,
    pub(crate) figures: NodeFigures,
}

/// The nodes, and their sum.
#[derive(Debug, Default)]
pub(crate) struct FleetFigures {
    /// By name.
    pub(crate) nodes: Vec<FleetNode>,
    /// What all nodes decide, in tenths a second: their last seconds were not equally long.
    pub(crate) rates: Figures,
    /// The busiest keys of all nodes.
    pub(crate) busy: BusyFigures,
    /// What is missing, and why.
    pub(crate) incomplete: Incomplete,
}

/// Why something is missing in an answer: what is away or too much, as `/readyz` names it, each with a sentence.
pub(crate) type Incomplete = BTreeMap<String, String>;

/// What does not answer: `database` or `store`.
#[derive(Clone, Copy, Debug)]
pub(super) enum Away {
    Database,
    Store,
}

/// The fleet as it was read last. Whoever asks meanwhile waits for the one who reads it.
#[derive(Debug, Default)]
pub(super) struct FleetCache(tokio::sync::Mutex<Option<(Nanos, Arc<FleetFigures>)>>);

/// What a node tells the others through Redis.
#[derive(Debug, Serialize, Deserialize)]
struct ToldNode {
    version: Option<u64>,
    since_millis: i64,
    figures: NodeFigures,
}

impl Away {
    /// That something is missing because of it.
    pub(super) fn note(self, missing: &str) -> (String, String) {
        let (what, name) = match self {
            Away::Database => ("database", "the database"),
            Away::Store => ("store", "Redis"),
        };
        (what.to_owned(), format!("{name} does not answer: {missing}"))
    }
}

impl FleetFigures {
    pub(super) fn of(nodes: Vec<FleetNode>, incomplete: Incomplete, rules: &RuleSet) -> FleetFigures {
        let mut rates = Figures::default();
        nodes.iter().for_each(|node| rates.add(&node.figures.figures.tenths_per_second()));
        rates.cut_limits(LIMITS_MAX, |name| tenant_of(rules, name));
        let busy = BusyFigures::sum(nodes.iter().map(|node| &node.figures.busy));
        FleetFigures { nodes, rates, busy, incomplete }
    }
}

/// The nodes that share the database or, without one, the Redis; otherwise this one. While that does not answer, this one too.
pub(crate) async fn fleet(node: &Node, control: &ControlPlane) -> Arc<FleetFigures> {
    let mut known = control.glance().fleet.0.lock().await;
    let is_fresh = |read: Nanos| node.clock().now().saturating_sub(read) < FRESH;
    if let Some((_, fleet)) = known.as_ref().filter(|(read, _)| is_fresh(*read)) {
        return Arc::clone(fleet);
    }
    let wall = unix_millis(node.clock().wall());
    let own = FleetNode {
        report: this_node(control, wall),
        figures: NodeFigures::clone(&control.glance().latest()),
    };
    let (others, incomplete) = match others(node, control, wall).await {
        Ok(others) => (others, Incomplete::new()),
        Err(away) => (Vec::new(), Incomplete::from([away.note("the figures of other nodes are missing")])),
    };
    let rules = node.limiter().rules();
    let summed = control.run_own(move || {
        // What this node knows of itself is newer.
        let mut nodes: Vec<FleetNode> =
            others.into_iter().filter(|other| other.report.id != own.report.id).collect();
        nodes.push(own);
        nodes.sort_by(|one, other| one.report.id.cmp(&other.report.id));
        FleetFigures::of(nodes, incomplete, &rules)
    });
    let fleet = Arc::new(summed.await.unwrap_or_default());
    *known = Some((node.clock().now(), Arc::clone(&fleet)));
    fleet
}

/// The nodes as they have told of themselves.
async fn others(node: &Node, control: &ControlPlane, wall: UnixMillis) -> Result<Vec<FleetNode>, Away> {
    match (control.database(), node.shared()) {
        (Some(database), _) => {
            // Each report of this node tries it again, so that nobody has to wait here.
            if control.database_problem().is_some() {
                return Err(Away::Database);
            }
            let page = PageRequest { limit: NODES_MAX, cursor: None };
            let seen = database.nodes(SEEN_MILLIS, &page).await.map_err(|_| Away::Database)?;
            let told = seen.items.into_iter().map(told);
            Ok(told.collect())
        }
        (None, Some(shared)) => told_through_redis(shared, SEEN_MILLIS, wall).await.map_err(|_| Away::Store),
        (None, None) => Ok(Vec::new()),
    }
}

/// What this node says of itself.
pub(crate) fn this_node(control: &ControlPlane, wall: UnixMillis) -> NodeReport {
    let running = control.running();
    NodeReport {
        id: control.node_id().unwrap_or("this node").to_owned(),
        version: Some(running.version),
        since: unix_millis(running.since),
        seen: wall,
        ..NodeReport::default()
    }
}

/// What nodes have told through Redis within a time.
///
/// # Errors
/// When Redis does not answer.
pub(crate) async fn told_through_redis(
    shared: &SharedRedisStore,
    within_millis: i64,
    wall: UnixMillis,
) -> Result<Vec<FleetNode>, StoreError> {
    let within = Nanos::from_millis(within_millis.unsigned_abs());
    let told = shared.store.fleet(within).await.inspect_err(|error| {
        tracing::debug!(%error, "the figures of other nodes cannot be read");
    })?;
    let node = |(told, ago): (ToldByNode, Nanos)| {
        // A node of another version of Tidegate may tell other things.
        let text: ToldNode = serde_json::from_slice(&told.text).ok()?;
        let seen = wall.plus(-i64::try_from(ago.as_millis_ceil()).unwrap_or(i64::MAX));
        let (version, since) = (text.version, UnixMillis::new(text.since_millis));
        let report = NodeReport { id: told.id, version, since, seen, ..NodeReport::default() };
        Some(FleetNode { report, figures: text.figures.normalized() })
    };
    Ok(told.into_iter().filter_map(node).collect())
}

/// Tells the other nodes of this one. Who follows the versions of a database does that already. Returns what was told
/// through Redis, which the next call replaces.
pub(super) async fn tell(node: &Node, before: Option<ToldByNode>) -> Option<ToldByNode> {
    let control = node.control()?;
    let report = this_node(control, unix_millis(node.clock().wall()));
    let figures = control.glance().told();
    if let Some(database) = control.database() {
        if control.running().source != PolicySource::Database {
            let figures = serde_json::to_string(&*figures).ok();
            let reported = database.report(&NodeReport { figures, ..report }).await;
            control.set_database_problem(reported.err().map(|error| error.to_string()));
        }
        return None;
    }
    let shared = node.shared()?;
    let (version, since_millis) = (report.version, report.since.get());
    let told = ToldNode { version, since_millis, figures: NodeFigures::clone(&figures) };
    let told = ToldByNode { id: report.id, text: serde_json::to_vec(&told).ok()? };
    match shared.store.tell_fleet(&told, before.as_ref()).await {
        Ok(()) => Some(told),
        Err(error) => {
            tracing::debug!(%error, "the other nodes were not told the figures of this one");
            before
        }
    }
}

/// A node with the figures that it has written; one that starts has none yet. One of another version of Tidegate may
/// have written others.
fn told(report: NodeReport) -> FleetNode {
    let figures = report.figures.as_deref().and_then(|text| serde_json::from_str(text).ok());
    let unknown = || NodeFigures { status: "unknown".to_owned(), ..NodeFigures::default() };
    FleetNode { figures: figures.unwrap_or_else(unknown).normalized(), report }
}
