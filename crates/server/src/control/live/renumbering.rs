//! Buckets whose numbers change because an override was added or has ended.
//!
//! A bucket takes on other numbers when something is taken from it. Whoever is denied takes nothing: without this, a client that
//! waits for an hour and is given a hundred times the rate would wait for the rest of the hour. So each node writes the bucket
//! in its new numbers when it learns of the change, and forgets what it remembers about it. That is possible where an
//! override names just what its limit counts by, as it mostly does. If the store does not answer, the bucket is written when
//! it does: it always gets the numbers that are in force then, so writing one twice does no harm.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tidegate_policy::Descriptor;
use tidegate_redis::StoreError;

use super::entry::LiveEntry;
use super::{KnownLive, LiveBoard};
use crate::bounds::{LIVE_ENTRIES_MAX, RENUMBERED_BUCKETS_MAX};
use crate::node::Node;
use crate::wire;

/// With more buckets than this at once, nobody waits for them.
const AWAITED_MAX: usize = 16;

/// After so many buckets there is a pause: all nodes do the same at the same time, and the store has decisions to make.
const BATCH: usize = 32;
const PAUSE: Duration = Duration::from_millis(10);

/// After so many overrides for which the store does not answer, the others have to wait too.
const FAILURES_MAX: usize = 16;

/// A bucket: a limit, the descriptors that it counts by, and a request that has their values.
struct NamedBucket {
    limit: Arc<str>,
    named: Arc<[Descriptor]>,
    request: String,
}

/// Writes the buckets of overrides that were added or have ended.
pub(super) async fn renumber(node: &Arc<Node>, changed: Vec<LiveEntry>) {
    let is_long = changed.iter().flat_map(buckets).nth(AWAITED_MAX).is_some();
    let writing = write(Arc::clone(node), changed);
    match node.control().filter(|_| is_long) {
        Some(control) => drop(control.runtime().spawn(writing)),
        // Whoever has made a single change sees it in force when the call returns.
        None => writing.await,
    }
}

/// Writes the buckets for which the store did not answer.
pub(super) async fn retry(node: &Arc<Node>, board: &LiveBoard) {
    let unwritten = std::mem::take(&mut board.known().unwritten_overrides);
    if !unwritten.is_empty() {
        renumber(node, unwritten).await;
    }
}

async fn write(node: Arc<Node>, overrides: Vec<LiveEntry>) {
    let Some(control) = node.control() else { return };
    let (mut overrides, mut written, mut failed) = (overrides.into_iter(), 0, Vec::new());
    // A store that is away is not asked for thousands of buckets in turn.
    while failed.len() < FAILURES_MAX
        && let Some(entry) = overrides.next()
    {
        if let Err(error) = write_each(&node, &entry, &mut written).await {
            tracing::debug!(%error, id = entry.id, "the buckets of an override keep their numbers for now");
            failed.push(entry);
        }
    }
    // The failed ones last: if they fail again and again, the others still have their turn.
    let unwritten = overrides.chain(failed);
    let dropped = control.live().known().write_later(unwritten);
    if dropped > 0 {
        tracing::warn!(
            overrides = dropped,
            "too many overrides have changed while the store is away: the buckets of some keep their numbers until something \
             is taken from them"
        );
    }
}

/// Writes the buckets of an override.
async fn write_each(node: &Node, entry: &LiveEntry, written: &mut usize) -> Result<(), StoreError> {
    for bucket in buckets(entry) {
        if let Ok(request) = wire::request(&bucket.request) {
            node.limiter().renumber_async(&bucket.limit, &bucket.named, &request).await?;
        }
        // A store in memory answers at once, and calls of the API wait for this thread.
        tokio::task::yield_now().await;
        *written += 1;
        if written.is_multiple_of(BATCH) {
            tokio::time::sleep(PAUSE).await;
        }
    }
    Ok(())
}

impl KnownLive {
    /// Keeps overrides whose buckets are not written yet. Returns how many of them are too many.
    fn write_later(&mut self, overrides: impl Iterator<Item = LiveEntry>) -> usize {
        self.unwritten_overrides.extend(overrides);
        let dropped = self.unwritten_overrides.len().saturating_sub(LIVE_ENTRIES_MAX);
        self.unwritten_overrides.drain(..dropped);
        dropped
    }
}

/// The buckets that an override names.
fn buckets(entry: &LiveEntry) -> impl Iterator<Item = NamedBucket> {
    let who = entry.body.overridden.as_ref().and_then(|overridden| {
        let named = entry.body.who.as_object()?.keys().map(|name| Descriptor::parse(name));
        Some((Arc::from(overridden.limit.as_str()), named.collect::<Option<Arc<[Descriptor]>>>()?))
    });
    who.into_iter().flat_map(|(limit, named)| {
        requests(&entry.body.who).into_iter().map(move |request| NamedBucket {
            limit: Arc::clone(&limit),
            named: Arc::clone(&named),
            request: request.to_string(),
        })
    })
}

/// Requests that have the values of conditions: one for each combination, if conditions have several values.
fn requests(who: &Value) -> Vec<Value> {
    let mut requests = vec![json!({})];
    for (name, value) in who.as_object().into_iter().flatten() {
        let values: &[Value] = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
        let each = requests.iter().flat_map(|request| values.iter().map(move |value| (request, value)));
        let with = each.filter_map(|(request, value)| with_value(request, name, value));
        requests = with.take(RENUMBERED_BUCKETS_MAX).collect();
    }
    requests
}

/// The value of an address, if it has a bucket of its own: IPv6 addresses share one with the others of their network.
fn own_address(value: &Value) -> Option<Value> {
    let address: IpAddr = value.as_str()?.parse().ok()?;
    address.to_canonical().is_ipv4().then(|| value.clone())
}

fn with_value(request: &Value, name: &str, value: &Value) -> Option<Value> {
    let mut request = request.clone();
    match name.split_once(':') {
        None if name == "ip" => request["ip"] = own_address(value)?,
        None => request[name] = value.clone(),
        Some(("ip", "address")) => request["ip"] = own_address(value)?,
        Some(("header", header)) => request["headers"][header] = value.clone(),
        Some(("jwt", claim)) => request["jwt"][claim] = value.clone(),
        Some(("descriptor", descriptor)) => request["descriptors"][descriptor] = value.clone(),
        Some(("query", parameter)) => {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let pair =
                form_urlencoded::Serializer::new(String::new()).append_pair(parameter, &value).finish();
            let before = request["query"].as_str().map(|before| format!("{before}&")).unwrap_or_default();
            request["query"] = format!("{before}{pair}").into();
        }
        Some(_) => return None,
    }
    Some(request)
}

#[cfg(test)]
mod tests {
    use tidegate_database::UnixMillis;

    use super::*;
    use crate::control::live::entry::{LiveBody, LiveKind};

    #[test]
    fn conditions_become_requests_with_their_values() {
        assert_eq!(requests(&json!({ "user": "42" })), [json!({ "user": "42" })]);
        let two = json!({ "user": ["1", "2"], "header:x-api-key": "k" });
        let with_key = |user: &str| json!({ "user": user, "headers": { "x-api-key": "k" } });
        assert_eq!(requests(&two), [with_key("1"), with_key("2")]);
        let query = json!({ "query:a": "x y", "query:b": 1 });
        assert_eq!(requests(&query), [json!({ "query": "a=x+y&b=1" })]);
        let many: Vec<usize> = (0..2 * RENUMBERED_BUCKETS_MAX).collect();
        assert_eq!(requests(&json!({ "user": many })).len(), RENUMBERED_BUCKETS_MAX);
        assert!(requests(&json!({ "unknown:thing": 1 })).is_empty());
        let addresses = json!({ "ip": ["10.0.0.1", "2001:db8::1", "10.0.0.0/8", "::ffff:10.0.0.2"] });
        let with_address = |ip: &str| json!({ "ip": ip });
        assert_eq!(requests(&addresses), [with_address("10.0.0.1"), with_address("::ffff:10.0.0.2")]);
    }

    #[test]
    fn what_waits_for_the_store_is_bounded() {
        let some = |from: usize, count: usize| {
            (from..from + count).map(|number| LiveEntry {
                id: number.to_string(),
                kind: LiveKind::Override,
                sequence: 0,
                body: LiveBody::default(),
                until: None,
                created_at: UnixMillis::new(0),
                author: String::new(),
                reason: None,
            })
        };
        let mut known = KnownLive::default();
        assert_eq!(known.write_later(some(0, LIVE_ENTRIES_MAX)), 0);
        assert_eq!(known.write_later(some(LIVE_ENTRIES_MAX, 3)), 3, "the oldest make way");
        let left: Vec<LiveEntry> = some(3, LIVE_ENTRIES_MAX).collect();
        assert_eq!(known.unwritten_overrides, left);
    }
}
