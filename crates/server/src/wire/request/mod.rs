//! Parses a request in JSON, and a line of a trace. Text is borrowed from the input where possible.

use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, Visitor};
use serde::{Deserialize, de};
use serde_json::value::RawValue;
use tidegate::Nanos;
use tidegate_policy::{Credential, Request};

use super::RequestError;
use super::pairs::PairList;
use super::table::{self, FIELDS, FieldTarget, RequestField};

/// A line of a trace: a request and its time.
#[derive(Debug)]
pub struct TraceLine<'a> {
    /// `at_ms`, as time since the epoch.
    pub at: Nanos,
    /// The text of `at_ms`.
    pub at_text: &'a str,
    /// The request.
    pub request: Request<'a>,
}

/// Parses a request.
///
/// # Errors
/// When it is not a request.
pub fn request(text: &str) -> Result<Request<'_>, RequestError> {
    let mut request = Request::new();
    read(text, false, &mut request)?;
    Ok(request)
}

/// Parses a line of a trace.
///
/// # Errors
/// When it is not a request with a time.
pub fn trace_line(text: &str) -> Result<TraceLine<'_>, RequestError> {
    let mut line = TraceLine { at: Nanos::ZERO, at_text: "", request: Request::new() };
    let at = read(text, true, &mut line.request)?;
    let missing = || RequestError {
        message: "`at_ms` is missing: the time of the request in milliseconds".into(),
        column: 1,
    };
    (line.at, line.at_text) = at.ok_or_else(missing)?;
    Ok(line)
}

/// The member with the time of a request in a trace.
const AT_MS: &str = "at_ms";

type At<'a> = Option<(Nanos, &'a str)>;

fn read<'a>(text: &'a str, with_time: bool, request: &mut Request<'a>) -> Result<At<'a>, RequestError> {
    let mut at = None;
    whole_object(text, Members { request, at: &mut at, with_time })?;
    Ok(at)
}

/// Parses a text that is one JSON object.
pub(super) fn whole_object<'de, V: Visitor<'de>>(
    text: &'de str,
    visitor: V,
) -> Result<V::Value, RequestError> {
    let mut json = serde_json::Deserializer::from_str(text);
    let read = json.deserialize_map(visitor).and_then(|read| json.end().map(|()| read));
    read.map_err(|error| RequestError::of(&error))
}

/// Deserializes a nested request in place.
pub(super) struct NestedRequest<'m, 'de>(pub(super) &'m mut Request<'de>);

impl<'de> DeserializeSeed<'de> for NestedRequest<'_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_map(Members { request: self.0, at: &mut None, with_time: false })
    }
}

/// Deserializes the members into an existing request. A `Request` is large, and moving it would cost as much as parsing
/// it.
struct Members<'m, 'de> {
    request: &'m mut Request<'de>,
    at: &'m mut At<'de>,
    with_time: bool,
}

impl<'de> Visitor<'de> for Members<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a request: a JSON object")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<(), M::Error> {
        let mut seen = 0_u32;
        // The caller of an API is trusted to say what the headers are.
        self.request.headers_trusted = true;
        while let Some(TextValue(name)) = map.next_key::<TextValue<'de>>()? {
            let field = RequestField::of_member(&name);
            if field.is_none() && !(self.with_time && name == AT_MS) {
                return Err(unknown(&name, self.with_time));
            }
            let bit = 1 << field.map_or(FIELDS.len(), |(number, _)| number);
            if seen & bit != 0 {
                return Err(M::Error::custom(format!("`{name}` is there twice")));
            }
            seen |= bit;
            match field {
                Some((_, field)) => read_field(field, &name, &mut map, self.request)?,
                None => *self.at = Some(value(&mut map, &name, at_ms)?),
            }
        }
        Ok(())
    }
}

fn read_field<'de, M: MapAccess<'de>>(
    field: &RequestField,
    name: &str,
    map: &mut M,
    request: &mut Request<'de>,
) -> Result<(), M::Error> {
    let count = request.headers.len() + request.jwt.len() + request.descriptors.len();
    match field.target(request) {
        FieldTarget::Text(target) | FieldTarget::Parameter(target) => *target = text(map, name)?,
        FieldTarget::Address(target) => *target = text(map, name)?.map(address).transpose()?,
        FieldTarget::Credential(target) => *target = value(map, name, credential)?,
        FieldTarget::Pairs(target) => {
            map.next_value_seed(PairList::new(target, count)).map_err(|error| at(name, &error))?;
        }
        FieldTarget::Cost(target) => *target = value(map, name, table::cost)?,
        FieldTarget::Priority(target) => *target = Some(value(map, name, table::priority)?),
        FieldTarget::Trust(target) => *target = Some(value(map, name, table::trust)?),
    }
    Ok(())
}

fn unknown<E: Error>(name: &str, with_time: bool) -> E {
    let time = if with_time { ", at_ms" } else { "" };
    let members = table::members();
    let near = tidegate_document::nearest(name, members.iter().copied());
    let hint = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
    E::custom(format!("unknown member `{}`; a request has {}{time}{hint}", cut(name), members.join(", ")))
}

/// The value of a member that is text; `None` for null. A whole number counts as its digits, for a client may well
/// keep its users as numbers.
pub(super) fn text<'de, M: MapAccess<'de>>(
    map: &mut M,
    name: &str,
) -> Result<Option<Cow<'de, str>>, M::Error> {
    let raw = map.next_value::<&'de RawValue>().map_err(|e| at(name, &e))?.get();
    match raw.as_bytes() {
        b"null" => Ok(None),
        // Most texts have no escapes; the JSON between the quotes is already validated.
        [b'"', between @ .., b'"'] if !between.contains(&b'\\') => {
            Ok(Some(Cow::Borrowed(&raw[1..raw.len() - 1])))
        }
        [b'"', ..] => serde_json::from_str(raw).map(|TextValue(text)| Some(text)).map_err(|e| at(name, &e)),
        [b'-', digits @ ..] | digits if digits.iter().all(u8::is_ascii_digit) => Ok(Some(Cow::Borrowed(raw))),
        _ => Err(M::Error::custom(format!("`{name}`: {} is neither text nor a whole number", cut(raw)))),
    }
}

fn address<E: Error>(text: Cow<'_, str>) -> Result<IpAddr, E> {
    let wrong = || E::custom(format!("`ip`: `{}` is not an IP address; write it as 203.0.113.7", cut(&text)));
    table::address(&text).ok_or_else(wrong)
}

/// An error within a member, with the position cut off.
pub(super) fn at<E: Error>(name: &str, error: &impl fmt::Display) -> E {
    let message = error.to_string();
    E::custom(format!("`{name}`: {}", message.split(" at line ").next().unwrap_or_default()))
}

/// Parses a value from its JSON text, so that numbers are not rounded.
pub(super) fn value<'de, M: MapAccess<'de>, T>(
    map: &mut M,
    name: &str,
    parse: impl FnOnce(&'de str) -> Result<T, &'static str>,
) -> Result<T, M::Error> {
    let text = map.next_value::<&RawValue>().map_err(|e| at(name, &e))?.get();
    parse(text).map_err(|want| M::Error::custom(format!("`{name}`: {} is not {want}", cut(text))))
}

/// The beginning of a client's text, for error messages.
pub(super) fn cut(text: &str) -> Cow<'_, str> {
    const LETTERS_SHOWN: usize = 40;
    match text.char_indices().nth(LETTERS_SHOWN) {
        Some((end, _)) => Cow::Owned(format!("{}…", &text[..end])),
        None => Cow::Borrowed(text),
    }
}

fn credential(text: &str) -> Result<Credential, &'static str> {
    let word = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
    word.and_then(Credential::parse).ok_or("\"none\", \"valid\", \"invalid\" or \"unknown_key\"")
}

fn at_ms(text: &str) -> Result<(Nanos, &str), &'static str> {
    const WANT: &str = "a number of milliseconds, 0 or more, with at most three decimals";
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(part) || part.len() > 3 {
        return Err(WANT);
    }
    let digit = |index: usize| part.as_bytes().get(index).map_or(0, |b| u64::from(b - b'0'));
    let micros = digit(0) * 100 + digit(1) * 10 + digit(2);
    let nanos = whole.parse::<u64>().ok().and_then(|millis| millis.checked_mul(1_000_000));
    let nanos = nanos.and_then(|nanos| nanos.checked_add(micros * 1_000));
    let at = nanos.map(Nanos::new).filter(|at| *at <= Nanos::END);
    at.map(|at| (at, text)).ok_or("a time before 2060, in milliseconds since the epoch")
}

/// A JSON string, borrowed if it has no escapes.
pub(super) struct TextValue<'a>(pub(super) Cow<'a, str>);

impl<'de> Deserialize<'de> for TextValue<'de> {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        struct TextVisitor;
        impl<'de> Visitor<'de> for TextVisitor {
            type Value = TextValue<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("text in quotes")
            }

            fn visit_borrowed_str<E: de::Error>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(TextValue(Cow::Borrowed(text)))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
                Ok(TextValue(Cow::Owned(text.to_owned())))
            }
        }
        json.deserialize_str(TextVisitor)
    }
}

#[cfg(test)]
mod tests;
