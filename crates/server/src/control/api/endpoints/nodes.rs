//! The nodes that share a database or a Redis, and what each runs.

use serde::Serialize;
use serde_json::json;
use tidegate_database::{NodeReport, PageRequest};
use utoipa::ToSchema;

use crate::control::api::query::PAGE_MAX;
use crate::control::api::route::Answering;
use crate::control::api::{ApiAnswer, ApiCall, rfc3339};
use crate::control::glance::fleet;
use crate::control::startup::unix_millis;

/// A node.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ListedNode {
    /// Its name.
    id: String,
    /// The version of the policy that it runs.
    version: Option<u64>,
    /// Since when.
    #[schema(format = DateTime)]
    since: String,
    /// When it was last seen.
    #[schema(format = DateTime)]
    seen: String,
    /// Why it cannot run a newer version.
    error: Option<String>,
}

/// A node that was not seen for so long is not listed.
const FORGOTTEN_AFTER_MILLIS: i64 = 60_000;

impl ListedNode {
    fn new(report: &NodeReport) -> ListedNode {
        ListedNode {
            id: report.id.clone(),
            version: report.version,
            since: rfc3339(report.since),
            seen: rfc3339(report.seen),
            error: report.error.clone(),
        }
    }
}

/// `GET /nodes`
pub(in crate::control::api) fn list(call: ApiCall) -> Answering {
    Box::pin(async move {
        let (wanted, searched) = (call.query.page_length(), call.query.get("q").map(str::to_lowercase));
        let has =
            |node: &NodeReport| searched.as_ref().is_none_or(|text| node.id.to_lowercase().contains(text));
        let Some(database) = call.control().database() else {
            return Ok(without_database(&call, wanted, has).await);
        };
        let limit = if searched.is_some() { PAGE_MAX } else { wanted as u64 };
        let mut page =
            PageRequest { limit: limit as u32, cursor: call.query.get("cursor").map(str::to_owned) };
        let mut items = Vec::new();
        loop {
            let found = database.nodes(FORGOTTEN_AFTER_MILLIS, &page).await?;
            for node in found.items.iter().filter(|node| has(node)) {
                if items.len() == wanted {
                    let last = items.last().map(|node: &ListedNode| node.id.clone());
                    return Ok(ApiAnswer::list(items.iter().map(|node| json!(node)).collect(), last));
                }
                items.push(ListedNode::new(node));
            }
            if found.next.is_none() || items.len() == wanted {
                return Ok(ApiAnswer::list(items.iter().map(|node| json!(node)).collect(), found.next));
            }
            page.cursor = found.next;
        }
    })
}

/// The nodes that share a Redis, or this node alone.
async fn without_database(call: &ApiCall, wanted: usize, has: impl Fn(&NodeReport) -> bool) -> ApiAnswer {
    let own = fleet::this_node(call.control(), unix_millis(call.now));
    let mut nodes: Vec<NodeReport> = match call.node.shared() {
        Some(shared) => {
            let told = fleet::told_through_redis(shared, FORGOTTEN_AFTER_MILLIS, own.seen).await;
            // If Redis does not answer, each node lists itself.
            let told = told.unwrap_or_default();
            told.into_iter().map(|node| node.report).filter(|node| node.id != own.id).collect()
        }
        None => Vec::new(),
    };
    nodes.push(own);
    nodes.sort_by(|one, other| one.id.cmp(&other.id));
    let after = call.query.get("cursor");
    let mut listed = nodes.iter().filter(|node| has(node) && after.is_none_or(|after| *node.id > *after));
    let page: Vec<&NodeReport> = listed.by_ref().take(wanted).collect();
    let next = listed.next().and(page.last()).map(|node| node.id.clone());
    ApiAnswer::list(page.into_iter().map(|node| json!(ListedNode::new(node))).collect(), next)
}
