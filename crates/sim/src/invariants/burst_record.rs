//! Records what burst detectors counted and answered, and what nodes heard of it, with the true time of each.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use tidegate_core::Nanos;
use tidegate_redis::{BucketKey, BurstAnswer, BurstCall, BurstCallEntry};

use crate::world::{TaskId, lock};

/// The record of a run. Clones are the same record.
#[derive(Clone, Debug, Default)]
pub struct BurstRecord(Arc<Mutex<BurstEvents>>);

/// Everything that was recorded, in the order in which it happened.
#[derive(Clone, Debug, Default)]
pub struct BurstEvents {
    /// What the server did, and what happened to it.
    pub server: Vec<(Nanos, ServerBurstEvent)>,
    /// What nodes heard.
    pub heard: Vec<HeardBurst>,
    /// By node and user: when requests began.
    pub made: BTreeMap<(usize, usize), Vec<Nanos>>,
    /// The user of each key, as far as it is known.
    pub users: BTreeMap<BucketKey, usize>,
    /// When a node was started, and which one.
    pub starts: Vec<(Nanos, usize)>,
    tasks: BTreeMap<TaskId, usize>,
}

/// An event at the server.
#[derive(Clone, Debug)]
pub enum ServerBurstEvent {
    /// It counted for a node, at this time by its own clock, and answered.
    Counted {
        /// The node.
        node: usize,
        /// The server's clock.
        at: Nanos,
        /// What the node sent.
        entry: BurstCallEntry,
        /// The answer.
        answer: BurstAnswer,
    },
    /// It lost writes: it restarted without its state, or a replica took over that lacked some.
    LostWrites,
}

/// A node heard about a key.
#[derive(Clone, Debug)]
pub struct HeardBurst {
    /// The node.
    pub node: usize,
    /// The key.
    pub key: BucketKey,
    /// When it had asked.
    pub sent: Nanos,
    /// When the answer arrived.
    pub received: Nanos,
    /// The answer.
    pub answer: BurstAnswer,
}

impl BurstRecord {
    /// A request of a user begins at a node.
    pub fn begin(&self, task: TaskId, node: usize, user: usize, now: Nanos) {
        let mut events = lock(&self.0);
        events.tasks.insert(task, user);
        events.made.entry((node, user)).or_default().push(now);
    }

    /// A node is started.
    pub fn started(&self, node: usize, now: Nanos) {
        lock(&self.0).starts.push((now, node));
    }

    /// The server has executed a call of a node, at the time `at` of its own clock.
    pub fn counted(
        &self,
        (node, task): (usize, Option<TaskId>),
        (now, at): (Nanos, Nanos),
        call: &BurstCall,
        answers: &[BurstAnswer],
    ) {
        let mut events = lock(&self.0);
        // A call of a request is about its user; those of maintenance are about anybody.
        let user = task.and_then(|task| events.tasks.get(&task).copied());
        for (entry, &answer) in call.entries.iter().zip(answers) {
            if let Some(user) = user {
                events.users.insert(entry.key.clone(), user);
            }
            let entry = entry.clone();
            events.server.push((now, ServerBurstEvent::Counted { node, at, entry, answer }));
        }
    }

    /// The server loses writes.
    pub fn lost_writes(&self, now: Nanos) {
        lock(&self.0).server.push((now, ServerBurstEvent::LostWrites));
    }

    /// An answer arrives at a node.
    pub fn heard(
        &self,
        node: usize,
        (sent, received): (Nanos, Nanos),
        call: &BurstCall,
        answers: &[BurstAnswer],
    ) {
        let mut events = lock(&self.0);
        for (entry, &answer) in call.entries.iter().zip(answers) {
            events.heard.push(HeardBurst { node, key: entry.key.clone(), sent, received, answer });
        }
    }

    /// Everything that was recorded.
    pub fn close(&self) -> BurstEvents {
        std::mem::take(&mut lock(&self.0))
    }
}
