//! Records which tokens the server gave and which were spent, with the true time of each. The simulation writes it, and
//! the invariants are checked against it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use tidegate_core::{Limit, Nanos};
use tidegate_redis::{BucketKey, CallAnswer, CallOutcome, CallVerb, ScriptCall};

use crate::world::{TaskId, lock};

/// The record of a run. Clones are the same record.
#[derive(Clone, Debug)]
pub struct TokenRecord(Arc<Mutex<RecordState>>);

#[derive(Debug)]
struct RecordState {
    /// The limit of each bucket; no two limits of a request have the same numbers.
    limits: Vec<Limit>,
    /// Calls about limits with these numbers are not recorded.
    ignored: Vec<Limit>,
    bucket_of: BTreeMap<BucketKey, usize>,
    /// The buckets of each request, by its task. An answer may come after its request has ended.
    requested: BTreeMap<TaskId, Vec<usize>>,
    under_way: BTreeMap<TaskId, Vec<Taken>>,
    buckets: Vec<BucketRecord>,
    /// How many calls were about buckets that no request named.
    unknown_calls: u64,
}

/// Tokens that the server gave to a request under way.
#[derive(Clone, Copy, Debug)]
struct Taken {
    bucket: usize,
    tokens: u32,
    sent: Nanos,
    at: Nanos,
}

/// The record of one bucket; in the order of time after [`TokenRecord::close`].
#[derive(Clone, Debug, Default)]
pub struct BucketRecord {
    /// Tokens that were spent: when, and how many.
    pub spent: Vec<(Nanos, u32)>,
    /// Tokens that the server gave, or took back (negative): when, and how many.
    pub given: Vec<(Nanos, i64)>,
    /// Tokens that somebody has put into the bucket, by a grant or a reset: when, and how many.
    pub granted: Vec<(Nanos, u32)>,
    /// Leased tokens, by node: when the call was sent, and how many.
    pub leased: BTreeMap<usize, Vec<(Nanos, u32)>>,
    /// By node: when the calls were sent that the server answered, refusals included.
    pub answered: BTreeMap<usize, Vec<Nanos>>,
    /// Tokens spent from leases, by node: when, and how many.
    pub from_leases: BTreeMap<usize, Vec<(Nanos, u32)>>,
}

/// The origin of a call: a task of a node.
#[derive(Clone, Copy, Debug)]
pub struct CallOrigin {
    /// The task, if there is one.
    pub task: Option<TaskId>,
    /// Its node.
    pub node: usize,
    /// When it sent the call.
    pub sent: Nanos,
}

impl TokenRecord {
    /// An empty record for buckets of these limits.
    pub fn new(limits: Vec<Limit>) -> TokenRecord {
        let buckets = vec![BucketRecord::default(); limits.len()];
        TokenRecord(Arc::new(Mutex::new(RecordState {
            limits,
            ignored: Vec::new(),
            bucket_of: BTreeMap::new(),
            requested: BTreeMap::new(),
            under_way: BTreeMap::new(),
            buckets,
            unknown_calls: 0,
        })))
    }

    /// The same record, which ignores calls about limits with these numbers: those of a policy that is only tried out.
    #[must_use]
    pub fn ignoring(self, limits: impl IntoIterator<Item = Limit>) -> TokenRecord {
        lock(&self.0).ignored = limits.into_iter().collect();
        self
    }

    /// A task is about to charge these buckets.
    pub fn begin(&self, task: TaskId, buckets: impl IntoIterator<Item = usize>) {
        let mut state = lock(&self.0);
        state.requested.insert(task, buckets.into_iter().collect());
        state.under_way.insert(task, Vec::new());
    }

    /// The server has executed a call.
    pub fn executed(&self, caller: CallOrigin, at: Nanos, call: &ScriptCall, answer: &CallAnswer) {
        let CallOrigin { task, node, sent } = caller;
        self.answered(caller, call);
        if answer.outcome != CallOutcome::Done || call.verb == CallVerb::Peek {
            return;
        }
        let mut state = lock(&self.0);
        for (entry, &leased) in call.entries.iter().zip(&answer.leased) {
            if state.ignored.contains(&entry.limit) {
                continue;
            }
            let Some(bucket) = state.bucket_for(task, &entry.key, &entry.limit) else {
                state.unknown_calls += 1;
                continue;
            };
            let tokens = i64::from(entry.cost.get());
            match call.verb {
                CallVerb::Take => {
                    let record = &mut state.buckets[bucket];
                    record.given.push((at, tokens + i64::from(leased)));
                    record.leased.entry(node).or_default().push((sent, leased));
                    if let Some(under_way) = task.and_then(|task| state.under_way.get_mut(&task)) {
                        under_way.push(Taken { bucket, tokens: entry.cost.get(), sent, at });
                    }
                }
                CallVerb::HandBack => state.buckets[bucket].given.push((at, -tokens)),
                CallVerb::Refund => state.buckets[bucket].granted.push((at, entry.cost.get())),
                CallVerb::Peek => {}
            }
        }
    }

    fn answered(&self, CallOrigin { task, node, sent }: CallOrigin, call: &ScriptCall) {
        let mut state = lock(&self.0);
        for entry in &call.entries {
            if !state.ignored.contains(&entry.limit)
                && let Some(bucket) = state.bucket_for(task, &entry.key, &entry.limit)
            {
                state.buckets[bucket].answered.entry(node).or_default().push(sent);
            }
        }
    }

    /// A request was admitted. Tokens that the server took for it were spent when the server took them; tokens from
    /// leases were spent when they were drawn, before the call was sent. If there were several calls, only the last
    /// counts: the tokens of earlier ones were handed back.
    pub fn admitted(&self, node: usize, task: TaskId, now: Nanos, charges: &[(usize, u32)]) {
        let mut state = lock(&self.0);
        let Some(taken) = state.under_way.remove(&task) else { return };
        let last_sent = taken.iter().map(|taken| taken.sent).max();
        for &(bucket, cost) in charges {
            let mut left = cost;
            for taken in taken.iter().filter(|taken| taken.bucket == bucket && Some(taken.sent) == last_sent)
            {
                let tokens = taken.tokens.min(left);
                left -= tokens;
                state.buckets[bucket].spent.push((taken.at, tokens));
            }
            let used = (last_sent.unwrap_or(now), left);
            state.buckets[bucket].spent.push(used);
            state.buckets[bucket].from_leases.entry(node).or_default().push(used);
        }
    }

    /// A request was not admitted.
    pub fn refused(&self, task: TaskId) {
        lock(&self.0).under_way.remove(&task);
    }

    /// A request was not admitted, although the server had taken tokens for it: they are as good as leased by its node.
    pub fn refused_after_all(&self, node: usize, task: TaskId) {
        let mut state = lock(&self.0);
        for taken in state.under_way.remove(&task).unwrap_or_default() {
            let leased = &mut state.buckets[taken.bucket].leased;
            leased.entry(node).or_default().push((taken.sent, taken.tokens));
        }
    }

    /// The bucket of a key, if it is known.
    pub fn bucket_of(&self, key: &BucketKey) -> Option<usize> {
        lock(&self.0).bucket_of.get(key).copied()
    }

    /// The records of all buckets, in the order of time, and how many calls were about buckets that no request named.
    pub fn close(&self) -> (Vec<BucketRecord>, u64) {
        let mut state = lock(&self.0);
        let mut buckets = std::mem::take(&mut state.buckets);
        for record in &mut buckets {
            record.spent.retain(|&(_, tokens)| tokens > 0);
            record.spent.sort_by_key(|&(at, _)| at);
            for of_node in record.leased.values_mut().chain(record.from_leases.values_mut()) {
                of_node.retain(|&(_, tokens)| tokens > 0);
                of_node.sort_by_key(|&(at, _)| at);
            }
            record.answered.values_mut().for_each(|sent| sent.sort());
            record.given.sort_by_key(|&(at, tokens)| (at, std::cmp::Reverse(tokens)));
        }
        (buckets, state.unknown_calls)
    }
}

impl RecordState {
    /// The bucket of a key: the one of the request's buckets whose limit has these numbers.
    fn bucket_for(&mut self, task: Option<TaskId>, key: &BucketKey, limit: &Limit) -> Option<usize> {
        if let Some(&bucket) = self.bucket_of.get(key) {
            return Some(bucket);
        }
        let requested = self.requested.get(&task?)?;
        // An edit may have changed the numbers of a limit; then it is the only one of its request.
        let bucket = match requested[..] {
            [only] => only,
            _ => requested.iter().copied().find(|&bucket| self.limits[bucket] == *limit)?,
        };
        self.bucket_of.insert(key.clone(), bucket);
        Some(bucket)
    }
}
