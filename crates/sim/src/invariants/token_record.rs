//! Records which tokens the server gave and which were spent, with the true time of each. The simulation writes it, and
//! the invariants are checked against it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use tidegate_core::{Limit, Nanos};
use tidegate_redis::{BucketEntry, BucketKey, CallAnswer, CallOutcome, CallVerb, ScriptCall};

use crate::invariants::Allowance;
use crate::invariants::served::{ServedCall, ServedEntry, ServerEvent, TaskPurpose};
use crate::world::{TaskId, lock};

/// The record of a run. Clones are the same record.
#[derive(Clone, Debug)]
pub struct TokenRecord(Arc<Mutex<RecordState>>);

#[derive(Debug)]
struct RecordState {
    /// The limit of each bucket; no two limits of a request have the same numbers.
    limits: Vec<Limit>,
    bucket_of: BTreeMap<BucketKey, usize>,
    /// What each task is for, from when on. A call may be served after its request has ended, and after the task has
    /// begun with another.
    purposes: BTreeMap<TaskId, Vec<(Nanos, TaskPurpose)>>,
    /// The buckets of each request, by its task.
    requested: BTreeMap<TaskId, Vec<usize>>,
    /// Tasks that go on with the request of another, and since when.
    continued: BTreeMap<TaskId, (TaskId, Nanos)>,
    /// The actions of the scenario that the server has executed.
    acted: BTreeSet<usize>,
    /// What happened on the server, in its order.
    served: Vec<ServerEvent>,
    under_way: BTreeMap<TaskId, Vec<Taken>>,
    /// When calls were first sent that must be sent again, by task and bucket.
    to_repeat: BTreeMap<(TaskId, usize), Nanos>,
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
    /// When the call was first sent: if the bucket is found in other numbers, it is sent again.
    first_sent: Nanos,
    at: Nanos,
}

/// The record of one bucket; in the order of time after [`TokenRecord::close`].
#[derive(Clone, Debug, Default)]
pub struct BucketRecord {
    /// Tokens that were spent: when, and how many.
    pub spent: Vec<(Nanos, u32)>,
    /// Tokens that the server gave, or took back (negative): when, and how many.
    pub given: Vec<(Nanos, i64)>,
    /// When the server first executed an action of the scenario on the bucket, and what that action may give. What the
    /// call asked for does not count: it is what is to be checked.
    pub granted: Vec<(Nanos, Allowance)>,
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
    /// Was it executed by a master that was replaced?
    pub to_old: bool,
}

impl TokenRecord {
    /// An empty record for buckets of these limits.
    pub fn new(limits: Vec<Limit>) -> TokenRecord {
        let buckets = vec![BucketRecord::default(); limits.len()];
        TokenRecord(Arc::new(Mutex::new(RecordState {
            limits,
            bucket_of: BTreeMap::new(),
            purposes: BTreeMap::new(),
            requested: BTreeMap::new(),
            continued: BTreeMap::new(),
            acted: BTreeSet::new(),
            served: Vec::new(),
            under_way: BTreeMap::new(),
            to_repeat: BTreeMap::new(),
            buckets,
            unknown_calls: 0,
        })))
    }

    /// A task is about to charge these buckets.
    pub fn begin(&self, task: TaskId, now: Nanos, buckets: impl IntoIterator<Item = usize>) {
        let mut state = lock(&self.0);
        state.purposes.entry(task).or_default().push((now, TaskPurpose::Request));
        state.requested.insert(task, buckets.into_iter().collect());
        state.under_way.insert(task, Vec::new());
    }

    /// A task is about to do something else with a bucket.
    pub fn begin_acting(&self, task: TaskId, now: Nanos, bucket: usize, purpose: TaskPurpose) {
        let mut state = lock(&self.0);
        state.purposes.entry(task).or_default().push((now, purpose));
        state.requested.insert(task, vec![bucket]);
    }

    /// A task goes on with the request of another.
    pub fn continue_as(&self, request: TaskId, task: TaskId, now: Nanos) {
        lock(&self.0).continued.insert(task, (request, now));
    }

    /// Something happened to the server.
    pub fn happened(&self, event: ServerEvent) {
        lock(&self.0).served.push(event);
    }

    /// The server has executed a call.
    pub fn executed(&self, caller: CallOrigin, at: Nanos, call: &ScriptCall, answer: &CallAnswer) {
        let CallOrigin { node, sent, .. } = caller;
        let mut state = lock(&self.0);
        let (task, asked) = match caller.task.and_then(|task| state.continued.get(&task)) {
            Some(&(request, since)) => (Some(request), since),
            None => (caller.task, sent),
        };
        let purposes = task.and_then(|task| state.purposes.get(&task)).map_or(&[][..], |known| known);
        let purpose = purposes.iter().rfind(|(from, _)| *from <= asked).copied();
        let (began, purpose) = purpose.unwrap_or((sent, TaskPurpose::Upkeep));
        let is_counted = answer.outcome == CallOutcome::Done && call.verb != CallVerb::Peek;
        let mut entries = Vec::with_capacity(call.entries.len());
        for (entry, &leased) in call.entries.iter().zip(&answer.leased) {
            let Some(bucket) = state.bucket_for(task, &entry.key, &entry.limit) else {
                state.unknown_calls += u64::from(is_counted);
                continue;
            };
            state.buckets[bucket].answered.entry(node).or_default().push(sent);
            entries.push(ServedEntry::of(bucket, entry, leased));
            let before = task.and_then(|task| state.to_repeat.remove(&(task, bucket)));
            let first_sent = before.unwrap_or(sent);
            if let (CallOutcome::Migrate, Some(task)) = (answer.outcome, task) {
                state.to_repeat.insert((task, bucket), first_sent);
            }
            if is_counted {
                let sent = (first_sent, sent);
                state.count((task, purpose), (node, sent), at, (call.verb, bucket, entry, leased));
            }
        }
        let (verb, outcome) = (call.verb, answer.outcome);
        let (on_old, at) = (caller.to_old, answer.at);
        state.served.push(ServerEvent::Call(ServedCall {
            at,
            task,
            node,
            began,
            sent,
            purpose,
            on_old,
            verb,
            outcome,
            entries,
        }));
    }

    /// A request was admitted. Tokens that the server took for it were spent when the server took them; tokens from
    /// leases were spent when they were drawn, before the call was first sent. If there were several calls, only the last
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
            let last = taken.iter().filter(|taken| Some(taken.sent) == last_sent);
            let drawn = last.map(|taken| taken.first_sent).min();
            let used = (drawn.unwrap_or(now), left);
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

    /// In a world with a candidate: is it a key of the candidate's? Its buckets are the second half.
    pub fn is_of_candidate(&self, key: &BucketKey) -> bool {
        let state = lock(&self.0);
        state.bucket_of.get(key).is_some_and(|&bucket| bucket >= state.limits.len() / 2)
    }

    /// What happened on the server, in its order.
    pub fn take_served(&self) -> Vec<ServerEvent> {
        std::mem::take(&mut lock(&self.0).served)
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
    /// Counts one entry of a call that was executed.
    fn count(
        &mut self,
        (task, purpose): (Option<TaskId>, TaskPurpose),
        (node, (first_sent, sent)): (usize, (Nanos, Nanos)),
        at: Nanos,
        (verb, bucket, entry, leased): (CallVerb, usize, &BucketEntry, u32),
    ) {
        let tokens = i64::from(entry.cost.get());
        match verb {
            CallVerb::Take => {
                let record = &mut self.buckets[bucket];
                record.given.push((at, tokens + i64::from(leased)));
                record.leased.entry(node).or_default().push((sent, leased));
                if let Some(under_way) = task.and_then(|task| self.under_way.get_mut(&task)) {
                    under_way.push(Taken { bucket, tokens: entry.cost.get(), sent, first_sent, at });
                }
            }
            CallVerb::HandBack => self.buckets[bucket].given.push((at, -tokens)),
            CallVerb::Refund => {
                if let TaskPurpose::Action { number, tokens } = purpose
                    && self.acted.insert(number)
                {
                    let allowance = tokens.map_or(Allowance::Capacity, Allowance::Granted);
                    self.buckets[bucket].granted.push((at, allowance));
                }
            }
            CallVerb::Peek => {}
        }
    }

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
