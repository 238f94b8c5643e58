//! A request as JSON, and a line of a trace. Text is borrowed where it can be.

use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, Visitor};
use serde::{Deserialize, de};
use serde_json::value::RawValue;
use tidegate::{Cost, Nanos};
use tidegate_policy::{Credential, Request, Trust};

use super::RequestError;
use super::pairs::PairList;

/// A line of a trace: a request, and when it came.
#[derive(Debug)]
pub struct TraceLine<'a> {
    /// `at_ms`, as time since the epoch.
    pub at: Nanos,
    /// `at_ms` as it was written.
    pub at_text: &'a str,
    /// The request.
    pub request: Request<'a>,
}

const MEMBERS: &[&str] = &[
    "tenant",
    "user",
    "client",
    "ip",
    "plan",
    "method",
    "host",
    "path",
    "query",
    "headers",
    "jwt",
    "credential",
    "descriptors",
    "domain",
    "cost",
    "trust",
];

/// Reads a request.
///
/// # Errors
/// When it is none.
pub fn request(text: &str) -> Result<Request<'_>, RequestError> {
    let mut request = Request::new();
    read(text, false, &mut request)?;
    Ok(request)
}

/// Reads a line of a trace.
///
/// # Errors
/// When it is none.
pub fn trace_line(text: &str) -> Result<TraceLine<'_>, RequestError> {
    let mut line = TraceLine { at: Nanos::ZERO, at_text: "", request: Request::new() };
    let at = read(text, true, &mut line.request)?;
    let missing =
        || RequestError { message: "`at_ms` is missing: when did the request come?".into(), column: 1 };
    (line.at, line.at_text) = at.ok_or_else(missing)?;
    Ok(line)
}

type At<'a> = Option<(Nanos, &'a str)>;

fn read<'a>(text: &'a str, with_time: bool, request: &mut Request<'a>) -> Result<At<'a>, RequestError> {
    let mut json = serde_json::Deserializer::from_str(text);
    let mut at = None;
    let members = Members { request, at: &mut at, with_time };
    members.deserialize(&mut json).and_then(|()| json.end()).map_err(|error| RequestError::of(&error))?;
    Ok(at)
}

/// A request within something else, read to where it belongs.
pub(super) struct Within<'m, 'de>(pub(super) &'m mut Request<'de>);

impl<'de> DeserializeSeed<'de> for Within<'_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        Members { request: self.0, at: &mut None, with_time: false }.deserialize(json)
    }
}

/// A member of a request, or of a line of a trace.
#[derive(Clone, Copy)]
enum Member {
    Tenant,
    User,
    Client,
    Ip,
    Plan,
    Method,
    Host,
    Path,
    Query,
    Headers,
    Jwt,
    Credential,
    Descriptors,
    Domain,
    Cost,
    Trust,
    AtMs,
}

impl Member {
    fn named(name: &str) -> Option<Member> {
        Some(match name {
            "tenant" => Member::Tenant,
            "user" => Member::User,
            "client" => Member::Client,
            "ip" => Member::Ip,
            "plan" => Member::Plan,
            "method" => Member::Method,
            "host" => Member::Host,
            "path" => Member::Path,
            "query" => Member::Query,
            "headers" => Member::Headers,
            "jwt" => Member::Jwt,
            "credential" => Member::Credential,
            "descriptors" => Member::Descriptors,
            "domain" => Member::Domain,
            "cost" => Member::Cost,
            "trust" => Member::Trust,
            "at_ms" => Member::AtMs,
            _ => return None,
        })
    }
}

/// Reads the members to where they belong: a request is large, and moving it about would cost as
/// much as reading it.
struct Members<'m, 'de> {
    request: &'m mut Request<'de>,
    at: &'m mut At<'de>,
    with_time: bool,
}

impl<'de> DeserializeSeed<'de> for Members<'_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Members<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a request: a JSON object")
    }

    fn visit_map<M: MapAccess<'de>>(mut self, mut map: M) -> Result<(), M::Error> {
        let mut seen = 0_u32;
        while let Some(Text(name)) = map.next_key::<Text<'de>>()? {
            let known =
                Member::named(&name).filter(|member| self.with_time || !matches!(member, Member::AtMs));
            let Some(member) = known else { return Err(unknown(&name, self.with_time)) };
            if seen & 1 << member as u32 != 0 {
                return Err(M::Error::custom(format!("`{name}` is there twice")));
            }
            seen |= 1 << member as u32;
            self.read(member, &name, &mut map)?;
        }
        Ok(())
    }
}

impl<'de> Members<'_, 'de> {
    fn read<M: MapAccess<'de>>(&mut self, member: Member, name: &str, map: &mut M) -> Result<(), M::Error> {
        let request = &mut *self.request;
        match member {
            Member::Tenant => request.tenant = text(map, name)?,
            Member::User => request.user = text(map, name)?,
            Member::Client => request.client = text(map, name)?,
            Member::Plan => request.plan = text(map, name)?,
            Member::Method => request.method = text(map, name)?,
            Member::Host => request.host = text(map, name)?,
            Member::Path => request.path = text(map, name)?,
            Member::Query => request.query = text(map, name)?,
            Member::Domain => request.domain = text(map, name)?,
            Member::Ip => request.ip = text(map, name)?.map(address).transpose()?,
            Member::Cost => request.cost = value(map, name, cost)?,
            Member::Credential => request.credential = value(map, name, credential)?,
            Member::Trust => request.trust = Some(value(map, name, trust)?),
            Member::Headers | Member::Jwt | Member::Descriptors => pairs(map, member, name, request)?,
            Member::AtMs => *self.at = Some(value(map, name, at_ms)?),
        }
        Ok(())
    }
}

fn pairs<'de, M: MapAccess<'de>>(
    map: &mut M,
    member: Member,
    name: &str,
    request: &mut Request<'de>,
) -> Result<(), M::Error> {
    let there = request.headers.len() + request.jwt.len() + request.descriptors.len();
    let into = match member {
        Member::Headers => &mut request.headers,
        Member::Jwt => &mut request.jwt,
        _ => &mut request.descriptors,
    };
    map.next_value_seed(PairList::new(into, there)).map_err(|e| at(name, &e))
}

fn unknown<E: Error>(name: &str, with_time: bool) -> E {
    let time = if with_time { ", at_ms" } else { "" };
    let near = tidegate_policy::nearest(name, MEMBERS.iter().copied());
    let hint = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
    E::custom(format!("unknown member `{}`; a request has {}{time}{hint}", cut(name), MEMBERS.join(", ")))
}

fn text<'de, M: MapAccess<'de>>(map: &mut M, name: &str) -> Result<Option<Cow<'de, str>>, M::Error> {
    map.next_value::<Option<Text<'de>>>().map(|text| text.map(|text| text.0)).map_err(|e| at(name, &e))
}

fn address<E: Error>(text: Cow<'_, str>) -> Result<IpAddr, E> {
    let wrong = || E::custom(format!("`ip`: `{}` is no address; write it as 203.0.113.7", cut(&text)));
    text.parse().map(|ip: IpAddr| ip.to_canonical()).map_err(|_| wrong())
}

/// An error within a member.
pub(super) fn at<E: Error>(name: &str, error: &impl fmt::Display) -> E {
    let said = error.to_string();
    E::custom(format!("`{name}`: {}", said.split(" at line ").next().unwrap_or_default()))
}

/// A number, read from its text so that nothing is rounded.
pub(super) fn value<'de, M: MapAccess<'de>, T>(
    map: &mut M,
    name: &str,
    parse: impl FnOnce(&'de str) -> Result<T, &'static str>,
) -> Result<T, M::Error> {
    let text = map.next_value::<&RawValue>().map_err(|e| at(name, &e))?.get();
    parse(text).map_err(|want| M::Error::custom(format!("`{name}`: {} is not {want}", cut(text))))
}

/// As much of what was written as it takes to see which it was.
pub(super) fn cut(text: &str) -> Cow<'_, str> {
    const LETTERS_SHOWN: usize = 40;
    match text.char_indices().nth(LETTERS_SHOWN) {
        Some((end, _)) => Cow::Owned(format!("{}…", &text[..end])),
        None => Cow::Borrowed(text),
    }
}

pub(super) fn cost(text: &str) -> Result<Cost, &'static str> {
    text.parse::<u32>().map(Cost::new).map_err(|_| "an integer from 0 to 4294967295")
}

fn credential(text: &str) -> Result<Credential, &'static str> {
    let word = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
    word.and_then(Credential::parse).ok_or("\"none\", \"valid\" or \"invalid\"")
}

fn trust(text: &str) -> Result<Trust, &'static str> {
    Trust::parse(text).ok_or("a number from 0 to 1, such as 0.8")
}

fn at_ms(text: &str) -> Result<(Nanos, &str), &'static str> {
    const WANT: &str = "a number of milliseconds from 0 on, with at most three decimals";
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(part) || part.len() > 3 {
        return Err(WANT);
    }
    let digit = |place: usize| part.as_bytes().get(place).map_or(0, |b| u64::from(b - b'0'));
    let micros = digit(0) * 100 + digit(1) * 10 + digit(2);
    let nanos = whole.parse::<u64>().ok().and_then(|millis| millis.checked_mul(1_000_000));
    let nanos = nanos.and_then(|nanos| nanos.checked_add(micros * 1_000));
    let at = nanos.map(Nanos::new).filter(|at| *at <= Nanos::END);
    at.map(|at| (at, text)).ok_or("a time before 2060, in milliseconds since the epoch")
}

/// Text, borrowed if it has no escapes.
pub(super) struct Text<'a>(pub(super) Cow<'a, str>);

impl<'de> Deserialize<'de> for Text<'de> {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        struct TextVisitor;
        impl<'de> Visitor<'de> for TextVisitor {
            type Value = Text<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("text in quotes")
            }

            fn visit_borrowed_str<E: de::Error>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Borrowed(text)))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }
        }
        json.deserialize_str(TextVisitor)
    }
}

#[cfg(test)]
mod tests;
