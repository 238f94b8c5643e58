//! Acting on the keys of a request: on the store, and on what each node remembers beside it.
//!
//! On a shared store, the audit is written first, so that nothing is done that it does not have; then the node that is asked
//! acts on the store; and then the others are told to forget the denials and leases that they remember, since a node that
//! forgets before that would only remember the same again. In local mode each node acts on its own memory when it learns of
//! the action; `store.nodes` of them share what is granted.

use std::collections::VecDeque;
use std::sync::{MutexGuard, PoisonError};

use serde_json::{Value, json};
use tidegate::{Clock, Cost, Intent};
use tidegate_policy::Rule;

use super::LiveBoard;
use super::changing::{LiveDeed, new_live_id, write};
use super::entry::{KeyAction, LiveBody, LiveEntry, LiveKind};
use super::reduced::reduced;
use crate::control::api::{ApiCall, ApiError};
use crate::control::changing::IdempotencyKey;
use crate::control::startup::unix_millis;
use crate::node::Node;
use crate::observe::EventName;
use crate::wire;

/// How many actions are noted as done. Each is seen again within a second, unless nobody carries it.
const DONE_MAX: usize = 1_024;

/// How long other nodes may take to do their part, in milliseconds.
const ACTION_LIFE: i64 = 60_000;

/// Whose part of an action is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ActingNode {
    /// The node that was asked: it has what cannot be divided.
    Asked,
    Other,
}

/// Does an action of another node on this one, if the entry is one.
pub(super) async fn follow(node: &Node, board: &LiveBoard, entry: &LiveEntry) {
    let Some(action) = &entry.body.action else { return };
    let now = unix_millis(node.clock().wall());
    let Some(part) = board.done().part(&entry.id).filter(|_| entry.holds(now)) else { return };
    let request = action.request.to_string();
    let Ok(request) = wire::request(&request) else { return };
    if node.shared().is_some() {
        let after = if action.tokens.is_none() { Intent::Reset } else { Intent::Refund };
        node.limiter().forget(after, &request, &|rule: &Rule| action.means(rule));
        return;
    }
    if let Err(error) = action.run(node, part).await {
        tracing::error!(%error, id = entry.id, "a reset or a grant could not be done on this node");
    }
}

/// A reset or a grant that somebody asks for.
pub(crate) struct KeyDeed {
    pub(crate) action: KeyAction,
    /// Whom it is about, for the audit: nothing that may be secret.
    pub(crate) who: Value,
    pub(crate) reason: Option<String>,
    /// The idempotency key of the request, and what to remember as its answer.
    pub(crate) once: Option<(IdempotencyKey, Value)>,
}

impl KeyDeed {
    /// Does it: when this returns, it is done on the store or on this node, and on the others within a second. Returns
    /// what could not be done beside that.
    ///
    /// # Errors
    /// When nothing was done, or the store does not answer: then it may have been done or not, which the error says.
    pub(crate) async fn run(mut self, call: &ApiCall) -> Result<Vec<String>, ApiError> {
        let action = &self.action;
        let reduced = reduced(call.node.limiter(), &action.request, &|rule: &Rule| action.means(rule));
        self.action.request = reduced;
        let id = new_live_id()?;
        match call.node.shared() {
            Some(_) => self.on_the_shared_store(call, &id).await,
            None => self.on_every_node(call, &id).await,
        }
    }

    async fn on_every_node(self, call: &ApiCall, id: &str) -> Result<Vec<String>, ApiError> {
        // Noted before others can see it, since this node follows the carrier too.
        let board = call.control().live();
        board.done().note(id);
        let answer = self.once.as_ref().map(|(key, answer)| key.change_answer(Some(answer), false));
        let deed = LiveDeed { add: vec![self.entry(call, id)], answer, ..self.deed() };
        let written = deed.run(call).await;
        // An entry that was written although nobody said so is done when this node follows it, or now if it has.
        if written.is_ok() || board.done().leave_open(id) {
            let acted = self.action.run(&call.node, ActingNode::Asked).await;
            acted.map_err(|error| ApiError::Unavailable(error.to_string()))?;
        }
        written.map(|()| Vec::new())
    }

    async fn on_the_shared_store(self, call: &ApiCall, id: &str) -> Result<Vec<String>, ApiError> {
        let begun = self.once.as_ref().map(|(key, _)| key.change_answer(None, false));
        let deed = LiveDeed { answer: begun, ..self.deed() };
        deed.record(call).await?;
        if let Err(error) = self.action.run(&call.node, ActingNode::Asked).await {
            deed.record_failure(call, self.failed_kind()).await;
            return Err(ApiError::Unavailable(format!(
                "the store does not answer, so this may have been done or not: look the keys up before you repeat it. \
                 The audit has that it was asked for and that it failed. {error}"
            )));
        }
        deed.tell(call);
        call.control().live().done().note(id);
        let answer = self.once.as_ref().map(|(key, answer)| key.change_answer(Some(answer), true));
        let told = write(call, &[], &[self.entry(call, id)], (vec![], answer)).await;
        Ok(told.err().into_iter().map(untold).collect())
    }

    fn deed(&self) -> LiveDeed {
        let (event, kind) = match self.action.tokens {
            None => (EventName::KeyReset, "reset"),
            Some(_) => (EventName::KeyGranted, "grant"),
        };
        let mut more = json!({ "limits": self.action.limits });
        if let Some(tokens) = self.action.tokens {
            more["tokens"] = tokens.into();
        }
        LiveDeed {
            remove: vec![],
            add: vec![],
            event,
            who: self.who.clone(),
            kind,
            reason: self.reason.clone(),
            more,
            answer: None,
        }
    }

    fn failed_kind(&self) -> &'static str {
        if self.action.tokens.is_none() { "reset_failed" } else { "grant_failed" }
    }

    fn entry(&self, call: &ApiCall, id: &str) -> LiveEntry {
        let now = unix_millis(call.now);
        LiveEntry {
            id: id.to_owned(),
            kind: LiveKind::Keys,
            sequence: 0,
            body: LiveBody { action: Some(self.action.clone()), ..LiveBody::default() },
            until: Some(now.plus(ACTION_LIFE)),
            created_at: now,
            author: call.principal().actor.to_string(),
            reason: self.reason.clone(),
        }
    }
}

/// It was done, and the other nodes were not told.
fn untold(error: ApiError) -> String {
    format!(
        "this is done, but the other nodes were not told ({error}): for up to five seconds they may refuse what the store \
         would admit now"
    )
}

impl KeyAction {
    fn means(&self, rule: &Rule) -> bool {
        self.is_of_all || self.limits.iter().any(|name| **name == *rule.name)
    }

    async fn run(&self, node: &Node, part: ActingNode) -> Result<(), tidegate_redis::StoreError> {
        let text = self.request.to_string();
        let Ok(request) = wire::request(&text) else { return Ok(()) };
        let means = |rule: &Rule| self.means(rule);
        let acting = match self.tokens {
            None => node.limiter().reset_async(&request, &means),
            Some(tokens) => {
                // With a shared store this is 1.
                let nodes = node.settings().nodes.max(1);
                let each = tokens / nodes;
                let tokens = if part == ActingNode::Asked { tokens - each * (nodes - 1) } else { each };
                node.limiter().grant_async(&request, Cost::new(tokens), &means)
            }
        };
        acting.await
    }
}

/// The actions that this node was asked for and does by itself, not as a follower.
#[derive(Debug, Default)]
pub(super) struct OwnActions {
    /// The ids of those that it does, the last at the end.
    done: VecDeque<String>,
    /// Of those that the carrier may have or not, since it has not answered.
    open: VecDeque<String>,
}

impl OwnActions {
    /// Notes that this node does an action by itself.
    fn note(&mut self, id: &str) {
        push(&mut self.done, id);
    }

    /// Notes that nobody knows whether the carrier has an action, so that this node does its part when it finds it there.
    /// True if it has found it there already, and left it to whoever asks this.
    fn leave_open(&mut self, id: &str) -> bool {
        let was_followed = !take(&mut self.done, id);
        if !was_followed {
            push(&mut self.open, id);
        }
        was_followed
    }

    /// The part that this node has to do of an action that it finds: none if it does it by itself. It is asked once.
    fn part(&mut self, id: &str) -> Option<ActingNode> {
        if take(&mut self.done, id) {
            return None;
        }
        Some(if take(&mut self.open, id) { ActingNode::Asked } else { ActingNode::Other })
    }
}

fn push(ids: &mut VecDeque<String>, id: &str) {
    ids.push_back(id.to_owned());
    if ids.len() > DONE_MAX {
        ids.pop_front();
    }
}

fn take(ids: &mut VecDeque<String>, id: &str) -> bool {
    let place = ids.iter().position(|known| known == id);
    place.and_then(|place| ids.remove(place)).is_some()
}

impl LiveBoard {
    fn done(&self) -> MutexGuard<'_, OwnActions> {
        self.done.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_action_is_done_once_on_the_node_that_was_asked() {
        let mut own = OwnActions::default();
        // It is written, and then found.
        own.note("written");
        assert_eq!((own.part("written"), own.part("of another")), (None, Some(ActingNode::Other)));
        // The carrier does not answer, and has it all the same: it is found later, or was found before.
        own.note("found later");
        assert!(!own.leave_open("found later"));
        assert_eq!(own.part("found later"), Some(ActingNode::Asked));
        own.note("found before");
        assert_eq!(own.part("found before"), None);
        assert!(own.leave_open("found before"));
        for number in 0..3 * DONE_MAX {
            own.note(&number.to_string());
            own.leave_open(&number.to_string());
            own.note(&number.to_string());
        }
        assert_eq!((own.done.len(), own.open.len()), (DONE_MAX, DONE_MAX));
    }
}
