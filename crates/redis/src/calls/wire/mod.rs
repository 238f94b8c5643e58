//! The bytes of script calls and of their replies.

mod decode;
mod encode;
pub(crate) mod numbers;
mod plain;

use redis::Value;
use smallvec::SmallVec;

use crate::calls::scripts::{self, Script};
use crate::calls::{CallVerb, Heartbeat, LinkError, ScriptCall};
use crate::registry::BucketKey;

pub use decode::decode;
pub(crate) use decode::{log_entries, state_and_text};
#[cfg(feature = "testing")]
pub use encode::encode;
pub(crate) use encode::{encode_general, push_time};
pub(crate) use plain::{PlainCall, ReplyLayout};

/// A script call as bytes: `EVALSHA <script.sha> <keys.len()> <keys…> <args…>`, and on NOSCRIPT the same
/// with `EVAL` and `script.text`.
#[derive(Clone, Debug)]
pub struct EncodedCall {
    /// Which script.
    pub script: &'static Script,
    /// Its `KEYS`.
    pub keys: Vec<BucketKey>,
    /// Its `ARGV`.
    pub args: Vec<Vec<u8>>,
}

/// Encodes a heartbeat.
pub fn encode_heartbeat(heartbeat: &Heartbeat) -> EncodedCall {
    let args = [
        format!("{:032x}", heartbeat.node).into_bytes(),
        if heartbeat.alive { b"1".to_vec() } else { b"0".to_vec() },
        heartbeat.within.as_millis_ceil().to_string().into_bytes(),
    ];
    EncodedCall {
        script: scripts::HEARTBEAT.script(false),
        keys: vec![heartbeat.key.clone()],
        args: args.into(),
    }
}

/// The number of nodes in the reply to a heartbeat.
///
/// # Errors
/// When the reply is no such number.
pub fn decode_heartbeat(reply: Value) -> Result<u32, LinkError> {
    match reply {
        Value::Int(nodes) => u32::try_from(nodes).map_err(|_| garbled("nodes", &Value::Int(nodes))),
        other => Err(garbled("nodes", &other)),
    }
}

/// The order in which the entries of a call are sent: binding entries first, since they may refuse the call; hand-backs
/// in reverse, since they undo charges.
fn order(call: &ScriptCall) -> SmallVec<[usize; 8]> {
    let entries = 0..call.entries.len();
    match call.verb {
        CallVerb::Take | CallVerb::Peek => {
            let binding = |&index: &usize| call.entries[index].binding;
            entries.clone().filter(binding).chain(entries.filter(|index| !binding(index))).collect()
        }
        CallVerb::Refund => entries.collect(),
        CallVerb::HandBack => entries.rev().collect(),
    }
}

pub(crate) fn garbled(what: &str, reply: &Value) -> LinkError {
    let mut shown = format!("{reply:?}");
    if let Some((end, _)) = shown.char_indices().nth(100) {
        shown.truncate(end);
    }
    LinkError::Garbled(format!("{what}: {shown}"))
}
