//! The figures of now and of the last hour, the busiest keys, and the stream of the overview.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use serde::Serialize;
use tidegate::Clock;
use tidegate_policy::RuleSet;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::{Duration, MissedTickBehavior, interval};
use utoipa::ToSchema;

use crate::admin::hot_keys::{KEYS_DEFAULT, KEYS_MAX};
use crate::bounds::OVERVIEW_STREAM_TIME_MAX;
use crate::control::access::Principal;
use crate::control::api::query::{QueryField, QueryKind};
use crate::control::api::route::Answering;
use crate::control::api::{ApiAnswer, ApiCall, ApiError, rfc3339};
use crate::control::glance::busy::{KeyCount, KeyCounts};
use crate::control::glance::fleet::{self, FleetFigures, Incomplete};
use crate::control::glance::overview;
use crate::node::Node;

/// How many keys are wanted.
pub(in crate::control::api) const KEYS: &[QueryField] = &[QueryField {
    name: "limit",
    kind: QueryKind::Integer(1, KEYS_MAX as u64),
    about: "How many keys of each kind; 20 without it.",
}];

/// The keys that took the most of late, and those that were denied the most, over all nodes.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct HotKeyLists {
    /// Since when they are counted: for half a minute to a minute. `null` in the first second of a node.
    #[schema(format = DateTime)]
    since: Option<String>,
    consumers: Vec<ListedKey>,
    denied: Vec<ListedKey>,
    /// Why something is missing, each with a sentence: `database` or `store`, which does not answer, so that these are the keys
    /// of the node that answers alone; `keys`, of which there are more than nodes count and name to each other.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = Object)]
    incomplete: Incomplete,
}

/// A busy key.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ListedKey {
    /// The limit that counts it.
    limit: String,
    /// The key; values that may be credentials are masked.
    key: String,
    /// Tokens taken, or requests denied. Too high by at most `error`.
    count: u64,
    /// By how much the count may be too high.
    error: u64,
    /// The members that a request must have to have this key; absent if one is masked or is not a member of requests.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = Object)]
    request: BTreeMap<String, String>,
}

impl From<KeyCount> for ListedKey {
    fn from(counted: KeyCount) -> ListedKey {
        let KeyCount { limit, key, count, error, request, .. } = counted;
        ListedKey { limit, key, count, error, request }
    }
}

/// `GET /overview`
pub(in crate::control::api) fn now(call: ApiCall) -> Answering {
    Box::pin(async move {
        let body = overview::overview(&call.node, call.control(), call.principal(), call.now).await;
        Ok(ApiAnswer::json(&body))
    })
}

/// `GET /history`
pub(in crate::control::api) fn last_hour(call: ApiCall) -> Answering {
    Box::pin(async move {
        let body = overview::history(&call.node, call.control(), call.principal()).await;
        Ok(ApiAnswer::json(&body))
    })
}

/// `GET /hot-keys`
pub(in crate::control::api) fn hot_keys(call: ApiCall) -> Answering {
    Box::pin(async move {
        let most = call.query.integer("limit").map_or(KEYS_DEFAULT, |most| most as usize);
        let fleet = fleet::fleet(&call.node, call.control()).await;
        let rules = call.node.limiter().rules();
        Ok(ApiAnswer::json(&HotKeyLists::of(&fleet, call.principal(), &rules, most)))
    })
}

impl HotKeyLists {
    /// So many keys of each kind, as a caller may see them.
    fn of(fleet: &FleetFigures, caller: &Principal, rules: &RuleSet, most: usize) -> HotKeyLists {
        let mut incomplete = fleet.incomplete.clone();
        let mut listed = |counts: &KeyCounts| -> Vec<ListedKey> {
            let seen = counts.keys.iter().filter(|key| key.is_seen_by(caller, rules));
            let listed: Vec<ListedKey> = seen.take(most).cloned().map(ListedKey::from).collect();
            // Whoever sees all keys gets the busiest of all; whoever sees some of them, those that nodes count and name.
            if caller.tenant.is_some() && listed.len() < most && counts.others_at_most > 0 {
                incomplete.insert("keys".to_owned(), KEYS_NOTE.to_owned());
            }
            listed
        };
        HotKeyLists {
            since: fleet.busy.since().map(rfc3339),
            consumers: listed(&fleet.busy.consumers),
            denied: listed(&fleet.busy.denied),
            incomplete,
        }
    }
}

const KEYS_NOTE: &str =
    "more keys are used than nodes count and name to each other: some that are less busy may be missing";

/// `GET /stream`
pub(in crate::control::api) fn stream(call: ApiCall) -> Answering {
    Box::pin(async move {
        let permit = Arc::clone(&call.control().glance().streams).try_acquire_owned();
        let permit = permit.map_err(|_| ApiError::TooMany {
            detail: "too many streams are open; close one, or ask for /overview".to_owned(),
            retry_after: 5,
        })?;
        let (events, feed) = mpsc::channel(1);
        let caller = call.principal().clone();
        call.control().runtime().spawn(send_overviews(Arc::clone(&call.node), caller, events, permit));
        Ok(ApiAnswer::events(feed))
    })
}

/// Sends an overview each second, until the reader is gone or the stream is old. A reader that is slow misses some.
async fn send_overviews(
    node: Arc<Node>,
    caller: Principal,
    events: mpsc::Sender<Bytes>,
    _permit: OwnedSemaphorePermit,
) {
    let ends = node.clock().now().saturating_add(OVERVIEW_STREAM_TIME_MAX.into());
    let mut seconds = interval(Duration::from_secs(1));
    seconds.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while node.clock().now() < ends {
        tokio::select! {
            _tick = seconds.tick() => {}
            () = events.closed() => return,
            () = node.lifecycle().closing() => return,
        }
        let Some(control) = node.control() else { return };
        let now = node.clock().wall();
        let body = overview::overview(&node, control, &caller, now).await;
        let body = serde_json::to_string(&body).unwrap_or_default();
        let event = format!("event: overview\ndata: {body}\n\n");
        if events.send(Bytes::from(event)).await.is_err() {
            return;
        }
    }
}
