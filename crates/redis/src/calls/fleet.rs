//! The calls by which nodes tell each other of themselves: what each does now, and did in the last hour. The server keeps
//! texts and does not understand them.

use redis::Value;
use tidegate_core::Nanos;

use super::link::LinkError;
use super::scripts;
use super::wire::{EncodedCall, garbled};
use crate::registry::BucketKey;

/// How long what a node has told is kept if it tells nothing any more.
const KEPT: Nanos = Nanos::from_secs(60);
/// How long steps are kept if nobody tells of newer ones.
const STEPS_KEPT: Nanos = Nanos::from_secs(2 * 60 * 60);
/// Of how many nodes the server keeps what they tell.
pub(crate) const NODES_MAX: usize = 1_000;
/// How many steps it keeps, those of all nodes together.
const STEPS_MAX: usize = 25_000;
/// How many steps one call returns: few enough for its deadline, also where each names many limits.
pub(crate) const STEPS_PAGE: usize = 50;

/// What a node tells of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToldByNode {
    /// The id of the node, without line feeds.
    pub id: String,
    /// What it tells.
    pub text: Vec<u8>,
}

impl ToldByNode {
    fn to_member(&self) -> Vec<u8> {
        [self.id.as_bytes(), b"\n", &self.text].concat()
    }

    fn of_member(member: &[u8]) -> Option<ToldByNode> {
        let end = member.iter().position(|&byte| byte == b'\n')?;
        let id = String::from_utf8(member[..end].to_vec()).ok()?;
        Some(ToldByNode { id, text: member[end + 1..].to_vec() })
    }
}

/// Which steps the server keeps: those of the last while, by its own clock. Steps are numbered since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptFleetSteps {
    /// How long a step is.
    pub step_millis: u64,
    /// How many before the one that goes on. As many after it are kept too, of nodes whose clock is ahead.
    pub count: u64,
}

/// A call.
#[derive(Clone, Copy, Debug)]
pub(crate) enum FleetCall<'a> {
    /// Tells what a node does now, instead of what it told before.
    Tell { told: &'a ToldByNode, before: Option<&'a ToldByNode> },
    /// What all nodes have told within a time.
    Nodes { within: Nanos },
    /// Tells of a step of the last hour, and forgets those that are not kept any more.
    Keep { step: u64, told: &'a ToldByNode, kept: KeptFleetSteps },
    /// How many nodes have told of each step that is kept.
    Counts { kept: KeptFleetSteps },
    /// What all nodes have told of steps, from `first` to `last`, without the first few of them.
    Steps { first: u64, last: u64, skip: usize },
}

/// Encodes a call.
pub(crate) fn encode(key: &BucketKey, call: FleetCall<'_>) -> EncodedCall {
    let digits = |number: u64| number.to_string().into_bytes();
    let most = |number: usize| digits(number as u64);
    let args: Vec<Vec<u8>> = match call {
        FleetCall::Tell { told, before } => {
            let before = before.map(ToldByNode::to_member).unwrap_or_default();
            let kept = digits(KEPT.as_millis_ceil());
            [b"tell".to_vec(), most(NODES_MAX), kept, told.to_member(), before].into_iter().collect()
        }
        FleetCall::Nodes { within } => {
            [b"nodes".to_vec(), most(NODES_MAX), digits(within.as_millis_ceil())].into_iter().collect()
        }
        FleetCall::Keep { step, told, kept } => {
            let (expires, member) = (digits(STEPS_KEPT.as_millis_ceil()), told.to_member());
            let [millis, count] = [kept.step_millis, kept.count].map(digits);
            let all = [b"keep".to_vec(), most(STEPS_MAX), expires, member, digits(step), millis, count];
            all.into_iter().collect()
        }
        FleetCall::Counts { kept } => {
            [b"counts".to_vec(), most(0), digits(kept.step_millis), digits(kept.count)].into_iter().collect()
        }
        FleetCall::Steps { first, last, skip } => {
            [b"steps".to_vec(), most(STEPS_PAGE), digits(first), digits(last), most(skip)]
                .into_iter()
                .collect()
        }
    };
    let keys = ["now", "hour"].map(|part| BucketKey(format!("{}:{part}", key.0).into()));
    EncodedCall { script: scripts::FLEET.script(false), keys: keys.into_iter().collect(), args }
}

/// Reads a reply: what nodes have told, each with a number that says how many milliseconds ago, or of which step.
///
/// # Errors
/// When the reply is no answer to a call.
pub(crate) fn decode(reply: &Value) -> Result<Vec<(ToldByNode, u64)>, LinkError> {
    let pair = |pair: &[Value]| {
        let [Value::BulkString(member), Value::BulkString(number)] = pair else { return None };
        Some((ToldByNode::of_member(member)?, std::str::from_utf8(number).ok()?.parse().ok()?))
    };
    let told = match reply {
        Value::Array(parts) => parts.chunks(2).map(pair).collect(),
        _ => None,
    };
    told.ok_or_else(|| garbled("what nodes tell", reply))
}

/// Reads how many nodes have told of each step.
///
/// # Errors
/// When the reply is no answer to that.
pub(crate) fn decode_counts(reply: &Value) -> Result<Vec<(u64, u64)>, LinkError> {
    let number = |value: &Value| match value {
        Value::BulkString(digits) => std::str::from_utf8(digits).ok()?.parse().ok(),
        _ => None,
    };
    let counts = match reply {
        Value::Array(parts) => {
            let pair = |pair: &[Value]| Some((number(pair.first()?)?, number(pair.get(1)?)?));
            parts.chunks(2).map(pair).collect()
        }
        _ => None,
    };
    counts.ok_or_else(|| garbled("how many nodes have told of steps", reply))
}
