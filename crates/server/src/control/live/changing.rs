//! Adding and removing live entries through the admin API.

use serde_json::Value;
use tidegate_database::{AuditEntry, ChangeAnswer, LiveChangeOutcome};
use tidegate_document::{DocumentNode, parse};
use tidegate_redis::WakeTopic;

use super::carrier::{CarrierError, LiveCarrier};
use super::entry::{LiveBody, LiveEntry};
use super::following::{apply, catch_up};
use crate::bounds::LIVE_ENTRIES_MAX;
use crate::control::access::new_id;
use crate::control::api::{ApiCall, ApiError};
use crate::control::masked_policy::masked_document;
use crate::control::startup::unix_millis;
use crate::control::waking;
use crate::observe::{AuditEvent, EventName};

/// Entries to remove and to add, and what is told of it.
pub(crate) struct LiveDeed {
    pub(crate) remove: Vec<String>,
    pub(crate) add: Vec<LiveEntry>,
    pub(crate) event: EventName,
    /// Whom it is about: that of the entry that is added or removed.
    pub(crate) who: Value,
    /// What kind of entry, or what was done.
    pub(crate) kind: &'static str,
    pub(crate) reason: Option<String>,
    /// More about it for the audit, as an object without secrets.
    pub(crate) more: Value,
    /// What to remember, if the request has an idempotency key.
    pub(crate) answer: Option<ChangeAnswer>,
}

/// A name for a new entry.
///
/// # Errors
/// When the system has no random numbers.
pub(crate) fn new_live_id() -> Result<String, ApiError> {
    new_id().map_err(|_| ApiError::Unavailable("the system has no random numbers".to_owned()))
}

impl LiveDeed {
    /// Does it: when this returns, it is in force on this node, and on the others within a second.
    ///
    /// # Errors
    /// When there are too many entries, when an entry to remove is not there any more, and when the carrier does not
    /// answer: then it may have been done or not.
    pub(crate) async fn run(mut self, call: &ApiCall) -> Result<(), ApiError> {
        let last = self.record(call).await?;
        // The carrier numbers what is added in its order.
        for (before, entry) in (0..).zip(self.add.iter_mut().rev()) {
            entry.sequence = last.saturating_sub(before);
        }
        self.tell(call);
        // What is written is done. It needs no answer of the carrier to be in force here.
        apply(&call.node, &self.remove, &self.add).await;
        Ok(())
    }

    /// Writes it down, with the audit, in one transaction. Returns the sequence of its last part; zero if nobody carries it.
    ///
    /// # Errors
    /// As for [`LiveDeed::run`].
    pub(super) async fn record(&self, call: &ApiCall) -> Result<u64, ApiError> {
        let about = (vec![self.audit_entry(call, self.kind)], self.answer.clone());
        write(call, &self.remove, &self.add, about).await
    }

    /// Writes to the audit that it was recorded, and then not known to be done.
    pub(super) async fn record_failure(&self, call: &ApiCall, kind: &'static str) {
        let about = (vec![self.audit_entry(call, kind)], None);
        if let Err(error) = write(call, &[], &[], about).await {
            tracing::error!(%error, kind, "the audit does not say that this failed");
        }
    }

    fn audit_entry(&self, call: &ApiCall, kind: &str) -> AuditEntry {
        let (time, who) = (unix_millis(call.now), shown_who(&self.who));
        let mut entry = AuditEntry {
            time,
            event: self.event.as_str().to_owned(),
            severity: self.event.severity().as_str().to_owned(),
            node: call.control().node_id().map(str::to_owned),
            actor: Some(call.principal().actor.to_string()),
            count: 1,
            first: time,
            last: time,
            kind: Some(kind.to_owned()),
            reason: self.reason.clone(),
            ..AuditEntry::default()
        };
        entry.personal.user_id = member(&self.who, "user");
        entry.personal.client = member(&self.who, "client");
        entry.personal.ip = member(&self.who, "ip");
        entry.personal.tenant = member(&self.who, "tenant").or_else(|| {
            // So that whoever is restricted to the tenant finds it.
            call.principal().tenant.as_deref().map(str::to_owned)
        });
        let mut detail = self.more.as_object().cloned().unwrap_or_default();
        if let Some(who) = who.and_then(|who| serde_json::from_str(&who.to_json()).ok()) {
            detail.insert("who".to_owned(), who);
        }
        entry.personal.detail = (!detail.is_empty()).then(|| Value::Object(detail).to_string());
        entry
    }

    /// Tells of it in the events.
    pub(super) fn tell(&self, call: &ApiCall) {
        // Each node tells when its kill switch changes; the database has who did it.
        if self.event == EventName::KillSwitchChanged && call.control().database().is_some() {
            return;
        }
        let text = |name: &str| member(&self.who, name).map(String::into_boxed_str);
        call.node.events().push(AuditEvent {
            actor: Some((*call.principal().actor).into()),
            user: text("user"),
            client: text("client"),
            tenant: text("tenant"),
            ip: member(&self.who, "ip").and_then(|ip| ip.parse().ok()),
            kind: Some(self.kind),
            reason: self.reason.as_deref().map(Box::from),
            ..AuditEvent::new(self.event, call.now)
        });
    }
}

impl LiveEntry {
    /// The entry with an id, if it holds: also if another node has added it just now.
    ///
    /// # Errors
    /// When this node does not know the entry, and the carrier does not answer.
    pub(crate) async fn newest(call: &ApiCall, id: &str) -> Result<Option<LiveEntry>, ApiError> {
        let known = || call.control().live().entry(id, unix_millis(call.now));
        if let Some(entry) = known() {
            return Ok(Some(entry));
        }
        catch_up(&call.node).await?;
        Ok(known())
    }
}

/// Writes a change to the carrier, and wakes the other nodes. Returns the sequence of its last part.
pub(super) async fn write(
    call: &ApiCall,
    remove: &[String],
    add: &[LiveEntry],
    (audit, answer): (Vec<AuditEntry>, Option<ChangeAnswer>),
) -> Result<u64, ApiError> {
    let (board, now) = (call.control().live(), unix_millis(call.now));
    let full = || {
        ApiError::Conflict(format!(
            "there are {LIVE_ENTRIES_MAX} live entries of this kind, or too many on Redis with those that ended in the last \
             hour: remove some, or give them an end with `until`"
        ))
    };
    let key_used = || {
        ApiError::Conflict(
            "a request with this Idempotency-Key is under way, or was answered meanwhile: repeat it"
                .to_owned(),
        )
    };
    let here = answer.clone().filter(|_| call.control().database().is_none());
    if here.as_ref().is_some_and(|answer| !board.answers().begin(answer, now)) {
        return Err(key_used());
    }
    let changed = match add.iter().any(|entry| board.count(entry.kind, now) >= LIVE_ENTRIES_MAX) {
        true => Ok(LiveChangeOutcome::Full),
        false => LiveCarrier::of(&call.node).change(remove, add, (audit, answer), now).await,
    };
    if let Some(answer) = here {
        match &changed {
            Ok(LiveChangeOutcome::Changed(_)) => board.answers().end(answer, now),
            Ok(_) => board.answers().give_up(&answer),
            Err(error) if error.is_undone() => board.answers().give_up(&answer),
            // It may have been done or not: whoever repeats it is told so.
            Err(_) => {}
        }
    }
    let last = match changed? {
        LiveChangeOutcome::Changed(sequence) => sequence,
        LiveChangeOutcome::Full => return Err(full()),
        LiveChangeOutcome::KeyUsed => return Err(key_used()),
        LiveChangeOutcome::Unknown => {
            // Somebody was faster, or the carrier has lost it: then this node is not to keep it in force.
            board.place.doubt();
            catch_up(&call.node).await?;
            let name = remove.first().cloned().unwrap_or_default();
            return Err(ApiError::NotFound { what: "live entry", name });
        }
    };
    if !(remove.is_empty() && add.is_empty()) {
        waking::wake(&call.node, WakeTopic::Live);
    }
    Ok(last)
}

/// Whom an entry is about, without secrets; `None` if it does not say.
pub(crate) fn shown_who(who: &Value) -> Option<DocumentNode> {
    let who = parse(&who.to_string()).ok().filter(|_| who.is_object())?;
    Some(masked_document(&who))
}

/// A member that has one value.
fn member(who: &Value, name: &str) -> Option<String> {
    match who.get(name)? {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

impl LiveBody {
    /// Whom it is about, as a document.
    pub(crate) fn who_node(&self) -> Option<DocumentNode> {
        parse(&self.who.to_string()).ok()
    }
}

impl From<CarrierError> for ApiError {
    fn from(error: CarrierError) -> ApiError {
        match error {
            CarrierError::Database(error) => error.into(),
            CarrierError::Redis(_) => ApiError::Unavailable(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_entries_do_not_look_like_flags() {
        let ids: std::collections::BTreeSet<String> =
            (0..4_000).map(|_| new_live_id().expect("there are random numbers")).collect();
        assert_eq!(ids.len(), 4_000, "a name is given twice");
        assert!(ids.iter().all(|id| id.len() == 12), "{ids:?}");
        let begins_well = |id: &String| id.as_bytes()[0].is_ascii_alphanumeric();
        assert_eq!(ids.iter().find(|id| !begins_well(id)), None);
    }
}
