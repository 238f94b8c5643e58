//! The figures of all nodes that share a database or, without one, a Redis.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use tidegate::{Clock, Nanos};
use tidegate_database::{DatabaseError, HistoryRecord, NodeReport, PageRequest, UnixMillis};
use tidegate_redis::ToldByNode;

use super::figures::{Figures, NodeFigures};
use super::last_hour::{HistoryStep, STEPS};
use crate::control::startup::unix_millis;
use crate::control::{ControlPlane, PolicySource};
use crate::node::Node;
use crate::node::store::SharedRedisStore;

/// A node that was not seen for so long no longer counts.
const SEEN_MILLIS: i64 = 5_000;
/// How long what was read is used again: all who look at the same time cost one reading.
const FRESH: Nanos = Nanos::from_millis(500);
/// How many nodes are summed.
const NODES_MAX: u32 = 1_000;

/// A node, and its figures if it has told them.
#[derive(Clone, Debug)]
pub(crate) struct FleetNode {
    pub(crate) report: NodeReport,
    pub(crate) figures: NodeFigures,
}

/// The nodes as they were read last.
#[derive(Debug, Default)]
pub(super) struct FleetCache(Mutex<Option<(Nanos, Arc<Vec<FleetNode>>)>>);

/// What a node tells the others through Redis.
#[derive(Debug, Serialize, Deserialize)]
struct ToldNode {
    version: Option<u64>,
    since_millis: i64,
    figures: NodeFigures,
}

/// The nodes that share the database or, without one, the Redis; otherwise this one.
///
/// # Errors
/// When the database fails.
pub(crate) async fn nodes(node: &Node, control: &ControlPlane) -> Result<Arc<Vec<FleetNode>>, DatabaseError> {
    let now = node.clock().now();
    let cache = &control.glance().fleet.0;
    let fresh = cache.lock().unwrap_or_else(PoisonError::into_inner).clone();
    if let Some((_, nodes)) = fresh.filter(|(read, _)| now.saturating_sub(*read) < FRESH) {
        return Ok(nodes);
    }
    let nodes = Arc::new(read(node, control).await?);
    *cache.lock().unwrap_or_else(PoisonError::into_inner) = Some((now, Arc::clone(&nodes)));
    Ok(nodes)
}

async fn read(node: &Node, control: &ControlPlane) -> Result<Vec<FleetNode>, DatabaseError> {
    let wall = unix_millis(node.clock().wall());
    let own = FleetNode {
        report: this_node(control, wall),
        figures: NodeFigures::clone(&control.glance().latest()),
    };
    let mut nodes: Vec<FleetNode> = match (control.database(), node.shared()) {
        (Some(database), _) => {
            let page = PageRequest { limit: NODES_MAX, cursor: None };
            let seen = database.nodes(wall.plus(-SEEN_MILLIS), &page).await?;
            seen.items.into_iter().map(told).collect()
        }
        (None, Some(shared)) => told_through_redis(shared, SEEN_MILLIS, wall).await,
        (None, None) => Vec::new(),
    };
    // What this node knows of itself is newer.
    nodes.retain(|other| other.report.id != own.report.id);
    nodes.push(own);
    nodes.sort_by(|one, other| one.report.id.cmp(&other.report.id));
    Ok(nodes)
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

/// What nodes have told through Redis within a time. If it does not answer, nobody: each node sees itself, and that the
/// store is away.
pub(crate) async fn told_through_redis(
    shared: &SharedRedisStore,
    within_millis: i64,
    wall: UnixMillis,
) -> Vec<FleetNode> {
    let within = Nanos::from_millis(within_millis.unsigned_abs());
    let told = match shared.store.fleet(within).await {
        Ok(told) => told,
        Err(error) => {
            tracing::debug!(%error, "the figures of other nodes cannot be read");
            return Vec::new();
        }
    };
    let node = |(told, ago): (ToldByNode, Nanos)| {
        // A node of another version of Tidegate may tell other things.
        let text: ToldNode = serde_json::from_slice(&told.text).ok()?;
        let seen = wall.plus(-i64::try_from(ago.as_millis_ceil()).unwrap_or(i64::MAX));
        let (version, since) = (text.version, UnixMillis::new(text.since_millis));
        let report = NodeReport { id: told.id, version, since, seen, ..NodeReport::default() };
        Some(FleetNode { report, figures: text.figures })
    };
    told.into_iter().filter_map(node).collect()
}

/// Tells the other nodes of this one. Who follows the versions of a database does that already. Returns what was told
/// through Redis, which the next call replaces.
pub(super) async fn tell(node: &Node, before: Option<ToldByNode>) -> Option<ToldByNode> {
    let control = node.control()?;
    let report = this_node(control, unix_millis(node.clock().wall()));
    let figures = control.glance().latest();
    if let Some(database) = control.database() {
        if control.running().source != PolicySource::Database {
            let figures = serde_json::to_string(&figures.told()).ok();
            let reported = database.report(&NodeReport { figures, ..report }).await;
            control.set_database_problem(reported.err().map(|error| error.to_string()));
        }
        return None;
    }
    let shared = node.shared()?;
    let (version, since_millis) = (report.version, report.since.get());
    let told = ToldNode { version, since_millis, figures: figures.told() };
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
    FleetNode { figures: figures.unwrap_or_else(unknown), report }
}

/// Writes down a step of the last hour, for the other nodes.
pub(super) async fn keep(node: &Node, step: &HistoryStep) {
    let Some(control) = node.control() else { return };
    let Some(id) = control.node_id().map(str::to_owned) else { return };
    let Ok(text) = serde_json::to_string(&step.figures) else { return };
    let first = step.number.saturating_sub(STEPS as u64);
    let kept = match (control.database(), node.shared()) {
        (Some(database), _) => {
            let record = HistoryRecord { node: id, step: step.number, figures: text };
            database.keep_history(&record, first).await.map_err(|error| error.to_string())
        }
        (None, Some(shared)) => {
            let told = ToldByNode { id, text: text.into_bytes() };
            shared.store.keep_step(step.number, &told, first).await.map_err(|error| error.to_string())
        }
        (None, None) => Ok(()),
    };
    if let Err(error) = kept {
        tracing::debug!(%error, "a step of the last hour was not written");
    }
}

/// What nodes have written of the steps from `first` on.
async fn written_steps(
    node: &Node,
    control: &ControlPlane,
    first: u64,
) -> Result<Vec<HistoryRecord>, DatabaseError> {
    match (control.database(), node.shared()) {
        (Some(database), _) => database.history_since(first).await,
        (None, Some(shared)) => {
            let steps = shared.store.steps(first).await.unwrap_or_else(|error| {
                tracing::debug!(%error, "the last hour of other nodes cannot be read");
                Vec::new()
            });
            let record = |(told, step): (ToldByNode, u64)| {
                Some(HistoryRecord { node: told.id, step, figures: String::from_utf8(told.text).ok()? })
            };
            Ok(steps.into_iter().filter_map(record).collect())
        }
        (None, None) => Ok(Vec::new()),
    }
}

/// The last hour of all nodes, oldest step first. A step that goes on has this node's figures only.
///
/// # Errors
/// When the database fails.
pub(crate) async fn last_hour(
    node: &Node,
    control: &ControlPlane,
) -> Result<Vec<HistoryStep>, DatabaseError> {
    let mut sum: BTreeMap<u64, Figures> = BTreeMap::new();
    let mut own = BTreeMap::new();
    for step in control.glance().last_hour().steps() {
        own.insert(step.number, step.figures.clone());
    }
    let first = HistoryStep::at(node.clock().wall()).saturating_sub(STEPS as u64);
    for record in written_steps(node, control, first).await? {
        // What this node knows itself is newer than what it has written.
        let is_known = Some(&*record.node) == control.node_id() && own.contains_key(&record.step);
        if let Ok(figures) = serde_json::from_str::<Figures>(&record.figures)
            && !is_known
        {
            sum.entry(record.step).or_default().add(&figures);
        }
    }
    for (number, figures) in own {
        sum.entry(number).or_default().add(&figures);
    }
    let steps = sum.into_iter().map(|(number, figures)| HistoryStep { number, figures });
    Ok(steps.collect())
}
