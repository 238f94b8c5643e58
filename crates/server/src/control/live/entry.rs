//! A live entry, and how carriers write it.

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tidegate_database::{LiveRow, UnixMillis};
use tidegate_redis::SharedLiveEntry;

use super::overrides::OverrideBody;

/// What an entry does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum LiveKind {
    /// Blocks requests.
    Block,
    /// Exempts requests.
    Allow,
    /// Switches all limits off.
    KillSwitch,
    /// Acts on the keys of a request, once on every node.
    Keys,
    /// Gives a limit other numbers for some clients.
    Override,
}

impl LiveKind {
    const ALL: [LiveKind; 5] =
        [LiveKind::Block, LiveKind::Allow, LiveKind::KillSwitch, LiveKind::Keys, LiveKind::Override];

    /// Its name.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            LiveKind::Block => "block",
            LiveKind::Allow => "allow",
            LiveKind::KillSwitch => "kill_switch",
            LiveKind::Keys => "keys",
            LiveKind::Override => "override",
        }
    }

    fn parse(text: &str) -> Option<LiveKind> {
        LiveKind::ALL.into_iter().find(|kind| kind.as_str() == text)
    }
}

/// Something that somebody does at run time, beside the policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LiveEntry {
    /// Its name, which is no secret.
    pub(crate) id: String,
    pub(crate) kind: LiveKind,
    /// Its place in the order in which entries were added, which the carrier gives it: of two, the newer one has the higher.
    /// Zero until then. The clocks of nodes say nothing about that order.
    pub(crate) sequence: u64,
    /// More about it.
    pub(crate) body: LiveBody,
    /// When it ends by itself.
    pub(crate) until: Option<UnixMillis>,
    pub(crate) created_at: UnixMillis,
    /// Who added it.
    pub(crate) author: String,
    /// Why.
    pub(crate) reason: Option<String>,
}

/// What an entry says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LiveBody {
    /// Whom it is about: conditions as in `block`.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub(crate) who: Value,
    /// The tenant to which its author was restricted. Only tokens that see this tenant may remove it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) scope: Option<String>,
    /// The limit and its other numbers, for an override.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) overridden: Option<OverrideBody>,
    /// For [`LiveKind::Keys`]: what to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) action: Option<KeyAction>,
}

/// What to do with the keys of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KeyAction {
    pub(crate) request: Value,
    /// The limits whose keys are meant.
    pub(crate) limits: Vec<String>,
    /// Are the keys of all limits meant, also of those that only candidates have?
    #[serde(default)]
    pub(crate) is_of_all: bool,
    /// The tokens to grant; `None` to make the keys unused.
    pub(crate) tokens: Option<u32>,
}

/// An entry on Redis.
#[derive(Debug, Serialize, Deserialize)]
struct LiveText {
    kind: String,
    body: LiveBody,
    until: Option<i64>,
    created_at: i64,
    author: String,
    reason: Option<String>,
}

impl LiveEntry {
    /// Does it block or exempt clients?
    pub(crate) fn is_gate(&self) -> bool {
        matches!(self.kind, LiveKind::Block | LiveKind::Allow)
    }

    /// The order of entries, newest first.
    pub(crate) fn newer_first(&self, other: &LiveEntry) -> Ordering {
        (other.sequence, &other.id).cmp(&(self.sequence, &self.id))
    }

    /// Does it still hold?
    pub(crate) fn holds(&self, now: UnixMillis) -> bool {
        self.until.is_none_or(|until| now < until)
    }

    /// The entry for the database.
    pub(crate) fn to_row(&self) -> LiveRow {
        LiveRow {
            id: self.id.clone(),
            kind: self.kind.as_str().to_owned(),
            body: serde_json::to_string(&self.body).expect("it is plain JSON"),
            until: self.until,
            created_at: self.created_at,
            author: self.author.clone(),
            reason: self.reason.clone(),
            ..LiveRow::default()
        }
    }

    /// The entry in the database; `None` if a newer version of the program has written what this one does not know.
    pub(crate) fn of_row(row: LiveRow) -> Option<LiveEntry> {
        Some(LiveEntry {
            kind: LiveKind::parse(&row.kind)?,
            body: serde_json::from_str(&row.body).ok()?,
            id: row.id,
            sequence: row.sequence,
            until: row.until,
            created_at: row.created_at,
            author: row.author,
            reason: row.reason,
        })
    }

    /// The entry for Redis.
    pub(crate) fn to_text(&self) -> Vec<u8> {
        let text = LiveText {
            kind: self.kind.as_str().to_owned(),
            body: self.body.clone(),
            until: self.until.map(UnixMillis::get),
            created_at: self.created_at.get(),
            author: self.author.clone(),
            reason: self.reason.clone(),
        };
        serde_json::to_vec(&text).expect("it is plain JSON")
    }

    /// The entry on Redis; `None` as for [`LiveEntry::of_row`].
    pub(crate) fn of_text(entry: &SharedLiveEntry) -> Option<LiveEntry> {
        let text: LiveText = serde_json::from_slice(&entry.text).ok()?;
        Some(LiveEntry {
            id: entry.id.clone(),
            sequence: entry.sequence,
            kind: LiveKind::parse(&text.kind)?,
            body: text.body,
            until: text.until.map(UnixMillis::new),
            created_at: UnixMillis::new(text.created_at),
            author: text.author,
            reason: text.reason,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn entries_are_read_back_as_they_were_written() {
        let entry = LiveEntry {
            id: "a".into(),
            kind: LiveKind::Allow,
            sequence: 7,
            body: LiveBody {
                who: json!({ "user": ["42", "43"] }),
                scope: Some("acme".into()),
                ..LiveBody::default()
            },
            until: Some(UnixMillis::new(5)),
            created_at: UnixMillis::new(1),
            author: "token:x".into(),
            reason: None,
        };
        let row = LiveRow { sequence: 7, ..entry.to_row() };
        assert_eq!(LiveEntry::of_row(row), Some(entry.clone()), "the carrier gives the sequence");
        let shared =
            SharedLiveEntry { id: "a".into(), sequence: 7, is_removed: false, text: entry.to_text() };
        assert_eq!(LiveEntry::of_text(&shared), Some(entry.clone()));
        assert_eq!(LiveEntry::of_row(LiveRow { kind: "newer".into(), ..entry.to_row() }), None);
        assert_eq!(LiveEntry::of_text(&SharedLiveEntry { text: b"{}".into(), ..shared }), None);
        assert!(entry.holds(UnixMillis::new(4)) && !entry.holds(UnixMillis::new(5)));
    }
}
