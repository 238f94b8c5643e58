//! What a script has said.

use redis::Value;
use smallvec::SmallVec;
use tidegate_core::{Limit, LogQuota, Meter, Nanos};

use super::numbers::{nanos_of, read, whole};
use super::{garbled, order};
use crate::link::{BucketEntry, CallAnswer, CallOutcome, FoundState, LinkError, LogState, ScriptCall, State};

/// When something was admitted, and how much.
type LogEntries = Vec<(Nanos, u32)>;

/// An entry of a log has so many bytes.
const LOG_ENTRY: usize = 24;

/// What the server's reply to a call means.
///
/// # Errors
/// When it makes no sense.
pub fn decode(call: &ScriptCall, reply: Value) -> Result<CallAnswer, LinkError> {
    let parts = match reply {
        Value::Array(parts) => parts,
        Value::BulkString(told) => in_parts(call, &told)
            .ok_or_else(|| garbled("neither short nor long", &Value::BulkString(told)))?,
        other => return Err(garbled("no array", &other)),
    };
    let entries = call.entries.len();
    if parts.len() != 4 + entries && parts.len() != 4 + 2 * entries {
        return Err(garbled("too short or too long", &Value::Array(parts)));
    }
    let (seconds, micros) = (number(&parts[0])?, number(&parts[1])?);
    let said = match number(&parts[2])? {
        0 => CallOutcome::Done,
        1 => CallOutcome::Refused,
        2 => CallOutcome::BringUp,
        _ => return Err(garbled("what was done", &parts[2])),
    };
    let poisoned = u32::try_from(number(&parts[3])?).map_err(|_| garbled("poisoned", &parts[3]))?;
    let mut found: SmallVec<[FoundState; 8]> = SmallVec::from_elem(FoundState::Other(Vec::new()), entries);
    let mut leased: SmallVec<[u32; 8]> = SmallVec::from_elem(0, entries);
    let mut parts = parts.into_iter().skip(4);
    let order = order(call);
    for &index in &order {
        let value = parts.next().unwrap_or(Value::Nil);
        found[index] = state_found(&call.entries[index], value)?;
        if said != CallOutcome::BringUp && matches!(found[index], FoundState::Other(_)) {
            return Err(LinkError::Garbled("a state under another text was charged".into()));
        }
    }
    for (part, &index) in parts.zip(&order) {
        leased[index] = u32::try_from(number(&part)?).map_err(|_| garbled("leased", &part))?;
    }
    let at = Nanos::from_secs(seconds).saturating_add(nanos_of(micros));
    Ok(CallAnswer { at, said, found, leased, poisoned })
}

/// The parts of an answer that is all in one: four numbers, and after them the values, each as long as its text
/// says.
fn in_parts(call: &ScriptCall, told: &[u8]) -> Option<Vec<Value>> {
    let end = told.iter().position(|&byte| byte == b'\n')?;
    let numbers = told[..end].split(|&byte| byte == b' ');
    let mut parts: Vec<Value> = numbers.map(|digits| Value::BulkString(digits.to_vec())).collect();
    let mut rest = &told[end + 1..];
    for &index in &order(call) {
        let (value, after) = rest.split_at_checked(16 + call.entries[index].text.len())?;
        parts.push(Value::BulkString(value.to_vec()));
        rest = after;
    }
    rest.is_empty().then_some(parts)
}

fn state_found(entry: &BucketEntry, value: Value) -> Result<FoundState, LinkError> {
    let value = match value {
        Value::Nil => return Ok(FoundState::Here(untouched(&entry.limit))),
        Value::BulkString(value) => value,
        other => return Err(garbled("a state", &other)),
    };
    if let Some((_, state)) = entry.brought.as_ref().filter(|(raw, _)| *raw == value) {
        return Ok(FoundState::Here(state.clone()));
    }
    let here = match &entry.limit {
        Limit::Meter(meter) => own_state(meter, &value, &entry.text)?,
        Limit::Log(_) => log_state(&value)?,
    };
    Ok(here.map_or(FoundState::Other(value), FoundState::Here))
}

/// A state under the entry's own text.
fn own_state(meter: &Meter, value: &[u8], text: &str) -> Result<Option<State>, LinkError> {
    match state_and_text(value) {
        Some((pair, written)) if written == text.as_bytes() => {
            let state = read(meter, pair).ok_or_else(|| LinkError::Garbled("a state that is none".into()))?;
            Ok(Some(state))
        }
        _ => Ok(None),
    }
}

/// What a script says of a log that is under the entry's own text begins with a zero, as no text does.
fn log_state(value: &[u8]) -> Result<Option<State>, LinkError> {
    let Some((0, told)) = value.split_first() else { return Ok(None) };
    let told = whole_numbers::<3>(told).ok_or_else(|| LinkError::Garbled("what a log says".into()))?;
    let counted = u32::try_from(told[0]).map_err(|_| LinkError::Garbled("what counts in a log".into()))?;
    Ok(Some(State::Log(LogState {
        counted,
        empty_at: nanos_of(told[1]),
        fits_at: nanos_of(told[2]),
        entries: Vec::new(),
    })))
}

fn untouched(limit: &Limit) -> State {
    match limit {
        Limit::Meter(_) => State::Word(0),
        Limit::Log(_) => State::Log(LogState::default()),
    }
}

/// The two numbers of a value, and its text.
pub(crate) fn state_and_text(value: &[u8]) -> Option<((u64, u64), &[u8])> {
    let (pair, text) = value.split_at_checked(16)?;
    let [first, second] = whole_numbers::<2>(pair)?;
    Some(((first, second), text))
}

/// The text of a log that was found under another one, and its entries, oldest first.
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

fn number(part: &Value) -> Result<u64, LinkError> {
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
    use crate::BucketKey;
    use crate::link::CallVerb;
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
            brought: None,
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
        assert_eq!((answer.at, answer.said), (Nanos::new(1_800_000_000_000_005_000), CallOutcome::Done));
        assert_eq!(answer.found[0], FoundState::Here(State::Word(0)));
        let value = [2_f64.to_le_bytes(), 7_f64.to_le_bytes()].concat();
        let all = [b"1800000000 5 1 0\n".as_slice(), &value, b"x 1"].concat();
        let answer = decode(&call(&bucket), bulk(&all)).unwrap();
        assert_eq!(answer.found[0], FoundState::Here(State::Word(2_000_000_007)));
        assert_eq!(answer.said, CallOutcome::Refused);
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
