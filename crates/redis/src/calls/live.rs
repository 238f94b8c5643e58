//! The calls about live entries: what people do at run time beside the policy, for all nodes that share the server.

use redis::Value;
use tidegate_core::Nanos;

use super::link::LinkError;
use super::scripts;
use super::wire::{EncodedCall, garbled};
use crate::registry::BucketKey;

/// How far the entries are known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SharedLiveHead {
    /// Another number means that everything has to be read anew; zero if there never were any entries, or the server has
    /// lost them.
    pub epoch: u64,
    /// Grows with each addition and each removal. None is given twice, also if the server goes back because it has lost its
    /// last changes.
    pub sequence: u64,
}

/// An entry that was added or removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedLiveEntry {
    /// Its name, without line feeds.
    pub id: String,
    /// When it was added or removed, in the order of all changes.
    pub sequence: u64,
    /// Was it removed?
    pub is_removed: bool,
    /// What it says.
    pub text: Vec<u8>,
}

/// Entries that were added or removed, in the order in which that happened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SharedLivePage {
    /// The end of all entries.
    pub head: SharedLiveHead,
    /// The entries; those that have ended may be among them.
    pub entries: Vec<SharedLiveEntry>,
    /// Are these the entries from the first? The head that was seen is none of this server: it has begun anew, or gone back.
    pub is_anew: bool,
}

/// An entry to add.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewLiveEntry {
    /// Its name, without line feeds.
    pub id: String,
    /// How long it lasts; `None`: until it is removed.
    pub lasts: Option<Nanos>,
    /// What it says.
    pub text: Vec<u8>,
}

/// A change of the entries, all of it or nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SharedLiveChange {
    /// The ids of entries to remove.
    pub remove: Vec<String>,
    /// Entries to add.
    pub add: Vec<NewLiveEntry>,
    /// How many entries there may be, with those that have ended or were removed in the last hour.
    pub most: usize,
    /// Are the entries to add forgotten as soon as they have ended? Nobody needs to learn that they have.
    pub is_brief: bool,
}

/// What became of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SharedLiveOutcome {
    /// It is made. This is the sequence of its last part.
    Changed(u64),
    /// There are too many entries.
    Full,
    /// An entry to remove is not there, or was removed before.
    Unknown,
}

/// How long entries are kept after they have ended or were removed, so that every node learns of it.
const KEPT: Nanos = Nanos::from_secs(60 * 60);

/// Keys stay on the server at most this long.
const LONGEST: Nanos = Nanos::from_secs(200 * 366 * 86_400);

fn encoded(key: &BucketKey, args: Vec<Vec<u8>>) -> EncodedCall {
    let part = |name: &str| BucketKey(format!("{}:{name}", key.0).into());
    let keys = ["head", "order", "ids", "ends", "past"].map(part).into_iter().collect();
    EncodedCall { script: scripts::LIVE.script(false), keys, args }
}

pub(super) fn digits(number: u64) -> Vec<u8> {
    number.to_string().into_bytes()
}

/// Encodes a call that reads what comes after a sequence, for whoever has seen a head.
pub(crate) fn encode_page(key: &BucketKey, seen: SharedLiveHead, after: u64, most: u32) -> EncodedCall {
    encoded(key, read_args(seen, after, most))
}

/// The arguments of a call that reads what comes after a sequence.
pub(super) fn read_args(seen: SharedLiveHead, after: u64, most: u32) -> Vec<Vec<u8>> {
    let numbers = [seen.epoch, seen.sequence, after, most.into()].map(digits);
    [b"read".to_vec()].into_iter().chain(numbers).collect()
}

/// Encodes a call that forgets what nobody needs to learn of any more.
pub(crate) fn encode_tidy(key: &BucketKey) -> EncodedCall {
    encoded(key, vec![b"tidy".to_vec()])
}

/// Encodes a change.
pub(crate) fn encode_change(key: &BucketKey, change: &SharedLiveChange) -> EncodedCall {
    let count = |number: usize| number.to_string().into_bytes();
    let mut args: Vec<Vec<u8>> = Vec::new();
    let kept = if change.is_brief { Nanos::ZERO } else { KEPT };
    args.extend([b"change".to_vec(), count(change.most), digits(kept.as_millis_ceil())]);
    args.push(count(change.remove.len()));
    args.extend(change.remove.iter().map(|id| id.clone().into_bytes()));
    args.push(count(change.add.len()));
    for entry in &change.add {
        let lasts = entry.lasts.map(|lasts| digits(lasts.min(LONGEST).as_millis_ceil()));
        args.extend([entry.id.clone().into_bytes(), lasts.unwrap_or_default(), entry.text.clone()]);
    }
    encoded(key, args)
}

/// Reads the reply to [`encode_page`].
///
/// # Errors
/// When the reply is no answer to it.
pub(crate) fn decode_page(reply: &Value) -> Result<SharedLivePage, LinkError> {
    page(reply).ok_or_else(|| garbled("live entries", reply))
}

fn page(reply: &Value) -> Option<SharedLivePage> {
    let PageParts { head, members, is_anew } = parts(reply)?;
    let entries = members.chunks(2).map(entry).collect::<Option<_>>()?;
    Some(SharedLivePage { head, entries, is_anew })
}

/// The parts of a page.
pub(super) struct PageParts<'r> {
    pub(super) head: SharedLiveHead,
    /// Members each with its sequence; none if nothing is new.
    pub(super) members: &'r [Value],
    pub(super) is_anew: bool,
}

/// The parts of a page.
pub(super) fn parts(reply: &Value) -> Option<PageParts<'_>> {
    let Value::Array(parts) = reply else { return None };
    let (epoch, sequence, members, is_anew) = match parts.as_slice() {
        [epoch, sequence] => (epoch, sequence, &[][..], false),
        [epoch, sequence, Value::Array(members), Value::BulkString(from)] => {
            (epoch, sequence, members.as_slice(), from == b"anew")
        }
        _ => return None,
    };
    let head = SharedLiveHead { epoch: number(epoch)?, sequence: number(sequence)? };
    Some(PageParts { head, members, is_anew })
}

fn entry(pair: &[Value]) -> Option<SharedLiveEntry> {
    let [Value::BulkString(member), sequence] = pair else { return None };
    let end = member.iter().position(|&byte| byte == b'\n')?;
    let (state, text) = member.get(end + 1..)?.split_first()?;
    Some(SharedLiveEntry {
        id: String::from_utf8(member[..end].to_vec()).ok()?,
        sequence: number(sequence)?,
        is_removed: *state == b'-',
        text: text.to_vec(),
    })
}

/// Reads the reply to [`encode_change`].
///
/// # Errors
/// When the reply is no answer to it.
pub(crate) fn decode_change(reply: &Value) -> Result<SharedLiveOutcome, LinkError> {
    let word = |value: &Value| match value {
        Value::BulkString(word) => Some(word.clone()),
        _ => None,
    };
    let outcome = match reply {
        Value::Array(parts) => match (parts.first().and_then(word).as_deref(), parts.get(1)) {
            (Some(b"changed"), Some(sequence)) => number(sequence).map(SharedLiveOutcome::Changed),
            (Some(b"full"), None) => Some(SharedLiveOutcome::Full),
            (Some(b"unknown"), None) => Some(SharedLiveOutcome::Unknown),
            _ => None,
        },
        _ => None,
    };
    outcome.ok_or_else(|| garbled("a change of live entries", reply))
}

pub(super) fn number(value: &Value) -> Option<u64> {
    match value {
        Value::BulkString(digits) => str::from_utf8(digits).ok()?.parse().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Value {
        Value::BulkString(text.into())
    }

    #[test]
    fn replies_that_are_no_answers_are_refused() {
        let answer = Value::Array(vec![
            text("7"),
            text("2"),
            Value::Array(vec![text("a\n+x\ny"), text("1"), text("b\n-"), text("2")]),
            text("more"),
        ]);
        let entries = decode_page(&answer).expect("an answer").entries;
        assert_eq!((entries[0].text.as_slice(), entries[0].is_removed), (&b"x\ny"[..], false));
        assert_eq!((entries[1].id.as_str(), entries[1].is_removed), ("b", true));
        for wrong in [
            Value::Nil,
            Value::Array(vec![text("7")]),
            Value::Array(vec![text("x"), text("2")]),
            Value::Array(vec![
                text("7"),
                text("2"),
                Value::Array(vec![text("no line feed"), text("1")]),
                text("more"),
            ]),
            Value::Array(vec![text("7"), text("2"), Value::Array(vec![text("a\n+")]), text("more")]),
        ] {
            assert!(decode_page(&wrong).is_err(), "{wrong:?}");
            assert!(decode_change(&wrong).is_err(), "{wrong:?}");
        }
        assert_eq!(decode_change(&Value::Array(vec![text("full")])), Ok(SharedLiveOutcome::Full));
    }
}
