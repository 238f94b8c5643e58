//! The books: what the server was made to give, and what clients were let do with it. Written by the world, which
//! knows the true time of everything; read by the oracles.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use tidegate_core::{Limit, Nanos};
use tidegate_redis::{BucketKey, CallAnswer, CallOutcome, CallVerb, ScriptCall};

use crate::world::{TaskId, lock};

/// The books of a world. Clones are the same ones.
#[derive(Clone, Debug)]
pub struct Ledger(Arc<Mutex<Books>>);

#[derive(Debug)]
struct Books {
    /// The numbers of each bucket's limit; no two limits of a request have the same.
    limits: Vec<Limit>,
    bucket_of: BTreeMap<BucketKey, usize>,
    /// What each request asks for; an answer may come to nobody.
    asked: BTreeMap<TaskId, Vec<usize>>,
    under_way: BTreeMap<TaskId, Vec<Taken>>,
    accounts: Vec<BucketAccount>,
    /// Calls about buckets that nobody has asked for.
    strangers: u64,
}

/// What the server has given for a request under way.
#[derive(Clone, Copy, Debug)]
struct Taken {
    bucket: usize,
    tokens: u32,
    sent: Nanos,
    at: Nanos,
}

/// What is known of one bucket, not yet in the order of time.
#[derive(Clone, Debug, Default)]
pub struct BucketAccount {
    /// What clients were let do: when, and how many tokens.
    pub spent: Vec<(Nanos, u32)>,
    /// What the server gave: when, and how many tokens; or took back.
    pub given: Vec<(Nanos, i64)>,
    /// What of it was leased, by node: when it was asked for, and how many tokens.
    pub leased: BTreeMap<usize, Vec<(Nanos, u32)>>,
    /// When each node has asked about it and the server has said something, be it a refusal.
    pub answered: BTreeMap<usize, Vec<Nanos>>,
    /// What was spent out of leases, by node: when, and how many tokens.
    pub from_leases: BTreeMap<usize, Vec<(Nanos, u32)>>,
}

/// Who had a call made: a task of a node.
#[derive(Clone, Copy, Debug)]
pub struct CallOrigin {
    /// The task, if it is one.
    pub task: Option<TaskId>,
    /// Its node.
    pub node: usize,
    /// When it sent the call.
    pub sent: Nanos,
}

impl Ledger {
    /// Empty books for buckets of these limits.
    pub fn new(limits: Vec<Limit>) -> Ledger {
        let accounts = vec![BucketAccount::default(); limits.len()];
        Ledger(Arc::new(Mutex::new(Books {
            limits,
            bucket_of: BTreeMap::new(),
            asked: BTreeMap::new(),
            under_way: BTreeMap::new(),
            accounts,
            strangers: 0,
        })))
    }

    /// A task is about to ask for these buckets.
    pub fn begin(&self, task: TaskId, buckets: impl IntoIterator<Item = usize>) {
        let mut books = lock(&self.0);
        books.asked.insert(task, buckets.into_iter().collect());
        books.under_way.insert(task, Vec::new());
    }

    /// The server has done a call.
    pub fn executed(&self, caller: CallOrigin, at: Nanos, call: &ScriptCall, answer: &CallAnswer) {
        let CallOrigin { task, node, sent } = caller;
        self.answered(caller, call);
        if answer.said != CallOutcome::Done || call.verb == CallVerb::Peek {
            return;
        }
        let mut books = lock(&self.0);
        for (entry, &leased) in call.entries.iter().zip(&answer.leased) {
            let Some(bucket) = books.place(task, &entry.key, &entry.limit) else {
                books.strangers += 1;
                continue;
            };
            let tokens = i64::from(entry.cost.get());
            match call.verb {
                CallVerb::Take => {
                    let account = &mut books.accounts[bucket];
                    account.given.push((at, tokens + i64::from(leased)));
                    account.leased.entry(node).or_default().push((sent, leased));
                    if let Some(under_way) = task.and_then(|task| books.under_way.get_mut(&task)) {
                        under_way.push(Taken { bucket, tokens: entry.cost.get(), sent, at });
                    }
                }
                CallVerb::Refund | CallVerb::HandBack => books.accounts[bucket].given.push((at, -tokens)),
                CallVerb::Peek => {}
            }
        }
    }

    fn answered(&self, CallOrigin { task, node, sent }: CallOrigin, call: &ScriptCall) {
        let mut books = lock(&self.0);
        for entry in &call.entries {
            if let Some(bucket) = books.place(task, &entry.key, &entry.limit) {
                books.accounts[bucket].answered.entry(node).or_default().push(sent);
            }
        }
    }

    /// A request was admitted: what the server took for it was spent when the server took it, and what came out
    /// of leases when they were used, which is before anything was sent. Who asked again has given back what it was
    /// given before.
    pub fn admitted(&self, node: usize, task: TaskId, now: Nanos, charges: &[(usize, u32)]) {
        let mut books = lock(&self.0);
        let Some(taken) = books.under_way.remove(&task) else { return };
        let last_sent = taken.iter().map(|taken| taken.sent).max();
        for &(bucket, cost) in charges {
            let mut left = cost;
            for taken in taken.iter().filter(|taken| taken.bucket == bucket && Some(taken.sent) == last_sent)
            {
                let tokens = taken.tokens.min(left);
                left -= tokens;
                books.accounts[bucket].spent.push((taken.at, tokens));
            }
            let used = (last_sent.unwrap_or(now), left);
            books.accounts[bucket].spent.push(used);
            books.accounts[bucket].from_leases.entry(node).or_default().push(used);
        }
    }

    /// A request was not admitted.
    pub fn refused(&self, task: TaskId) {
        lock(&self.0).under_way.remove(&task);
    }

    /// Which bucket is under a key, if it is known.
    pub fn bucket_of(&self, key: &BucketKey) -> Option<usize> {
        lock(&self.0).bucket_of.get(key).copied()
    }

    /// The accounts in the order of time, and how many calls were about buckets that nobody had asked for.
    pub fn close(&self) -> (Vec<BucketAccount>, u64) {
        let mut books = lock(&self.0);
        let mut accounts = std::mem::take(&mut books.accounts);
        for account in &mut accounts {
            account.spent.retain(|&(_, tokens)| tokens > 0);
            account.spent.sort_by_key(|&(at, _)| at);
            for of_node in account.leased.values_mut().chain(account.from_leases.values_mut()) {
                of_node.retain(|&(_, tokens)| tokens > 0);
                of_node.sort_by_key(|&(at, _)| at);
            }
            account.answered.values_mut().for_each(|sent| sent.sort());
            account.given.sort_by_key(|&(at, tokens)| (at, std::cmp::Reverse(tokens)));
        }
        (accounts, books.strangers)
    }
}

impl Books {
    /// Which bucket is under a key: what the request asks for that has these numbers.
    fn place(&mut self, task: Option<TaskId>, key: &BucketKey, limit: &Limit) -> Option<usize> {
        if let Some(&bucket) = self.bucket_of.get(key) {
            return Some(bucket);
        }
        let asked = self.asked.get(&task?)?;
        let bucket = asked.iter().copied().find(|&bucket| self.limits[bucket] == *limit)?;
        self.bucket_of.insert(key.clone(), bucket);
        Some(bucket)
    }
}
