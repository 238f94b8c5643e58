//! The figures of now and of the last hour, the busiest keys, and the stream of the overview.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use serde::Serialize;
use tidegate::Clock;
use tidegate::engine::BusyKey;
use tidegate_policy::{Descriptor, RuleSet, TENANT_PREFIX};
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::{Duration, MissedTickBehavior, interval};
use utoipa::ToSchema;

use crate::admin::hot_keys::{KEYS_DEFAULT, KEYS_MAX, display_key};
use crate::bounds::OVERVIEW_STREAM_TIME_MAX;
use crate::control::access::Principal;
use crate::control::api::query::{QueryField, QueryKind};
use crate::control::api::route::Answering;
use crate::control::api::{ApiAnswer, ApiCall, ApiError};
use crate::control::glance::overview;
use crate::node::Node;

/// How many keys are wanted.
pub(in crate::control::api) const KEYS: &[QueryField] = &[QueryField {
    name: "limit",
    kind: QueryKind::Integer(1, KEYS_MAX as u64),
    about: "How many keys of each kind; 20 without it.",
}];

/// The keys of this node that took the most, and those that were denied the most.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct HotKeyLists {
    consumers: Vec<ListedKey>,
    denied: Vec<ListedKey>,
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
    request: BTreeMap<&'static str, String>,
}

/// `GET /overview`
pub(in crate::control::api) fn now(call: ApiCall) -> Answering {
    Box::pin(async move {
        let body = overview::overview(&call.node, call.control(), call.principal(), call.now).await?;
        Ok(ApiAnswer::json(&body))
    })
}

/// `GET /history`
pub(in crate::control::api) fn last_hour(call: ApiCall) -> Answering {
    Box::pin(async move {
        let body = overview::history(&call.node, call.control(), call.principal()).await?;
        Ok(ApiAnswer::json(&body))
    })
}

/// `GET /hot-keys`
pub(in crate::control::api) fn hot_keys(call: ApiCall) -> Answering {
    Box::pin(async move {
        let most = call.query.integer("limit").map_or(KEYS_DEFAULT, |most| most as usize);
        let limiter = call.node.limiter();
        let rules = limiter.rules();
        let listed = |keys: Vec<BusyKey>| {
            let seen = keys.into_iter().filter(|key| sees(call.principal(), &rules, key));
            let entry = |busy: BusyKey| ListedKey {
                key: display_key(&rules, &busy),
                request: request_with(&rules, &busy),
                limit: busy.limit,
                count: busy.count,
                error: busy.error,
            };
            seen.take(most).map(entry).collect()
        };
        Ok(ApiAnswer::json(&HotKeyLists {
            consumers: listed(limiter.top_consumers(KEYS_MAX)),
            denied: listed(limiter.top_denied(KEYS_MAX)),
        }))
    })
}

/// The members of a request that has this key; none if some of them are masked, or are not known.
fn request_with(rules: &RuleSet, busy: &BusyKey) -> BTreeMap<&'static str, String> {
    let rule = rules.rules().iter().find(|rule| *rule.name == *busy.limit);
    let key = rule.map(|rule| &*rule.key).filter(|key| key.len() == busy.parts.len());
    let member = |(descriptor, value): (&Descriptor, &String)| {
        let name = match descriptor {
            Descriptor::Tenant => "tenant",
            Descriptor::User => "user",
            Descriptor::Client => "client",
            // A key may have a whole network.
            Descriptor::Ip if value.parse::<IpAddr>().is_ok() => "ip",
            Descriptor::Plan => "plan",
            Descriptor::Upstream => "upstream",
            Descriptor::Method => "method",
            Descriptor::Host => "host",
            Descriptor::Path => "path",
            Descriptor::Domain => "domain",
            // A route is a pattern.
            Descriptor::Route if !value.contains(['{', '*']) => "path",
            _ => return None,
        };
        (!value.is_empty()).then(|| (name, value.clone()))
    };
    let members = key.into_iter().flat_map(|key| key.iter().zip(&busy.parts)).map(member);
    members.collect::<Option<_>>().unwrap_or_default()
}

/// May a caller see a key? A restricted one sees those of tenants in its subtree: of their own limits, and of limits that
/// count by tenant.
fn sees(caller: &Principal, rules: &RuleSet, busy: &BusyKey) -> bool {
    if caller.tenant.is_none() {
        return true;
    }
    let is_seen = |tenant: &str| caller.sees(rules.tenants(), Some(tenant));
    if busy.limit.strip_prefix(TENANT_PREFIX).is_some_and(is_seen) {
        return true;
    }
    let rule = rules.rules().iter().find(|rule| *rule.name == *busy.limit);
    let key = rule.map(|rule| &*rule.key).filter(|key| key.len() == busy.parts.len());
    let mut values = key.into_iter().flatten().zip(&busy.parts);
    values.any(|(descriptor, value)| *descriptor == Descriptor::Tenant && is_seen(value))
}

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
        let event = match overview::overview(&node, control, &caller, now).await {
            Ok(body) => {
                let body = serde_json::to_string(&body).unwrap_or_default();
                format!("event: overview\ndata: {body}\n\n")
            }
            // A line that readers ignore, and that shows them that the connection lives.
            Err(error) => format!(": {}\n\n", error.to_string().replace(['\r', '\n'], " ")),
        };
        if events.send(Bytes::from(event)).await.is_err() {
            return;
        }
    }
}
