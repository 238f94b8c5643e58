//! The call about the list of penalties that nodes share.
//!
//! The list is only a directory: what is in force is in the states of the detectors. It cannot be written by the script
//! that counts, since it is in another slot of a Cluster.

use redis::Value;
use tidegate_core::Nanos;

use super::link::LinkError;
use super::scripts;
use super::wire::{EncodedCall, garbled};
use crate::registry::BucketKey;

/// Keys stay on the server at most this long.
const LONGEST: Nanos = Nanos::from_secs(200 * 366 * 86_400);

/// The length of an id as text.
const ID_CHARS: usize = 32;

/// Changes or reads the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PenaltyListCall {
    /// What the keys of the list begin with; it has a hash tag.
    pub key: BucketKey,
    /// What to do.
    pub operation: PenaltyListOperation,
    /// The time of the call, if a test gives it; otherwise the server's clock is used.
    pub at: Option<Nanos>,
}

/// What to do with the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PenaltyListOperation {
    /// Adds penalties, or replaces those with the same ids, as long as there is room.
    Add {
        /// How many penalties may be listed.
        most: usize,
        /// The penalties.
        entries: Vec<PenaltyListEntry>,
    },
    /// Removes the penalty with this id.
    Remove(u128),
    /// Answers penalties by ascending id.
    Page {
        /// The id after which to begin.
        after: Option<u128>,
        /// How many.
        most: usize,
    },
}

/// A penalty to list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PenaltyListEntry {
    /// The hash of the detector and the client's key.
    pub id: u128,
    /// How long it lasts.
    pub lasts: Nanos,
    /// What is shown of it; its first byte is zero.
    pub text: Vec<u8>,
}

/// The answer to a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PenaltyListAnswer {
    /// The list was changed, and so many penalties found no room.
    Changed(u64),
    /// Penalties: id and text.
    Page(Vec<(u128, Vec<u8>)>),
}

/// Encodes a call.
pub fn encode_penalties(call: &PenaltyListCall) -> EncodedCall {
    let id_text = |id: u128| format!("{id:032x}").into_bytes();
    let number = |number: usize| number.to_string().into_bytes();
    let mut args: Vec<Vec<u8>> = Vec::new();
    match &call.operation {
        PenaltyListOperation::Add { most, entries } => {
            args.extend([b"add".to_vec(), number(*most), number(entries.len())]);
            for entry in entries {
                let lasts = entry.lasts.min(LONGEST).as_millis_ceil();
                args.extend([id_text(entry.id), lasts.to_string().into_bytes(), entry.text.clone()]);
            }
        }
        PenaltyListOperation::Remove(id) => args.extend([b"remove".to_vec(), id_text(*id)]),
        PenaltyListOperation::Page { after, most } => {
            args.extend([b"page".to_vec(), after.map_or(Vec::new(), id_text), number(*most)]);
        }
    }
    super::wire::push_time(&mut args, call.at);
    let part = |name: &str| BucketKey(format!("{}:{name}", call.key.0).into());
    let keys = ["ends", "ids"].map(part).into_iter().collect();
    EncodedCall { script: scripts::PENALTIES.script(call.at.is_some()), keys, args }
}

/// Reads the reply to a call.
///
/// # Errors
/// When the reply is no answer to this call.
pub fn decode_penalties(reply: Value) -> Result<PenaltyListAnswer, LinkError> {
    let penalty = |member: &Value| {
        let Value::BulkString(member) = member else { return None };
        let (id, text) = member.split_at_checked(ID_CHARS)?;
        Some((u128::from_str_radix(str::from_utf8(id).ok()?, 16).ok()?, text.to_vec()))
    };
    let answer = match &reply {
        Value::Int(number) => u64::try_from(*number).ok().map(PenaltyListAnswer::Changed),
        Value::Array(members) => {
            members.iter().map(penalty).collect::<Option<_>>().map(PenaltyListAnswer::Page)
        }
        _ => None,
    };
    answer.ok_or_else(|| garbled("penalties", &reply))
}
