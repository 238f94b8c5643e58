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
    /// The JSON of `id`, which the decision repeats.
    pub id: Option<&'a str>,
    /// The request.
    pub request: Request<'a>,
}

/// Parses a request.
///
/// # Errors
/// When it is not a request.
pub fn request(text: &str) -> Result<Request<'_>, RequestError> {
    let mut request = Request::new();
    whole_object(text, Members { request: &mut request, trace: None })?;
    Ok(request)
}

/// Parses a line of a trace.
///
/// # Errors
/// When it is not a request with a time.
pub fn trace_line(text: &str) -> Result<TraceLine<'_>, RequestError> {
    let mut line = TraceLine { at: Nanos::ZERO, at_text: "", id: None, request: Request::new() };
    let mut trace = TraceMembers::default();
    whole_object(text, Members { request: &mut line.request, trace: Some(&mut trace) })?;
    let missing = || RequestError {
        message: "`at_ms` is missing: the time of the request in milliseconds".into(),
        column: 1,
    };
    (line.at, line.at_text) = trace.at.ok_or_else(missing)?;
    line.id = trace.id;
    Ok(line)
}

/// The members that only a line of a trace has: the time of the request, and a name for it.
const TRACE_MEMBERS: [&str; 2] = ["at_ms", "id"];

/// The longest `id` of a line.
const ID_BYTES_MAX: usize = 256;

#[derive(Default)]
struct TraceMembers<'a> {
    at: Option<(Nanos, &'a str)>,
    id: Option<&'a str>,
}

impl<'de> TraceMembers<'de> {
    fn read<M: MapAccess<'de>>(&mut self, name: &str, map: &mut M) -> Result<(), M::Error> {
        match name {
            "id" => self.id = Some(value(map, name, id)?),
            _ => self.at = Some(value(map, name, at_ms)?),
        }
        Ok(())
    }
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
        json.deserialize_map(Members { request: self.0, trace: None })
    }
}

/// Deserializes the members into an existing request. A `Request` is large, and moving it would cost as much as parsing
/// it.
struct Members<'m, 'de> {
    request: &'m mut Request<'de>,
    /// For a line of a trace.
    trace: Option<&'m mut TraceMembers<'de>>,
}

impl<'de> Visitor<'de> for Members<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a request: a JSON object")
    }

    fn visit_map<M: MapAccess<'de>>(mut self, mut map: M) -> Result<(), M::Error> {
        let mut seen = 0_u32;
        // The caller of an API is trusted to say what the headers are.
        self.request.headers_trusted = true;
        while let Some(TextValue(name)) = map.next_key::<TextValue<'de>>()? {
            let field = RequestField::of_member(&name);
            let of_trace = || TRACE_MEMBERS.iter().position(|member| *member == name);
            let number = match (field, &self.trace) {
                (Some((number, _)), _) => Some(number),
                (None, Some(_)) => of_trace().map(|number| FIELDS.len() + number),
                (None, None) => None,
            };
            let bit = 1 << number.ok_or_else(|| unknown(&name, self.trace.is_some()))?;
            if seen & bit != 0 {
                return Err(M::Error::custom(format!("`{name}` is there twice")));
            }
            seen |= bit;
            match field {
                Some((_, field)) => read_field(field, &name, &mut map, self.request)?,
                None => self.trace.iter_mut().try_for_each(|trace| trace.read(&name, &mut map))?,
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

fn unknown<E: Error>(name: &str, is_trace: bool) -> E {
    let mut members = table::members();
    members.extend(TRACE_MEMBERS.iter().filter(|_| is_trace));
    let near = tidegate_document::nearest(name, members.iter().copied());
    let hint = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
    E::custom(format!("unknown member `{}`; a request has {}{hint}", cut(name), members.join(", ")))
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

fn id(text: &str) -> Result<&str, &'static str> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let is_id = (text.starts_with('"') || is_number) && text.len() <= ID_BYTES_MAX;
    is_id.then_some(text).ok_or("text or a whole number, of at most 256 bytes")
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
