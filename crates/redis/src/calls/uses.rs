//! The calls about when live entries were last used.

use redis::Value;

use super::link::LinkError;
use super::scripts;
use super::wire::{EncodedCall, garbled};
use crate::registry::BucketKey;

/// Of how many entries it is known: twice as many as there can be overrides, so that those that have ended make way first.
const KNOWN_MAX: usize = 20_000;

fn encoded(key: &BucketKey, args: Vec<Vec<u8>>) -> EncodedCall {
    let keys = [BucketKey(format!("{}:uses", key.0).into())].into_iter().collect();
    EncodedCall { script: scripts::USES.script(false), keys, args }
}

/// Encodes a call that tells the times in milliseconds at which entries were used.
pub(crate) fn encode_tell(key: &BucketKey, uses: &[(String, u64)]) -> EncodedCall {
    let mut args = vec![b"tell".to_vec(), KNOWN_MAX.to_string().into_bytes()];
    args.extend(
        uses.iter().flat_map(|(id, millis)| [millis.to_string().into_bytes(), id.clone().into_bytes()]),
    );
    encoded(key, args)
}

/// Encodes a call that reads the times of these entries.
pub(crate) fn encode_read(key: &BucketKey, ids: &[String]) -> EncodedCall {
    let ids = ids.iter().map(|id| id.clone().into_bytes());
    encoded(key, std::iter::once(b"read".to_vec()).chain(ids).collect())
}

/// Reads the reply: the time of each entry, `None` for those that nobody has told of.
///
/// # Errors
/// When the reply is no answer to it.
pub(crate) fn decode(reply: &Value) -> Result<Vec<Option<u64>>, LinkError> {
    let time = |value: &Value| match value {
        Value::BulkString(digits) if digits.is_empty() => Some(None),
        Value::BulkString(digits) => str::from_utf8(digits).ok()?.parse().ok().map(Some),
        _ => None,
    };
    let times = match reply {
        Value::Array(times) => times.iter().map(time).collect(),
        _ => None,
    };
    times.ok_or_else(|| garbled("when live entries were used", reply))
}
