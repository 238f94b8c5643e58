//! The most frequent call, a take from plain token buckets: its bytes, and several such calls as one.

use std::sync::Arc;

use redis::Value;
use smallvec::SmallVec;
use tidegate_core::{Cost, Limit, Meter, Nanos};

use super::encode::push_time;
use super::numbers::{Scale, double};
use super::{EncodedCall, garbled};
use crate::calls::scripts;
use crate::calls::{BucketEntry, CALL_KEYS_MAX, CallVerb, LinkError, ScriptCall};
use crate::registry::BucketKey;

/// The most keys that other calls may add to the first one: somebody waits for that, and its reply comes only once the script
/// has charged all of them. That is more than the limits of most requests; a draft with more is sent after it.
const JOINED_KEYS_MAX: usize = 32;

/// The number of keys of each group.
type GroupLengths = SmallVec<[usize; 2]>;

/// The bytes of a state before its text: two doubles.
pub(super) const STATE_BYTES: usize = 16;

/// Calls that only take from token buckets, each bucket once, all binding, without leases or delays. Each call is a group
/// of keys that is charged as a whole or not at all.
#[derive(Clone, Debug)]
pub(crate) struct PlainCall {
    /// For each group: how many keys it has.
    groups: GroupLengths,
    keys: Vec<PlainKey>,
    /// A candidate mostly has the limits of the policy in force, so many keys share one.
    records: Vec<PlainRecord>,
    /// The texts of the records; those of limits with equal numbers are one.
    texts: Vec<Arc<str>>,
    at: Option<Nanos>,
}

#[derive(Clone, Debug)]
struct PlainKey {
    key: BucketKey,
    /// The index of its record.
    record: usize,
}

/// What a plain call says of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PlainRecord {
    numbers: [u64; 8],
    /// The index of its text.
    text: usize,
}

/// The bytes of a record: eight doubles, and which argument is its text.
const RECORD_BYTES: usize = 8 * 8 + 2;

impl PlainCall {
    /// One call; `None` if it is no plain one.
    pub(crate) fn of(call: &ScriptCall) -> Option<PlainCall> {
        let entries = &call.entries;
        if call.verb != CallVerb::Take || entries.is_empty() {
            return None;
        }
        let mut plain = PlainCall {
            groups: SmallVec::from_iter([entries.len()]),
            keys: Vec::with_capacity(entries.len()),
            records: Vec::new(),
            texts: Vec::new(),
            at: call.at,
        };
        for (index, entry) in entries.iter().enumerate() {
            let is_again = entries[..index].iter().any(|before| before.key == entry.key);
            let numbers = numbers(entry).filter(|_| !is_again)?;
            plain.add(entry.key.clone(), numbers, &entry.text);
        }
        Some(plain)
    }

    fn add(&mut self, key: BucketKey, numbers: [u64; 8], text: &Arc<str>) {
        let text = index_of(&mut self.texts, text);
        let record = index_of(&mut self.records, &PlainRecord { numbers, text });
        self.keys.push(PlainKey { key, record });
    }

    /// Adds the groups of another call.
    ///
    /// # Errors
    /// Returns the other call if the two cannot be one: they share a bucket, whose state the server reads once, or they
    /// are too many.
    pub(crate) fn join(&mut self, other: PlainCall) -> Result<(), PlainCall> {
        let keys = self.keys.len() + other.keys.len();
        let is_too_long = keys > CALL_KEYS_MAX || keys > self.first_keys() + JOINED_KEYS_MAX;
        let has = |key: &BucketKey| self.keys.iter().any(|own| own.key == *key);
        let shares_a_bucket = || other.keys.iter().any(|other| has(&other.key));
        if is_too_long || self.at != other.at || shares_a_bucket() {
            return Err(other);
        }
        self.groups.extend(other.groups);
        for PlainKey { key, record } in other.keys {
            let PlainRecord { numbers, text } = other.records[record];
            self.add(key, numbers, &other.texts[text]);
        }
        Ok(())
    }

    /// How many keys the first of its calls has.
    pub(crate) fn first_keys(&self) -> usize {
        self.groups.first().copied().unwrap_or_default()
    }

    /// How the reply to it is split.
    pub(crate) fn reply_layout(&self) -> ReplyLayout {
        let bytes = |key: &PlainKey| STATE_BYTES + self.texts[self.records[key.record].text].len();
        ReplyLayout { groups: self.groups.clone(), value_bytes: self.keys.iter().map(bytes).collect() }
    }

    pub(crate) fn encode(self) -> EncodedCall {
        let PlainCall { groups, keys, records, texts, at } = self;
        let before_records = 1 + groups.len() * 2 + keys.len() * 4;
        let mut packed = Vec::with_capacity(before_records + records.len() * RECORD_BYTES);
        packed.push(u8::try_from(groups.len()).expect("each has a key, and few keys join the first"));
        let two_bytes =
            |number: usize| u16::try_from(number).expect("a call has at most 4,000 keys").to_le_bytes();
        let mut next_keys = keys.iter();
        for length in groups {
            packed.extend_from_slice(&two_bytes(length));
            for key in next_keys.by_ref().take(length) {
                // Lua counts from one.
                let begin = before_records + key.record * RECORD_BYTES + 1;
                let begin = u32::try_from(begin).expect("4,000 records are less than a megabyte");
                packed.extend_from_slice(&begin.to_le_bytes());
            }
        }
        for record in &records {
            record.numbers.iter().for_each(|&number| packed.extend_from_slice(&double(number)));
            // The first argument is this one.
            packed.extend_from_slice(&two_bytes(record.text + 2));
        }
        let mut args = Vec::with_capacity(texts.len() + 3);
        args.push(packed);
        args.extend(texts.iter().map(|text| text.as_bytes().to_vec()));
        push_time(&mut args, at);
        let keys = keys.into_iter().map(|plain| plain.key).collect();
        EncodedCall { script: scripts::CHARGE_PLAIN.script(at.is_some()), keys, args }
    }
}

impl EncodedCall {
    /// Of plain calls that are sent as one: only the first, which has so many keys. Records are found by where they begin,
    /// so those of the others may stay.
    pub(crate) fn keep_first(&mut self, keys: usize) {
        self.keys.truncate(keys);
        if let Some(groups) = self.args.first_mut().and_then(|packed| packed.first_mut()) {
            *groups = 1;
        }
    }
}

/// The index of a value in a list, to which it is added if it is not there.
fn index_of<T: Clone + PartialEq>(list: &mut Vec<T>, value: &T) -> usize {
    list.iter().position(|known| known == value).unwrap_or_else(|| {
        list.push(value.clone());
        list.len() - 1
    })
}

/// Where in the reply to several calls that were sent as one the replies to each are.
#[derive(Clone, Debug)]
pub(crate) struct ReplyLayout {
    groups: GroupLengths,
    /// For each key: the bytes of its value.
    value_bytes: Vec<usize>,
}

impl ReplyLayout {
    /// Splits a reply: a list of replies, or one string if each of them is a string.
    ///
    /// # Errors
    /// When it is neither.
    pub(crate) fn split(&self, reply: Value) -> Result<Vec<Value>, LinkError> {
        let split = match &reply {
            Value::BulkString(joined) => self.split_string(joined),
            _ => None,
        };
        match (split, reply) {
            (Some(replies), _) => Ok(replies),
            (None, Value::Array(replies)) if replies.len() == self.groups.len() => Ok(replies),
            (None, other) => Err(garbled("not a reply for each call", &other)),
        }
    }

    fn split_string(&self, mut joined: &[u8]) -> Option<Vec<Value>> {
        let (mut replies, mut value_bytes) = (Vec::with_capacity(self.groups.len()), &self.value_bytes[..]);
        for keys in &self.groups {
            let (of_group, others) = value_bytes.split_at(*keys);
            let head = PackedHead::read(joined, *keys)?;
            let values: usize = (0..*keys).filter(|key| head.is_present(*key)).map(|key| of_group[key]).sum();
            let (reply, rest) = joined.split_at_checked(head.length + values)?;
            replies.push(Value::BulkString(reply.to_vec()));
            (joined, value_bytes) = (rest, others);
        }
        joined.is_empty().then_some(replies)
    }
}

/// The line of numbers at the beginning of a packed reply.
pub(super) struct PackedHead<'r> {
    /// Seconds, microseconds, the outcome, and how many values were no valid states.
    pub(super) numbers: [u64; 4],
    /// A digit for each key, if some values are absent.
    present: Option<&'r [u8]>,
    /// The bytes of the line and its end.
    pub(super) length: usize,
}

impl PackedHead<'_> {
    /// That of a reply about so many keys; `None` if it is none.
    pub(super) fn read(reply: &[u8], keys: usize) -> Option<PackedHead<'_>> {
        let end = reply.iter().position(|&byte| byte == b'\n')?;
        let mut parts = reply[..end].split(|&byte| byte == b' ');
        let mut numbers = [0; 4];
        for number in &mut numbers {
            *number = std::str::from_utf8(parts.next()?).ok()?.parse().ok()?;
        }
        let present = parts.next();
        let is_valid =
            |digits: &[u8]| digits.len() == keys && digits.iter().all(|digit| matches!(digit, b'0' | b'1'));
        let is_head = present.is_none_or(is_valid) && parts.next().is_none();
        is_head.then_some(PackedHead { numbers, present, length: end + 1 })
    }

    /// Does the value of this key follow?
    pub(super) fn is_present(&self, key: usize) -> bool {
        self.present.is_none_or(|present| present.get(key) == Some(&b'1'))
    }
}

/// The numbers of a bucket that a plain call can take from.
fn numbers(entry: &BucketEntry) -> Option<[u64; 8]> {
    let Limit::Meter(Meter::TokenBucket(quota)) = &entry.limit else { return None };
    let is_plain = entry.binding && entry.delay == Nanos::ZERO && entry.want == 0 && entry.migrated.is_none();
    let is_held = entry.cost > Cost::ZERO && entry.cost.get() <= quota.capacity();
    let scale = Scale::new(quota).filter(|scale| scale.nanos == 1 && is_plain && is_held)?;
    let (room, cost) = (scale.cost(quota.capacity() - entry.cost.get()), scale.cost(entry.cost.get()));
    let spare = entry.spare.as_millis_ceil();
    Some([scale.base, scale.ticks, room.0, room.1, cost.0, cost.1, scale.far(), spare])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of two calls, with two keys and one, whose values have 17 bytes.
    fn layout() -> ReplyLayout {
        ReplyLayout { groups: SmallVec::from_slice(&[2, 1]), value_bytes: vec![17; 3] }
    }

    fn split(reply: &[u8]) -> Option<Vec<Vec<u8>>> {
        let bytes = |part: Value| match part {
            Value::BulkString(bytes) => bytes,
            other => panic!("a string is split into strings: {other:?}"),
        };
        let replies = layout().split(Value::BulkString(reply.to_vec())).ok()?;
        Some(replies.into_iter().map(bytes).collect())
    }

    #[test]
    fn a_string_is_split_where_the_values_end() {
        let value = [b'\n'; 17];
        let both = [b"1 2 0 0\n".as_slice(), &value, &value].concat();
        let one = [b"1 2 1 0 01\n".as_slice(), &value].concat();
        let none = b"1 2 0 0 0\n".to_vec();
        for parts in [[both, none.clone()], [one, none]] {
            assert_eq!(split(&parts.concat()), Some(parts.to_vec()));
        }
    }

    #[test]
    fn a_string_that_is_not_a_reply_for_each_call_is_refused() {
        let wrong: [&[u8]; 6] = [
            b"",
            b"1 2 0 0 00\n",
            b"1 2 0 0 0\n1 2 0 0 0\n",
            b"1 2 0 0 000\n1 2 0 0 0\n",
            b"1 2 0 0 02\n1 2 0 0 0\n",
            b"1 2 0 0 00\n1 2 0 0 0\n1 2 0 0 0\n",
        ];
        for reply in wrong {
            assert_eq!(split(reply), None, "{}", reply.escape_ascii());
        }
        let short = layout().split(Value::Array(vec![Value::Nil]));
        assert!(matches!(short, Err(LinkError::Garbled(_))), "{short:?}");
    }
}
