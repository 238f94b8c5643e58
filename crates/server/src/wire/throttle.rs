//! Parses a request for an ad hoc bucket, whose numbers the client sends:
//! `{"key":"user:1","capacity":10,"rate":100,"window":"60s","cost":1}`.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Error, MapAccess, Visitor};
use tidegate::engine::{AdHocLimit, AdHocRequest};
use tidegate::{Cost, Nanos};

use super::RequestError;
use super::request::{TextValue, at, cut, text, value, whole_object};
use super::table::cost;

/// A request for an ad hoc bucket.
#[derive(Debug, PartialEq, Eq)]
pub struct ThrottleBody<'a> {
    /// The key of the bucket; never empty.
    pub key: Cow<'a, str>,
    /// Its numbers, which may not be a valid limit.
    pub limit: AdHocLimit,
    /// The tokens to take.
    pub cost: Cost,
}

impl ThrottleBody<'_> {
    /// The request for the engine.
    pub fn as_request(&self) -> AdHocRequest<'_> {
        AdHocRequest { key: self.key.as_bytes(), limit: self.limit, cost: self.cost.get().into() }
    }
}

/// Parses a request for an ad hoc bucket.
///
/// # Errors
/// When it is not one.
pub fn throttle(text: &str) -> Result<ThrottleBody<'_>, RequestError> {
    whole_object(text, AdHocVisitor)
}

struct AdHocVisitor;

impl<'de> Visitor<'de> for AdHocVisitor {
    type Value = ThrottleBody<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a bucket: {\"key\":…,\"capacity\":n,\"rate\":n,\"window\":\"60s\"}")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
        let (mut key, mut capacity, mut rate, mut window, mut tokens) = (None, None, None, None, None);
        while let Some(TextValue(name)) = map.next_key::<TextValue<'de>>()? {
            let name = &*name;
            let twice = match name {
                "key" => key.replace(some_key(&mut map)?).is_some(),
                "capacity" => capacity.replace(value(&mut map, name, positive::<u32>)?).is_some(),
                "rate" => rate.replace(value(&mut map, name, positive::<u64>)?).is_some(),
                "window" => window.replace(some_window(&mut map)?).is_some(),
                "cost" => tokens.replace(value(&mut map, name, cost)?).is_some(),
                _ => return Err(unknown(name)),
            };
            if twice {
                return Err(M::Error::custom(format!("`{name}` is there twice")));
            }
        }
        let limit = AdHocLimit {
            capacity: capacity.ok_or_else(|| missing("capacity", "the number of tokens in a full bucket"))?,
            rate: rate.ok_or_else(|| missing("rate", "the number of tokens added per window"))?,
            window: window.ok_or_else(|| missing("window", "a duration such as \"60s\""))?,
        };
        let key = key.ok_or_else(|| missing("key", "the name of the bucket, such as \"user:1\""))?;
        Ok(ThrottleBody { key, limit, cost: tokens.unwrap_or(Cost::ONE) })
    }
}

const MEMBERS: [&str; 5] = ["key", "capacity", "rate", "window", "cost"];

fn unknown<E: Error>(name: &str) -> E {
    let near = tidegate_document::nearest(name, MEMBERS);
    let hint = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
    E::custom(format!("unknown member `{}`; a bucket has {}{hint}", cut(name), MEMBERS.join(", ")))
}

fn missing<E: Error>(name: &str, meaning: &str) -> E {
    E::custom(format!("`{name}` is missing: {meaning}"))
}

fn some_key<'de, M: MapAccess<'de>>(map: &mut M) -> Result<Cow<'de, str>, M::Error> {
    let key = text(map, "key")?.unwrap_or_default();
    if key.is_empty() {
        Err(M::Error::custom("`key`: it is empty; write the name of the bucket"))
    } else {
        Ok(key)
    }
}

/// Parses an integer. Zero passes here; the engine refuses it with its own error when it makes the limit.
fn positive<T: TryFrom<u64>>(text: &str) -> Result<T, &'static str> {
    let number = text.parse::<u64>().ok().and_then(|number| T::try_from(number).ok());
    let small = size_of::<T>() == size_of::<u32>();
    number.ok_or(if small { "an integer from 1 to 4294967295" } else { "an integer of at least 1" })
}

fn some_window<'de, M: MapAccess<'de>>(map: &mut M) -> Result<Nanos, M::Error> {
    let TextValue(text) = map.next_value().map_err(|error| at("window", &error))?;
    window(&text).ok_or_else(|| {
        let text = cut(&text);
        M::Error::custom(format!(
            "`window`: `{text}` is not a window; write a duration such as 60s (ms, s, m, h or d), \
             or second, minute, hour, day"
        ))
    })
}

/// Parses a window: a word, or a whole number with its unit.
fn window(text: &str) -> Option<Nanos> {
    let unit_at = text.find(|c: char| !c.is_ascii_digit())?;
    let (digits, unit) = text.split_at(unit_at);
    let unit = match (digits, unit) {
        ("", "second") | (_, "s") => Nanos::SECOND,
        ("", "minute") | (_, "m") => Nanos::MINUTE,
        ("", "hour") | (_, "h") => Nanos::HOUR,
        ("", "day") | (_, "d") => Nanos::DAY,
        (_, "ms") => Nanos::from_millis(1),
        _ => return None,
    };
    let is_word = digits.is_empty() && text.len() > 2;
    let count = if is_word { 1 } else { digits.parse::<u64>().ok()? };
    count.checked_mul(unit.get()).map(Nanos::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_member_is_read() {
        let asked = throttle(r#"{"key":"user:1","capacity":10,"rate":100,"window":"60s","cost":2}"#).unwrap();
        let limit = AdHocLimit { capacity: 10, rate: 100, window: Nanos::MINUTE };
        assert_eq!(asked, ThrottleBody { key: "user:1".into(), limit, cost: Cost::new(2) });
        assert!(matches!(asked.key, Cow::Borrowed(_)), "nothing is copied");
        let plain = throttle(r#"{"window":"minute","rate":100,"capacity":10,"key":"user:1"}"#).unwrap();
        assert_eq!(plain, ThrottleBody { cost: Cost::ONE, ..asked });
    }

    #[test]
    fn windows_are_words_or_durations() {
        for (text, nanos) in [
            ("second", Some(Nanos::SECOND)),
            ("day", Some(Nanos::DAY)),
            ("60s", Some(Nanos::MINUTE)),
            ("5m", Some(Nanos::from_secs(300))),
            ("2h", Some(Nanos::from_secs(7_200))),
            ("1d", Some(Nanos::DAY)),
            ("10ms", Some(Nanos::from_millis(10))),
            ("0s", Some(Nanos::ZERO)),
        ] {
            assert_eq!(window(text), nanos, "{text}");
        }
        for text in ["", "60", "s", "ms", "d", "1.5s", "-1s", "1 s", "2second", "week", "99999999999999d"] {
            assert_eq!(window(text), None, "{text}");
        }
    }

    #[test]
    fn hostile_numbers_are_refused_by_name() {
        for number in ["NaN", "-1", "1e400", "18446744073709551616", "0.5", "\"1\"", "null", "[1]"] {
            for name in ["capacity", "rate", "cost"] {
                let text = format!("{{\"key\":\"k\",\"{name}\":{number}}}");
                let error = throttle(&text).expect_err(&text);
                assert_eq!(error.field().as_deref(), Some(name), "{text}: {error}");
            }
        }
        let long = format!("{{\"cost\":{}}}", "9".repeat(10_000));
        assert!(throttle(&long).unwrap_err().to_string().len() < 200, "it is not sent back whole");
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, what, field) in [
            ("{}", "`capacity` is missing", Some("capacity")),
            (r#"{"key":""}"#, "`key`: it is empty", Some("key")),
            (r#"{"key":1.5}"#, "`key`: 1.5 is neither text nor a whole number", Some("key")),
            (r#"{"window":"fortnight"}"#, "`fortnight` is not a window", Some("window")),
            (r#"{"capcity":1}"#, "did you mean `capacity`?", Some("capcity")),
            (r#"{"rate":1,"rate":1}"#, "`rate` is there twice", Some("rate")),
            (r#"{"capacity":4294967296}"#, "from 1 to 4294967295", Some("capacity")),
            ("[]", "a bucket", None),
        ] {
            let error = throttle(text).expect_err(text);
            assert!(error.to_string().contains(what), "{text}: {error}");
            assert_eq!(error.field().as_deref(), field, "{text}: {error}");
        }
    }
}
