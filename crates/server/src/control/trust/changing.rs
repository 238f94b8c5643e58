//! Changing what is known about users through the admin API.

use std::collections::BTreeMap;

use serde_json::Value;
use tidegate::engine::trust::{AccountFacts, TrustAccount, TrustBook};
use tidegate_database::AuditEntry;
use tidegate_redis::WakeTopic;

use super::carrier::{
    AccountEdit, PartlyChanged, TrustCarrier, change_in_database, change_in_memory, change_on_redis,
};
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
    reason: Option<String>,
    /// The facts of each user, as they are written down. Each user has an entry of the audit, so that the entries of one can
    /// be found, and erased. None for outcomes, which are one entry without names.
    facts: Option<&'c BTreeMap<String, NewFacts>>,
}

/// Facts about a user.
pub(crate) struct NewFacts {
    pub(crate) facts: AccountFacts,
    /// The same as they are written down.
    pub(crate) shown: String,
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
pub(crate) async fn set_facts(call: &ApiCall, user: &str, facts: NewFacts) -> Result<(), ApiError> {
    set_all_facts(call, &BTreeMap::from([(user.to_owned(), facts)])).await
}

/// Sets the facts about several users, all of them or none; on Redis, which has no transactions of this size, some hundred at a
/// time. To do it again changes nothing, so no idempotency key is needed.
///
/// # Errors
/// The same.
pub(crate) async fn set_all_facts(
    call: &ApiCall,
    facts: &BTreeMap<String, NewFacts>,
) -> Result<(), ApiError> {
    let user = facts.keys().next().filter(|_| facts.len() == 1).map(String::as_str);
    let deed = TrustDeed { call, kind: "facts", user, reason: call.reason()?, facts: Some(facts) };
    let edit = |user: &str, account: &mut TrustAccount| {
        if let Some(new) = facts.get(user) {
            account.facts = new.facts;
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
    let deed = TrustDeed { call, kind: "outcomes", user: None, reason: call.reason()?, facts: None };
    let edit = |user: &str, account: &mut TrustAccount| {
        if let Ok(index) = outcomes.binary_search_by(|counted| counted.user.as_str().cmp(user)) {
            let CountedOutcomes { successes, failures, .. } = outcomes[index];
            account.outcomes.add(successes, failures, call.now);
        }
    };
    let key = IdempotencyKey::of(call)?;
    change(&deed, users, &edit, key.map(|key| (key, answer.clone()))).await
}

/// Makes a change, once for an idempotency key, with the answer to remember. Without users nothing is changed or told.
async fn change(
    deed: &TrustDeed<'_>,
    users: Vec<String>,
    edit: AccountEdit<'_>,
    once: Option<(IdempotencyKey, Value)>,
) -> Result<(), ApiError> {
    let (call, book, mut count) = (deed.call, trust_book(deed.call)?, users.len());
    if count == 0 && once.is_none() {
        return Ok(());
    }
    if let TrustCarrier::Database(database) = TrustCarrier::of(&call.node) {
        if let Some((key, _)) = &once
            && key.remembered(database, call).await?.is_some()
        {
            return Ok(());
        }
        let key = once.as_ref().map(|(key, _)| *key);
        let answer = once.map(|(key, body)| key.answer(None, move |_| body));
        let (audit, now) = (deed.audit_entries(count), unix_millis(call.now));
        if !change_in_database(database, users, edit, audit, answer, now).await? {
            // Another call with this key was faster; if it was another request, that is told.
            if let Some(key) = key {
                key.remembered(database, call).await?;
            }
            return Ok(());
        }
    } else {
        let mut repeated = call.control().trust().repeated.lock().await;
        let key = once.map(|(key, _)| key);
        if let Some((key, request)) = key.map(|key| key.hashes()) {
            match repeated.of(&key, &request, call.now) {
                KeyUse::New => {}
                KeyUse::Done => return Ok(()),
                KeyUse::Other => return Err(IdempotencyKey::conflict()),
            }
        }
        match TrustCarrier::of(&call.node) {
            TrustCarrier::Redis(shared) => {
                let changed = change_on_redis(shared, &users, edit, key.as_ref(), call.now).await;
                count = changed.map_err(|PartlyChanged { changed, error }| {
                    if changed > 0 {
                        // These users are changed, whatever the caller is told.
                        waking::wake(&call.node, WakeTopic::Trust);
                        deed.tell(changed);
                    }
                    error
                })?;
            }
            _ => change_in_memory(book, &users, edit, call.now)?,
        }
        if let Some((key, request)) = key.map(|key| key.hashes()) {
            repeated.add(key, request, call.now);
        }
        if count == 0 {
            // Another node has done it for this key.
            return Ok(());
        }
    }
    waking::wake(&call.node, WakeTopic::Trust);
    deed.tell(count);
    // It is done. If this node cannot read it now, it will as soon as the carrier answers.
    let _later = catch_up(&call.node).await;
    Ok(())
}

impl TrustDeed<'_> {
    /// What the audit keeps of a change of so many users.
    fn audit_entries(&self, count: usize) -> Vec<AuditEntry> {
        let Some(facts) = self.facts else { return vec![self.audit_entry(count)] };
        let entry = |(user, new): (&String, &NewFacts)| {
            let mut entry = self.audit_entry(1);
            entry.personal.user_id = Some(user.clone());
            entry.personal.detail = Some(new.shown.clone());
            entry
        };
        facts.iter().map(entry).collect()
    }

    fn audit_entry(&self, count: usize) -> AuditEntry {
        let (time, event) = (unix_millis(self.call.now), EventName::TrustChanged);
        AuditEntry {
            time,
            event: event.as_str().to_owned(),
            severity: event.severity().as_str().to_owned(),
            node: self.call.control().node_id().map(str::to_owned),
            actor: Some(self.call.principal().actor.to_string()),
            count: count.max(1) as u64,
            first: time,
            last: time,
            kind: Some(self.kind.to_owned()),
            reason: self.reason.clone(),
            ..AuditEntry::default()
        }
    }

    /// Tells that so many users were changed.
    fn tell(&self, count: usize) {
        self.call.node.events().push(AuditEvent {
            actor: Some((*self.call.principal().actor).into()),
            user: self.user.map(Box::from),
            kind: Some(self.kind),
            reason: self.reason.as_deref().map(Box::from),
            count: count.max(1) as u64,
            ..AuditEvent::new(EventName::TrustChanged, self.call.now)
        });
    }
}
