//! The figures of all nodes that share a database.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use tidegate::{Clock, Nanos};
use tidegate_database::{DatabaseError, HistoryRecord, NodeReport, PageRequest};

use super::figures::{Figures, NodeFigures};
use super::last_hour::{HistoryStep, STEPS};
use crate::control::ControlPlane;
use crate::control::startup::unix_millis;
use crate::node::Node;

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

/// The nodes that share the database, or this one.
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
    let running = control.running();
    let own = FleetNode {
        report: NodeReport {
            id: control.node_id().unwrap_or("this node").to_owned(),
            version: Some(running.version),
            since: unix_millis(running.since),
            seen: wall,
            ..NodeReport::default()
        },
        figures: NodeFigures::clone(&control.glance().latest()),
    };
    let Some(database) = control.database() else { return Ok(vec![own]) };
    let page = PageRequest { limit: NODES_MAX, cursor: None };
    let seen = database.nodes(wall.plus(-SEEN_MILLIS), &page).await?;
    let others = seen.items.into_iter().filter(|report| report.id != own.report.id);
    let mut nodes: Vec<FleetNode> = others.map(told).collect();
    nodes.push(own);
    nodes.sort_by(|one, other| one.report.id.cmp(&other.report.id));
    Ok(nodes)
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
    let (Some(database), Some(id)) = (control.database(), control.node_id()) else { return };
    let Ok(text) = serde_json::to_string(&step.figures) else { return };
    let record = HistoryRecord { node: id.to_owned(), step: step.number, figures: text };
    if let Err(error) = database.keep_history(&record, step.number.saturating_sub(STEPS as u64)).await {
        tracing::debug!(%error, "a step of the last hour was not written");
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
    if let (Some(database), Some(id)) = (control.database(), control.node_id()) {
        let first = HistoryStep::at(node.clock().wall()).saturating_sub(STEPS as u64);
        for record in database.history_since(first).await? {
            // What this node knows itself is newer than what it has written.
            let is_known = record.node == id && own.contains_key(&record.step);
            if let Ok(figures) = serde_json::from_str::<Figures>(&record.figures)
                && !is_known
            {
                sum.entry(record.step).or_default().add(&figures);
            }
        }
    }
    for (number, figures) in own {
        sum.entry(number).or_default().add(&figures);
    }
    let steps = sum.into_iter().map(|(number, figures)| HistoryStep { number, figures });
    Ok(steps.collect())
}
