//! Changes of the policy: every write, of one entry or of the whole, is a new version of the whole document.
//!
//! The active version is edited as text, checked as a whole, and published if it is still the active one. What this node
//! runs plays no part in it, since another node may have published meanwhile.

mod draft;
mod idempotency;
mod precondition;

use serde_json::Value;
use tidegate::Nanos;
use tidegate_database::{AuditEntry, Database, NewVersion, PersonalData, PolicyVersion, PublishError};
use tidegate_redis::WakeTopic;

pub(crate) use draft::{Edited, TextEdit};
pub(crate) use idempotency::{IdempotencyKey, unfinished_body};

use super::api::query::DRY_RUN;
use super::api::{ApiAnswer, ApiCall, ApiError};
use super::following::take_effect;
use super::startup::unix_millis;
use super::{ControlPlane, PolicySource, RunningPolicy, records, waking};
use crate::node::Node;
use crate::observe::events::EventName;
use draft::PolicyDraft;
use precondition::Precondition;

/// How often a change without `If-Match` is tried while writers on other nodes are faster. Those on this node wait for
/// each other.
const ATTEMPTS: usize = 16;

/// Changes the policy, and puts the new version in force on this node.
///
/// # Errors
/// When the policy cannot be changed here, when the request or its edit is refused, when another version is active than
/// `If-Match` names, when the new policy is not valid, and when the database fails. Nothing is written then.
pub(crate) async fn change(call: &ApiCall, edit: TextEdit) -> Result<ApiAnswer, ApiError> {
    let control = call.control();
    let database = writable(control)?;
    let writer = PolicyWriter {
        call,
        database,
        precondition: Precondition::of(&call.headers)?,
        key: IdempotencyKey::of(call)?,
        reason: call.reason()?,
    };
    if call.query.is_set(DRY_RUN[0].name) {
        return call.while_present(writer.try_out(edit)).await;
    }
    let mut edit = edit;
    let _turn = control.write_turn().await;
    for _attempt in 0..ATTEMPTS {
        if let Some(key) = &writer.key
            && let Some(answer) = key.answered(database, call).await?
        {
            return Ok(answer);
        }
        match writer.attempt(edit).await? {
            Attempted::Published(answer) => return Ok(answer),
            Attempted::TooLate(unused) => edit = unused,
        }
    }
    Err(ApiError::Unavailable("other writers were faster each time; repeat the change".to_owned()))
}

/// The database, if the policy can be changed through the admin API.
///
/// # Errors
/// 409 with the reason if it cannot.
pub(crate) fn writable(control: &ControlPlane) -> Result<&Database, ApiError> {
    let why = match (&control.running().source, control.database()) {
        (PolicySource::Database, Some(database)) => return Ok(database),
        (PolicySource::File(path), _) => format!(
            "the policy comes from the file {}: edit that file. To change the policy here, start the server without \
             `--policy` and `policy.file`, and with `--data DIR` or `database.url`",
            path.display()
        ),
        _ => "the policy is the quick start that is part of the program: start the server with `--data DIR`, or set \
              `database.url` in the settings, to change it here"
            .to_owned(),
    };
    Err(ApiError::Conflict(why))
}

/// Checks what an edit makes of a text, as if it were to be published: the new text, and its warnings.
///
/// # Errors
/// When the edit is refused, or with all problems of the new policy.
pub(crate) fn checked(
    text: &str,
    edit: &TextEdit,
    node: &Node,
    now: Nanos,
) -> Result<(String, Vec<Value>), ApiError> {
    PolicyDraft::new(text, edit, node, now).map(|draft| (draft.text, draft.warnings))
}

/// A change on its way.
struct PolicyWriter<'c> {
    call: &'c ApiCall,
    database: &'c Database,
    precondition: Precondition,
    key: Option<IdempotencyKey>,
    reason: Option<String>,
}

enum Attempted {
    Published(ApiAnswer),
    /// Another writer has published meanwhile.
    TooLate(TextEdit),
}

impl PolicyWriter<'_> {
    /// The edit of the active version, checked, and the number of that version.
    async fn draft(&self, edit: TextEdit) -> Result<(u64, PolicyDraft, TextEdit), ApiError> {
        let active = self.database.active_version().await?.ok_or(ApiError::Internal)?;
        self.precondition.check(active.head.version)?;
        let PolicyVersion { head, text } = active;
        let (before, node, now) = (text.ok_or(ApiError::Internal)?, self.call.node.clone(), self.call.now);
        let drafted = self.call.control().run_long(move || {
            let draft = PolicyDraft::new(&before, &edit, &node, now);
            (draft, edit)
        });
        let (draft, edit) = drafted.await.ok_or(ApiError::Internal)?;
        Ok((head.version, draft?, edit))
    }

    /// What the change would answer, without writing anything: the version is the one in force.
    async fn try_out(&self, edit: TextEdit) -> Result<ApiAnswer, ApiError> {
        let (version, draft, _) = self.draft(edit).await?;
        Ok(answer(&draft::answer(version, draft.told_warnings, draft.allocation), version, None))
    }

    async fn attempt(&self, edit: TextEdit) -> Result<Attempted, ApiError> {
        let (active, draft, edit) = self.draft(edit).await?;
        match self.database.publish(self.new_version(active, &draft)).await {
            Ok(publication) => {
                let (version, location) = (publication.version, draft.location.clone());
                let body = draft::answer(version, draft.told_warnings.clone(), draft.allocation.clone());
                if publication.is_new {
                    waking::wake(&self.call.node, WakeTopic::Policy);
                    self.run(version, draft).await;
                }
                Ok(Attempted::Published(answer(&body, version, location.as_deref())))
            }
            Err(PublishError::Stale { active }) if self.precondition.is_conditional() => {
                Err(ApiError::Stale { active: active.unwrap_or_default() })
            }
            Err(PublishError::Stale { .. } | PublishError::KeyUsed) => Ok(Attempted::TooLate(edit)),
            Err(PublishError::Database(error)) => Err(error.into()),
        }
    }

    fn new_version(&self, expected: u64, draft: &PolicyDraft) -> NewVersion {
        let time = unix_millis(self.call.now);
        let actor = self.call.principal().actor.to_string();
        let entry = AuditEntry {
            time,
            event: EventName::RateLimitConfigUpdated.as_str().to_owned(),
            severity: "info".to_owned(),
            node: self.call.control().node_id().map(str::to_owned),
            actor: Some(actor.clone()),
            count: 1,
            first: time,
            last: time,
            reason: self.reason.clone(),
            personal: PersonalData { detail: Some(draft.difference.clone()), ..PersonalData::default() },
            ..AuditEntry::default()
        };
        // Who, why and where are the same; the time is that of the change.
        let more_entries = draft.exemptions.iter().map(|exempt| {
            let told = records::audit_entry(exempt);
            AuditEntry {
                node: entry.node.clone(),
                actor: entry.actor.clone(),
                reason: entry.reason.clone().or_else(|| told.reason.clone()),
                ..told
            }
        });
        let more_entries = more_entries.collect();
        let (warnings, allocation) = (draft.told_warnings.clone(), draft.allocation.clone());
        let answer = self.key.map(|key| {
            key.answer(draft.location.clone(), move |version| draft::answer(version, warnings, allocation))
        });
        NewVersion {
            expected: Some(expected),
            text: draft.text.clone(),
            author: actor,
            reason: self.reason.clone(),
            warnings: Value::from(draft.warnings.clone()).to_string(),
            time,
            rules: draft.rows.clone(),
            entry,
            more_entries,
            answer,
            removed_tenants: draft.removed_tenants.clone(),
        }
    }

    /// Puts the version in force on this node, so that its next answers show it. If that fails, the version stays, and
    /// the node tells why it does not run it.
    async fn run(&self, version: u64, draft: PolicyDraft) {
        let text = draft.text.into();
        let policy = RunningPolicy { source: PolicySource::Database, text, version, since: self.call.now };
        take_effect(&self.call.node, policy, draft.rules).await;
    }
}

fn answer(body: &Value, version: u64, location: Option<&str>) -> ApiAnswer {
    let answer = ApiAnswer::json(body).version(version);
    match location {
        Some(location) => answer.created(location),
        None => answer,
    }
}
