//! Who and what an incident is about, in the words of an event.

use std::borrow::Cow;

use tidegate::Nanos;
use tidegate::engine::{Incident, IncidentKind};
use tidegate_policy::{Descriptor, Facts};

use super::event::AuditEvent;
use super::open_events::name_of;
use crate::observe::traces::current_trace;
use tidegate::engine::masking::{masked, may_be_secret};

/// Longer texts are cut to this number of characters: clients choose them.
pub(super) const TEXT_CHARS_MAX: usize = 256;

/// The event of an incident that is the first of its kind.
#[cold]
pub(super) fn event_of(incident: &Incident<'_, '_>) -> AuditEvent {
    let mut event = AuditEvent::new(name_of(incident), incident.at);
    event.limit = incident.name.map(Box::from);
    event.kind = match incident.kind {
        IncidentKind::LimitExceeded => incident.algorithm.map(super::algorithm_name),
        IncidentKind::Blocked => Some("block"),
        IncidentKind::BurstDenied | IncidentKind::BurstWarned | IncidentKind::BurstBlocked => Some("burst"),
        IncidentKind::UnknownTenant | IncidentKind::InvalidCredentials => None,
    };
    event.reason = incident.reason.map(|reason| reason.as_str().into());
    event.remaining = incident.remaining.map(u64::from);
    event.retry_after_ms = incident.retry_after.map(Nanos::as_millis_ceil);
    event.policy_version = incident.policy_version;
    event.trace_id = trace_of(incident);
    event.is_violation = incident.is_violation;
    match (incident.facts, incident.subject) {
        (Some(facts), _) => {
            event.user = facts.request.user.as_deref().map(cut);
            event.client = facts.request.client.as_deref().map(cut);
            event.ip = facts.request.ip.map(|ip| ip.to_canonical());
            event.tenant = facts.tenant().map(cut);
            event.endpoint = endpoint(facts).map(cut);
            event.key = key_text(incident, facts);
        }
        // Its key is masked already.
        (None, Some(subject)) => {
            event.user = subject.user.as_deref().map(cut);
            event.client = subject.client.as_deref().map(cut);
            event.ip = subject.ip;
            event.tenant = subject.tenant.as_deref().map(cut);
            event.key = Some(cut(&subject.shown)).filter(|key| !key.is_empty());
        }
        // The caller of an ad hoc bucket has chosen its key.
        (None, None) if incident.key.is_empty() => {}
        (None, None) => event.key = Some(cut(&String::from_utf8_lossy(incident.key))),
    }
    event
}

/// The values of a key, separated by commas. Of values that may be credentials only a few characters and a hash.
fn key_text(incident: &Incident<'_, '_>, facts: &Facts<'_, '_>) -> Option<Box<str>> {
    if incident.key.is_empty() || incident.key_parts.is_empty() {
        return None;
    }
    let mut parts = incident.key_parts.iter().filter_map(|part| Some(shown(part, facts.value(part)?)));
    let first = parts.next()?;
    // Most keys have one part, and a flood of denials has a new key each time.
    let text = parts.fold(first, |text, part| Cow::Owned(format!("{text}, {part}")));
    (!text.is_empty()).then(|| cut(&text))
}

/// The value of a descriptor as events show it.
pub(super) fn shown<'v>(descriptor: &Descriptor, value: Cow<'v, str>) -> Cow<'v, str> {
    if may_be_secret(descriptor) { Cow::Owned(masked(&value)) } else { value }
}

/// The route of a request; without one, its path.
pub(super) fn endpoint<'f>(facts: &'f Facts<'_, '_>) -> Option<&'f str> {
    facts.route().map(|(route, _)| route).or(facts.path.as_deref())
}

/// The trace of the request that is being decided on this thread, if the incident belongs to it: a penalty that is
/// reported late does not.
pub(super) fn trace_of(incident: &Incident<'_, '_>) -> Option<Box<str>> {
    let is_late = incident.facts.is_none() && incident.kind != IncidentKind::LimitExceeded;
    current_trace().filter(|_| !is_late).map(Box::from)
}

/// Removes a text that is not the same in all occurrences.
#[inline]
pub(super) fn keep_same(open: &mut Option<Box<str>>, seen: Option<&str>) {
    if let Some(text) = open
        && seen.is_none_or(|seen| !is_cut_of(text, seen))
    {
        *open = None;
    }
}

/// Is `text` what [`cut`] makes of `whole`?
#[inline]
fn is_cut_of(text: &str, whole: &str) -> bool {
    text == whole || (whole.len() > TEXT_CHARS_MAX && *cut(whole) == *text)
}

/// A text of bounded length.
pub(crate) fn cut(text: &str) -> Box<str> {
    // A text has no more characters than bytes.
    if text.len() <= TEXT_CHARS_MAX {
        return text.into();
    }
    match text.char_indices().nth(TEXT_CHARS_MAX) {
        None => text.into(),
        Some((end, _)) => format!("{}…", &text[..end]).into(),
    }
}
