//! Parses the maps of names and values within a request (headers, claims, descriptors). A list of values becomes
//! several pairs with the same name.
//!
//! A name with an escape is copied for each of its values. Without bounds on names, values and their number, a long
//! name with many values would take memory by the product of the two.

use std::borrow::Cow;
use std::fmt;

use serde::de::{self, DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use tidegate_policy::Pairs;

use super::request::{TextValue, at, cut};
use crate::bounds::{NAME_BYTES_MAX, PAIRS_MAX, VALUE_BYTES_MAX};

/// Deserializes a map of names to values into the pairs of a request.
pub(super) struct PairList<'m, 'de> {
    into: &'m mut Pairs<'de>,
    /// How many more pairs the request may have.
    left: usize,
}

impl<'m, 'de> PairList<'m, 'de> {
    /// For a request that already has `count` pairs in all its maps.
    pub(super) fn new(into: &'m mut Pairs<'de>, count: usize) -> PairList<'m, 'de> {
        PairList { into, left: PAIRS_MAX.saturating_sub(count) }
    }

    fn push(&mut self, name: Cow<'de, str>, value: Cow<'de, str>) -> Result<(), String> {
        if value.len() > VALUE_BYTES_MAX {
            return Err(format!("a value is longer than {VALUE_BYTES_MAX} bytes"));
        }
        let more = || format!("a request has at most {PAIRS_MAX} headers, claims and descriptors in all");
        self.left = self.left.checked_sub(1).ok_or_else(more)?;
        self.into.push((name, value));
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for PairList<'_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_option(self)
    }
}

impl<'de> Visitor<'de> for PairList<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of names and values")
    }

    fn visit_none<E: de::Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_some<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_map(self)
    }

    fn visit_map<M: MapAccess<'de>>(mut self, mut map: M) -> Result<(), M::Error> {
        while let Some(TextValue(name)) = map.next_key::<TextValue<'de>>()? {
            let wrong = |problem: &str| M::Error::custom(format!("`{}`: {problem}", cut(&name)));
            if name.len() > NAME_BYTES_MAX {
                return Err(wrong(&format!("a name is longer than {NAME_BYTES_MAX} bytes")));
            }
            let raw = map.next_value::<&'de RawValue>().map_err(|e| at(&cut(&name), &e))?.get();
            each_value(raw, &mut |value| self.push(name.clone(), value))
                .map_err(|problem| wrong(&problem))?;
        }
        Ok(())
    }
}

/// Calls `show` with the text of a value, or of each value of a list: text, numbers, `true` and `false`. It stops at
/// the first error of `show`.
pub(crate) fn each_value<'a>(
    raw: &'a str,
    show: &mut impl FnMut(Cow<'a, str>) -> Result<(), String>,
) -> Result<(), String> {
    if !raw.starts_with('[') {
        return one_value(raw, show);
    }
    let mut refused = None;
    let list = ValueList { show, refused: &mut refused };
    let read = serde_json::Deserializer::from_str(raw).deserialize_seq(list);
    refused.map_or_else(|| read.map_err(|error| error.to_string()), Err)
}

/// Visits the values of a list one by one; collecting them first would take more memory than their text.
struct ValueList<'m, F> {
    show: &'m mut F,
    refused: &'m mut Option<String>,
}

impl<'de, F: FnMut(Cow<'de, str>) -> Result<(), String>> Visitor<'de> for ValueList<'_, F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of values")
    }

    fn visit_seq<S: SeqAccess<'de>>(self, mut list: S) -> Result<(), S::Error> {
        while let Some(item) = list.next_element::<&'de RawValue>()? {
            if let Err(problem) = one_value(item.get(), self.show) {
                *self.refused = Some(problem);
                return Err(S::Error::custom("a value is refused"));
            }
        }
        Ok(())
    }
}

fn one_value<'a>(
    raw: &'a str,
    show: &mut impl FnMut(Cow<'a, str>) -> Result<(), String>,
) -> Result<(), String> {
    match raw.as_bytes() {
        // Most texts have no escapes; the JSON between the quotes is already validated.
        [b'"', between @ .., b'"'] if !between.contains(&b'\\') => {
            show(Cow::Borrowed(&raw[1..raw.len() - 1]))
        }
        [b'"', ..] => show(serde_json::from_str::<TextValue<'_>>(raw).map_err(|e| e.to_string())?.0),
        [b'{' | b'[', ..] => Err("a value is text, a number, true, false, or a list of them".to_owned()),
        b"null" => Ok(()),
        _ => show(Cow::Borrowed(raw)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{RequestError, batch, request};

    fn refusal(text: &str) -> RequestError {
        request(text).expect_err(text)
    }

    #[test]
    fn a_name_is_not_copied_without_end() {
        // The name has an escape, so each value would need a copy of it.
        let name = format!("\\u0061{}", "n".repeat(30_000));
        let values = vec!["1"; 15_000].join(",");
        let hostile = format!("{{\"headers\":{{\"{name}\":[{values}]}}}}");
        let error = refusal(&hostile);
        assert!(error.to_string().contains("a name is longer than 256 bytes"), "{error}");
        assert!(error.to_string().len() < 200, "it is not sent back whole");
        assert!(error.field().is_some_and(|field| field.starts_with("headers.an")), "{error}");
        let error = batch(&format!("{{\"requests\":[{{}},{hostile}]}}")).unwrap_err();
        assert!(error.field().is_some_and(|field| field.starts_with("requests[1].headers.an")), "{error}");
    }

    #[test]
    fn names_values_and_their_number_have_an_end() {
        let of = |name: usize, value: usize| {
            format!("{{\"jwt\":{{\"{}\":\"{}\"}}}}", "n".repeat(name), "v".repeat(value))
        };
        assert_eq!(request(&of(NAME_BYTES_MAX, VALUE_BYTES_MAX)).unwrap().jwt.len(), 1);
        assert!(refusal(&of(NAME_BYTES_MAX + 1, 1)).to_string().contains("a name is longer"));
        let error = refusal(&of(1, VALUE_BYTES_MAX + 1));
        assert_eq!(error.to_string(), "`jwt`: `n`: a value is longer than 4096 bytes");
        let many = |count: usize| {
            let values = vec!["1"; count].join(",");
            format!("{{\"headers\":{{\"a\":\"b\"}},\"descriptors\":{{\"d\":[{values}]}}}}")
        };
        assert_eq!(request(&many(PAIRS_MAX - 1)).unwrap().descriptors.len(), PAIRS_MAX - 1);
        let error = refusal(&many(PAIRS_MAX));
        assert_eq!(error.field().as_deref(), Some("descriptors.d"), "{error}");
        assert!(error.to_string().contains("at most 128"), "{error}");
    }
}
