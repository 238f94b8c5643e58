//! Reads the replies of scripts.

use redis::Value;
use smallvec::SmallVec;
use tidegate_core::{Limit, LogQuota, Meter, Nanos};

use super::numbers::{from_pair, nanos_of, whole};
use super::plain::{PackedHead, STATE_BYTES};
use super::{garbled, order};
use crate::calls::{
    BucketEntry, CallAnswer, CallOutcome, FoundState, LinkError, LogState, ScriptCall, State,
};

/// When tokens were admitted, and how many.
type LogEntries = Vec<(Nanos, u32)>;

/// The bytes of one log entry: three doubles.
const LOG_ENTRY: usize = 24;

/// Reads the reply to a call.
///
/// # Errors
/// When it is no valid reply.
pub fn decode(call: &ScriptCall, reply: Value) -> Result<CallAnswer, LinkError> {
    match reply {
        Value::Array(parts) => decode_list(call, parts),
        Value::BulkString(bytes) => decode_packed(call, &bytes)?
            .ok_or_else(|| garbled("a packed reply of the wrong form", &Value::BulkString(bytes))),
        other => Err(garbled("neither a list nor a string", &other)),
    }
}

/// Reads a reply that is a list: the time, the outcome, how many values were no valid states, the values, and how many
/// tokens were leased if any were wanted.
fn decode_list(call: &ScriptCall, parts: Vec<Value>) -> Result<CallAnswer, LinkError> {
    let entries = call.entries.len();
    if parts.len() != 4 + entries && parts.len() != 4 + 2 * entries {
        return Err(garbled("an array of the wrong length", &Value::Array(parts)));
    }
    let mut numbers = [0; 4];
    for (number, part) in numbers.iter_mut().zip(&parts) {
        *number = whole_number(part)?;
    }
    let mut answer = empty_answer(call, numbers)?;
    let mut parts = parts.into_iter().skip(4);
    let order = order(call);
    for &index in &order {
        let value = match parts.next() {
            None | Some(Value::Nil) => None,
            Some(Value::BulkString(value)) => Some(value),
            Some(other) => return Err(garbled("a state", &other)),
        };
        answer.found[index] = state_found(&call.entries[index], value.as_deref())?;
        if answer.outcome != CallOutcome::Migrate && matches!(answer.found[index], FoundState::Other(_)) {
            return Err(LinkError::Garbled("a state under another text was charged".into()));
        }
    }
    for (part, &index) in parts.zip(&order) {
        answer.leased[index] = u32::try_from(whole_number(&part)?).map_err(|_| garbled("leased", &part))?;
    }
    Ok(answer)
}

/// Reads a packed reply: a line of numbers, then the values that are there, each 16 bytes and the entry's text. `None` if
/// it has another form.
fn decode_packed(call: &ScriptCall, reply: &[u8]) -> Result<Option<CallAnswer>, LinkError> {
    let Some(head) = PackedHead::read(reply, call.entries.len()) else { return Ok(None) };
    let mut answer = empty_answer(call, head.numbers)?;
    let mut rest = &reply[head.length..];
    for (key, &index) in order(call).iter().enumerate() {
        let entry = &call.entries[index];
        if !head.is_present(key) {
            answer.found[index] = state_found(entry, None)?;
            continue;
        }
        let Some((value, after)) = rest.split_at_checked(STATE_BYTES + entry.text.len()) else {
            return Ok(None);
        };
        answer.found[index] = state_found(entry, Some(value))?;
        if matches!(answer.found[index], FoundState::Other(_)) {
            return Ok(None);
        }
        rest = after;
    }
    Ok(rest.is_empty().then_some(answer))
}

/// An answer with these numbers: seconds, microseconds, the outcome, and how many values were no valid states.
fn empty_answer(
    call: &ScriptCall,
    [seconds, micros, outcome, poisoned]: [u64; 4],
) -> Result<CallAnswer, LinkError> {
    let outcome = match outcome {
        0 => CallOutcome::Done,
        1 => CallOutcome::Refused,
        2 => CallOutcome::Migrate,
        _ => return Err(LinkError::Garbled(format!("an unknown outcome: {outcome}"))),
    };
    let poisoned = u32::try_from(poisoned).map_err(|_| LinkError::Garbled("poisoned".into()))?;
    Ok(CallAnswer {
        at: Nanos::from_secs(seconds).saturating_add(nanos_of(micros)),
        outcome,
        found: vec![FoundState::Other(Vec::new()); call.entries.len()],
        leased: SmallVec::from_elem(0, call.entries.len()),
        poisoned,
    })
}

/// The state of an entry; without a value, that of an untouched key.
fn state_found(entry: &BucketEntry, value: Option<&[u8]>) -> Result<FoundState, LinkError> {
    let Some(value) = value else { return Ok(FoundState::Here(untouched(&entry.limit))) };
    if let Some((_, state)) = entry.migrated.as_deref().filter(|(raw, _)| *raw == value) {
        return Ok(FoundState::Here(state.clone()));
    }
    let own = match &entry.limit {
        Limit::Meter(meter) => own_state(meter, value, &entry.text)?,
        Limit::Log(_) => log_state(value)?,
    };
    Ok(own.map_or_else(|| FoundState::Other(value.to_vec()), FoundState::Here))
}

/// A state under the entry's own text.
fn own_state(meter: &Meter, value: &[u8], text: &str) -> Result<Option<State>, LinkError> {
    match state_and_text(value) {
        Some((pair, stored)) if stored == text.as_bytes() => {
            let state =
                from_pair(meter, pair).ok_or_else(|| LinkError::Garbled("an impossible state".into()))?;
            Ok(Some(state))
        }
        _ => Ok(None),
    }
}

/// A script's summary of a log under the entry's own text. It begins with a zero byte, as no text does.
fn log_state(value: &[u8]) -> Result<Option<State>, LinkError> {
    let Some((0, numbers)) = value.split_first() else { return Ok(None) };
    let [counted, empty_at, fits_at] =
        whole_numbers::<3>(numbers).ok_or_else(|| LinkError::Garbled("the summary of a log".into()))?;
    let counted = u32::try_from(counted).map_err(|_| LinkError::Garbled("the count of a log".into()))?;
    Ok(Some(State::Log(LogState {
        counted,
        empty_at: nanos_of(empty_at),
        fits_at: nanos_of(fits_at),
        entries: Vec::new(),
    })))
}

fn untouched(limit: &Limit) -> State {
    match limit {
        Limit::Meter(_) => State::Word(0),
        Limit::Log(_) => State::Log(LogState::default()),
    }
}

/// The two numbers of a stored value, and its text.
pub(crate) fn state_and_text(value: &[u8]) -> Option<((u64, u64), &[u8])> {
    let (pair, text) = value.split_at_checked(STATE_BYTES)?;
    let [first, second] = whole_numbers::<2>(pair)?;
    Some(((first, second), text))
}

/// The text and the entries, oldest first, of a log that was found under another text.
pub(crate) fn log_entries(value: &[u8]) -> Option<(&[u8], LogEntries)> {
    let end = value.iter().position(|&byte| byte == b'\n')?;
    let (text, entries) = (&value[..end], &value[end + 1..]);
    if entries.len() % LOG_ENTRY != 0 {
        return None;
    }
    let entry = |bytes: &[u8]| {
        let [at, tokens, _] = whole_numbers::<3>(bytes)?;
        let tokens = u32::try_from(tokens).ok().filter(|&tokens| tokens <= LogQuota::LIMIT_MAX)?;
        Some((nanos_of(at), tokens))
    };
    let entries = entries.chunks_exact(LOG_ENTRY).map(entry).collect::<Option<Vec<_>>>()?;
    entries.is_sorted_by_key(|(at, _)| *at).then_some((text, entries))
}

fn whole_numbers<const N: usize>(bytes: &[u8]) -> Option<[u64; N]> {
    let mut numbers = [0; N];
    if bytes.len() != 8 * N {
        return None;
    }
    for (number, bytes) in numbers.iter_mut().zip(bytes.chunks_exact(8)) {
        *number = whole(bytes)?;
    }
    Some(numbers)
}

fn whole_number(part: &Value) -> Result<u64, LinkError> {
    let number = match part {
        Value::Int(number) => u64::try_from(*number).ok(),
        Value::BulkString(digits) => std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok()),
        _ => None,
    };
    number.ok_or_else(|| garbled("a number", part))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calls::CallVerb;
    use crate::registry::BucketKey;
    use tidegate_core::{Cost, Quota};

    fn call(limits: &[Limit]) -> ScriptCall {
        let entry = |limit: &Limit| BucketEntry {
            key: BucketKey("k".into()),
            limit: *limit,
            text: "x 1".into(),
            cost: Cost::ONE,
            binding: true,
            delay: Nanos::ZERO,
            want: 0,
            spare: Nanos::ZERO,
            charged_at: Nanos::ZERO,
            migrated: None,
        };
        ScriptCall { verb: CallVerb::Take, entries: limits.iter().map(entry).collect(), at: None }
    }

    fn bulk(bytes: &[u8]) -> Value {
        Value::BulkString(bytes.to_vec())
    }

    fn reply(value: Value) -> Value {
        Value::Array(vec![bulk(b"1800000000"), bulk(b"5"), Value::Int(0), Value::Int(0), value])
    }

    #[test]
    fn an_answer_is_read() {
        let bucket = [Quota::per_second(1).unwrap().into()];
        let answer = decode(&call(&bucket), reply(Value::Nil)).unwrap();
        assert_eq!((answer.at, answer.outcome), (Nanos::new(1_800_000_000_000_005_000), CallOutcome::Done));
        assert_eq!(answer.found[0], FoundState::Here(State::Word(0)));
        let value = [2_f64.to_le_bytes(), 7_f64.to_le_bytes()].concat();
        let all = [b"1800000000 5 1 0\n".as_slice(), &value, b"x 1"].concat();
        let answer = decode(&call(&bucket), bulk(&all)).unwrap();
        assert_eq!(answer.found[0], FoundState::Here(State::Word(2_000_000_007)));
        assert_eq!(answer.outcome, CallOutcome::Refused);
        let untouched = decode(&call(&bucket), bulk(b"1800000000 5 0 0 0\n")).unwrap();
        assert_eq!(
            (&untouched.found[0], untouched.outcome),
            (&FoundState::Here(State::Word(0)), CallOutcome::Done)
        );
    }

    #[test]
    fn senseless_answers_are_refused() {
        let bucket = [Quota::per_second(1).unwrap().into()];
        let log = [LogQuota::new(1, Nanos::SECOND).unwrap().into()];
        let beyond = [&2_f64.to_le_bytes(), &1e12_f64.to_le_bytes(), b"x 1".as_slice()].concat();
        let wrong = [
            Value::Nil,
            Value::Int(3),
            Value::Array(Vec::new()),
            bulk(b""),
            bulk(b"1 2 3 4"),
            bulk(b"1 2 0 0\nshort"),
            bulk(b"1 2 0\n0123456789abcdefx 1"),
            bulk(b"1 2 0 0 0\n0123456789abcdefx 1"),
            bulk(b"1 2 0 0 1\n"),
            bulk(b"1 2 0 0\n0123456789abcdefx 2"),
            bulk(b"1 2 0 0 0 0\n"),
            bulk(b"1 2 0 0 \n"),
            bulk(b"1 2 0 0 00\n"),
            bulk(b"1 2 0 0 2\n"),
            bulk(b"1 2 9 0 0\n"),
            reply(Value::Int(1)),
            reply(bulk(b"under another text")),
            reply(bulk(&beyond)),
            Value::Array(vec![bulk(b"-1"), bulk(b"5"), Value::Int(0), Value::Int(0), Value::Nil]),
            Value::Array(vec![bulk(b"1"), bulk(b"5"), Value::Int(7), Value::Int(0), Value::Nil]),
            Value::Array(vec![bulk(b"1"), bulk(b"5"), Value::Int(0), Value::Int(-1), Value::Nil]),
        ];
        for reply in wrong {
            let answer = decode(&call(&bucket), reply.clone());
            assert!(matches!(answer, Err(LinkError::Garbled(_))), "{reply:?}: {answer:?}");
        }
        let answer = decode(&call(&log), reply(bulk(b"\0short")));
        assert!(matches!(answer, Err(LinkError::Garbled(_))), "{answer:?}");
    }
}
