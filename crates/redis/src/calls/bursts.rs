//! The call that counts requests in burst detectors which nodes share.

use redis::Value;
use smallvec::SmallVec;
use tidegate::BurstAction;
use tidegate_core::Nanos;

use super::link::LinkError;
use super::scripts;
use super::wire::numbers::{double, micros};
use super::wire::{EncodedCall, garbled};
use crate::registry::BucketKey;

/// Windows and penalties are at most this long, so that instants fit the doubles of Lua.
const LONGEST: Nanos = Nanos::from_secs(100 * 366 * 86_400);

/// Counts requests in detectors, and answers their penalties.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BurstCall {
    /// One for each detector and client.
    pub entries: SmallVec<[BurstCallEntry; 2]>,
    /// The time of the call, if a test gives it; otherwise the server's clock is used.
    pub at: Option<Nanos>,
}

/// A detector's state for one client, and what to count in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BurstCallEntry {
    /// The key of the state.
    pub key: BucketKey,
    /// The length of a window.
    pub window: Nanos,
    /// The most requests in a window.
    pub threshold: u32,
    /// How long a warning lasts; a block lasts twice as long.
    pub penalty: Nanos,
    /// Ends the penalty before anything is counted.
    pub lifts: bool,
    /// How long ago, and how many requests; the oldest first. Empty to read the penalty only.
    pub counts: SmallVec<[(Nanos, u32); 2]>,
}

/// The answer about one entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BurstAnswer {
    /// What the counts of this call triggered.
    pub action: Option<BurstAction>,
    /// Did they trigger a warning before the block? Counts of two windows may.
    pub warned_before: bool,
    /// The penalty, and how long it lasts from the server's time on.
    pub penalty: Option<(BurstAction, Nanos)>,
}

/// Encodes a call.
pub fn encode_bursts(call: &BurstCall) -> EncodedCall {
    let mut packed = Vec::with_capacity(call.entries.len() * 64);
    for entry in &call.entries {
        let span = |length: Nanos| micros(length.min(LONGEST));
        let numbers = [
            span(entry.window).max(1),
            entry.threshold.into(),
            span(entry.penalty),
            entry.lifts.into(),
            entry.counts.len() as u64,
        ];
        numbers.iter().for_each(|&number| packed.extend(double(number)));
        for &(age, requests) in &entry.counts {
            packed.extend(double(span(age)));
            packed.extend(double(requests.into()));
        }
    }
    let mut args = vec![packed];
    super::wire::push_time(&mut args, call.at);
    let keys = call.entries.iter().map(|entry| entry.key.clone()).collect();
    EncodedCall { script: scripts::BURSTS.script(call.at.is_some()), keys, args }
}

/// Reads the reply to a call.
///
/// # Errors
/// When the reply is no answer to this call.
pub fn decode_bursts(call: &BurstCall, reply: Value) -> Result<Vec<BurstAnswer>, LinkError> {
    let Value::Array(numbers) = &reply else { return Err(garbled("bursts", &reply)) };
    let number = |value: &Value| match value {
        Value::Int(number) => u64::try_from(*number).ok(),
        _ => None,
    };
    let kind = |number: u64| match number {
        0 => Some(None),
        1 => Some(Some(BurstAction::Warned)),
        2 => Some(Some(BurstAction::Blocked)),
        _ => None,
    };
    let answer = |parts: &[Value]| {
        let [action, penalty, left] = parts else { return None };
        let left = Nanos::new(number(left)?.saturating_mul(1_000));
        let (action, warned_before) = match number(action)? {
            3 => (Some(BurstAction::Blocked), true),
            action => (kind(action)?, false),
        };
        Some(BurstAnswer { action, warned_before, penalty: kind(number(penalty)?)?.map(|kind| (kind, left)) })
    };
    let answers: Option<Vec<BurstAnswer>> = numbers.chunks(3).map(answer).collect();
    answers.filter(|answers| answers.len() == call.entries.len()).ok_or_else(|| garbled("bursts", &reply))
}
