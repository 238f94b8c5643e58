//! The script calls, in words.

mod decode;
mod encode;
pub(crate) mod numbers;

use redis::Value;
use smallvec::SmallVec;
use tidegate_core::Nanos;

use crate::link::{CallVerb, LinkError, ScriptCall};
use crate::scripts::{self, Script};
use crate::{BucketKey, keys};

pub use decode::decode;
pub(crate) use decode::{log_entries, state_and_text};
pub use encode::encode;

/// A script call, ready to be sent: `EVALSHA <script.sha> <keys.len()> <keys…> <args…>`, and on NOSCRIPT the same
/// with `EVAL` and `script.text`.
#[derive(Clone, Debug)]
pub struct EncodedCall {
    /// Which script.
    pub script: &'static Script,
    /// Its `KEYS`.
    pub keys: SmallVec<[BucketKey; 8]>,
    /// Its `ARGV`.
    pub args: SmallVec<[Vec<u8>; 8]>,
}

/// A beat in words; see [`Link::beat`](crate::Link::beat).
pub fn encode_beat(prefix: &str, node: u128, alive: bool, within: Nanos) -> EncodedCall {
    let args = [
        format!("{node:032x}").into_bytes(),
        if alive { b"1".to_vec() } else { b"0".to_vec() },
        within.as_millis_ceil().to_string().into_bytes(),
    ];
    EncodedCall {
        script: scripts::BEAT.script(false),
        keys: SmallVec::from_iter([keys::nodes(prefix)]),
        args: SmallVec::from_iter(args),
    }
}

/// How many nodes the server's reply to a beat says there are.
///
/// # Errors
/// When it makes no sense.
pub fn decode_beat(reply: Value) -> Result<u32, LinkError> {
    match reply {
        Value::Int(nodes) => u32::try_from(nodes).map_err(|_| garbled("nodes", &Value::Int(nodes))),
        other => Err(garbled("nodes", &other)),
    }
}

/// In which order the entries of a call are sent: who may refuse comes first, and who came last is handed back
/// first.
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

fn garbled(what: &str, reply: &Value) -> LinkError {
    let mut shown = format!("{reply:?}");
    if let Some((end, _)) = shown.char_indices().nth(100) {
        shown.truncate(end);
    }
    LinkError::Garbled(format!("{what}: {shown}"))
}
