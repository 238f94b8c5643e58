//! Adding and removing live entries through the admin API.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::{SecureRandom, SystemRandom};
use serde_json::Value;
use tidegate_database::{AuditEntry, LiveChangeOutcome};
use tidegate_document::{DocumentNode, parse};

use super::carrier::{CarrierError, LiveCarrier};
use super::entry::{LiveBody, LiveEntry};
use super::following::catch_up;
use crate::bounds::LIVE_ENTRIES_MAX;
use crate::control::api::{ApiCall, ApiError};
use crate::control::masked_policy::masked_document;
use crate::control::startup::unix_millis;
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
}

/// A name for a new entry: 72 random bits, so that none is given twice.
///
/// # Errors
/// When the system has no random numbers.
pub(crate) fn new_live_id() -> Result<String, ApiError> {
    let mut bytes = [0; 9];
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.map_err(|_| ApiError::Unavailable("the system has no random numbers".to_owned()))?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

impl LiveDeed {
    /// Does it: when this returns, it is in force on this node, and on the others within a second.
    ///
    /// # Errors
    /// When there are too many entries, when an entry to remove is not there any more, and when the carrier does not
    /// answer: then it may have been done or not.
    pub(crate) async fn run(self, call: &ApiCall) -> Result<(), ApiError> {
        let (board, now) = (call.control().live(), unix_millis(call.now));
        let full = || {
            ApiError::Conflict(format!(
                "there are {LIVE_ENTRIES_MAX} live entries of this kind: remove some, or give them an end with `until`"
            ))
        };
        if self.add.iter().any(|entry| board.count(entry.kind, now) >= LIVE_ENTRIES_MAX) {
            return Err(full());
        }
        let carrier = LiveCarrier::of(&call.node);
        let audit = vec![self.audit_entry(call)];
        match carrier.change(&self.remove, &self.add, audit, now).await? {
            LiveChangeOutcome::Changed(_) => {}
            LiveChangeOutcome::Full => return Err(full()),
            LiveChangeOutcome::Unknown => {
                let name = self.remove.first().cloned().unwrap_or_default();
                return Err(ApiError::NotFound { what: "live entry", name });
            }
        }
        if matches!(carrier, LiveCarrier::Memory) {
            board.change(&self.remove, &self.add);
        }
        self.tell(call);
        catch_up(&call.node).await?;
        Ok(())
    }

    fn audit_entry(&self, call: &ApiCall) -> AuditEntry {
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
            kind: Some(self.kind.to_owned()),
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
        entry.personal.detail = who.map(|who| format!("{{\"who\":{}}}", who.to_json()));
        entry
    }

    fn tell(&self, call: &ApiCall) {
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

impl super::LiveBoard {
    /// Changes the entries of a node that has no carrier.
    fn change(&self, remove: &[String], add: &[LiveEntry]) {
        let mut known = self.known();
        for id in remove {
            known.put(id.clone(), None);
        }
        for entry in add {
            known.put(entry.id.clone(), Some(entry.clone()));
        }
    }
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
