//! Changing what is known about users through the admin API.

use std::collections::BTreeMap;

use serde_json::Value;
use tidegate::engine::trust::{AccountFacts, TrustAccount, TrustBook};
use tidegate_database::AuditEntry;
use tidegate_redis::WakeTopic;

use super::carrier::{AccountEdit, TrustCarrier, change_in_database, change_in_memory, change_on_redis};
use super::following::catch_up;
use super::repeats::KeyUse;
use crate::control::api::{ApiCall, ApiError};
use crate::control::changing::IdempotencyKey;
use crate::control::startup::unix_millis;
use crate::control::waking;
use crate::observe::{AuditEvent, EventName};

/// Outcomes of a user's requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CountedOutcomes {
    pub(crate) user: String,
    pub(crate) successes: u32,
    pub(crate) failures: u32,
}

/// What is told of a change.
struct TrustDeed<'c> {
    call: &'c ApiCall,
    /// `facts` or `outcomes`.
    kind: &'static str,
    /// The user, if it is about one.
    user: Option<&'c str>,
    /// How many users it is about.
    count: u64,
    reason: Option<String>,
    /// What is written about it.
    detail: Option<String>,
}

/// The trust book of the node.
///
/// # Errors
/// When trust is not computed here.
pub(crate) fn trust_book(call: &ApiCall) -> Result<&TrustBook, ApiError> {
    let missing = "trust is not computed here: add `trust: {}` to the settings of every node";
    call.node.limiter().trust_book().ok_or_else(|| ApiError::Conflict(missing.to_owned()))
}

/// Sets the facts about a user. When this returns, they count on this node, and on the others within a second.
///
/// # Errors
/// When there are too many users, and when the carrier does not answer: then it may have been done or not.
pub(crate) async fn set_facts(
    call: &ApiCall,
    user: &str,
    facts: AccountFacts,
    shown: String,
) -> Result<(), ApiError> {
    let (reason, detail) = (call.reason()?, Some(shown));
    let deed = TrustDeed { call, kind: "facts", user: Some(user), count: 1, reason, detail };
    let edit = |_: &str, account: &mut TrustAccount| account.facts = facts;
    change(&deed, vec![user.to_owned()], &edit, None).await
}

/// Sets the facts about several users, all of them or none; on Redis, which has no transactions of this size, some hundred at a
/// time. To do it again changes nothing, so no idempotency key is needed.
///
/// # Errors
/// The same.
pub(crate) async fn set_all_facts(
    call: &ApiCall,
    facts: &BTreeMap<String, AccountFacts>,
) -> Result<(), ApiError> {
    let (count, reason) = (facts.len().max(1) as u64, call.reason()?);
    let deed = TrustDeed { call, kind: "facts", user: None, count, reason, detail: None };
    let edit = |user: &str, account: &mut TrustAccount| {
        if let Some(facts) = facts.get(user) {
            account.facts = *facts;
        }
    };
    change(&deed, facts.keys().cloned().collect(), &edit, None).await
}

/// Counts outcomes, which are in the order of their users and have each user once. With an idempotency key that was used
/// for this request before, nothing is done: the answer is the same.
///
/// # Errors
/// The same, and when the key was used for another request.
pub(crate) async fn count_outcomes(
    call: &ApiCall,
    outcomes: &[CountedOutcomes],
    answer: &Value,
) -> Result<(), ApiError> {
    let users: Vec<String> = outcomes.iter().map(|counted| counted.user.clone()).collect();
    let (count, reason) = (users.len().max(1) as u64, call.reason()?);
    let deed = TrustDeed { call, kind: "outcomes", user: None, count, reason, detail: None };
    let edit = |user: &str, account: &mut TrustAccount| {
        if let Ok(index) = outcomes.binary_search_by(|counted| counted.user.as_str().cmp(user)) {
            let CountedOutcomes { successes, failures, .. } = outcomes[index];
            account.outcomes.add(successes, failures, call.now);
        }
    };
    let key = IdempotencyKey::of(call)?;
    change(&deed, users, &edit, key.map(|key| (key, answer.clone()))).await
}

/// Makes a change, once for an idempotency key, with the answer to remember.
async fn change(
    deed: &TrustDeed<'_>,
    users: Vec<String>,
    edit: AccountEdit<'_>,
    once: Option<(IdempotencyKey, Value)>,
) -> Result<(), ApiError> {
    let (call, book) = (deed.call, trust_book(deed.call)?);
    if let TrustCarrier::Database(database) = TrustCarrier::of(&call.node) {
        if let Some((key, _)) = &once
            && key.remembered(database, call).await?.is_some()
        {
            return Ok(());
        }
        let key = once.as_ref().map(|(key, _)| *key);
        let answer = once.map(|(key, body)| key.answer(None, move |_| body));
        let (audit, now) = (vec![deed.audit_entry()], unix_millis(call.now));
        if !change_in_database(database, users, edit, audit, answer, now).await? {
            // Another call with this key was faster; if it was another request, that is told.
            if let Some(key) = key {
                key.remembered(database, call).await?;
            }
            return Ok(());
        }
    } else {
        let mut repeated = call.control().trust().repeated.lock().await;
        let key = once.map(|(key, _)| key.hashes());
        if let Some((key, request)) = &key {
            match repeated.of(key, request, call.now) {
                KeyUse::New => {}
                KeyUse::Done => return Ok(()),
                KeyUse::Other => return Err(IdempotencyKey::conflict()),
            }
        }
        match TrustCarrier::of(&call.node) {
            TrustCarrier::Redis(shared) => change_on_redis(shared, &users, edit, call.now).await?,
            _ => change_in_memory(book, &users, edit, call.now)?,
        }
        if let Some((key, request)) = key {
            repeated.add(key, request, call.now);
        }
    }
    waking::wake(&call.node, WakeTopic::Trust);
    deed.tell();
    // It is done. If this node cannot read it now, it will as soon as the carrier answers.
    let _later = catch_up(&call.node).await;
    Ok(())
}

impl TrustDeed<'_> {
    fn audit_entry(&self) -> AuditEntry {
        let (time, event) = (unix_millis(self.call.now), EventName::TrustChanged);
        let mut entry = AuditEntry {
            time,
            event: event.as_str().to_owned(),
            severity: event.severity().as_str().to_owned(),
            node: self.call.control().node_id().map(str::to_owned),
            actor: Some(self.call.principal().actor.to_string()),
            count: self.count,
            first: time,
            last: time,
            kind: Some(self.kind.to_owned()),
            reason: self.reason.clone(),
            ..AuditEntry::default()
        };
        entry.personal.user_id = self.user.map(str::to_owned);
        entry.personal.detail.clone_from(&self.detail);
        entry
    }

    fn tell(&self) {
        self.call.node.events().push(AuditEvent {
            actor: Some((*self.call.principal().actor).into()),
            user: self.user.map(Box::from),
            kind: Some(self.kind),
            reason: self.reason.as_deref().map(Box::from),
            count: self.count,
            ..AuditEvent::new(EventName::TrustChanged, self.call.now)
        });
    }
}
