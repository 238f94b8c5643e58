//! Parses a batch of requests: `{"requests":[…]}`.

use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use tidegate_policy::Request;

use super::RequestError;
use super::request::{NestedRequest, TextValue, at, cut, whole_object};
use crate::bounds::BATCH_MAX;

/// Parses a batch.
///
/// # Errors
/// When it is not a batch. An error within a request names its index, from zero.
pub fn batch(text: &str) -> Result<Vec<Request<'_>>, RequestError> {
    whole_object(text, Batch)
}

/// Iterates over a batch that [`batch`] has already checked. It parses each request again when it is needed, so that a
/// batch that is decided slowly keeps only its text in memory.
#[derive(Clone, Copy, Debug, Default)]
pub struct BatchReader {
    /// Bytes that are already consumed.
    consumed: usize,
}

impl BatchReader {
    /// A reader that has skipped `count` requests.
    pub fn after(text: &str, count: usize) -> BatchReader {
        let mut reader = BatchReader::default();
        reader.requests(text).take(count).for_each(drop);
        reader
    }

    /// The remaining requests, parsed one by one. The text must have passed [`batch`].
    pub fn requests<'t>(&mut self, text: &'t str) -> impl Iterator<Item = Request<'t>> + Send + use<'_, 't> {
        std::iter::from_fn(move || {
            // The list is the only member, so the first bracket is its own.
            let begins = if self.consumed == 0 { text.find('[')? + 1 } else { self.consumed };
            let rest = text[begins..].trim_start_matches([' ', '\n', '\r', '\t', ',']);
            if rest.starts_with(']') {
                return None;
            }
            let mut objects = serde_json::Deserializer::from_str(rest).into_iter::<One<'t>>();
            let One(request) = objects.next()?.ok()?;
            self.consumed = text.len() - rest.len() + objects.byte_offset();
            Some(request)
        })
    }
}

/// One request of the list.
struct One<'a>(Request<'a>);

impl<'de> Deserialize<'de> for One<'de> {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        let mut request = Request::new();
        NestedRequest(&mut request).deserialize(json)?;
        Ok(One(request))
    }
}

struct Batch;

impl<'de> Visitor<'de> for Batch {
    type Value = Vec<Request<'de>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a batch: {\"requests\":[…]}")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
        let mut requests = None;
        while let Some(TextValue(name)) = map.next_key::<TextValue<'de>>()? {
            if name != "requests" {
                let unknown = format!("unknown member `{}`; a batch has only `requests`", cut(&name));
                return Err(M::Error::custom(unknown));
            }
            if requests.is_some() {
                return Err(M::Error::custom("`requests` is there twice"));
            }
            requests = Some(map.next_value_seed(Requests)?);
        }
        requests.ok_or_else(|| M::Error::custom("`requests` is missing: a list of requests"))
    }
}

struct Requests;

impl<'de> DeserializeSeed<'de> for Requests {
    type Value = Vec<Request<'de>>;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Self::Value, D::Error> {
        json.deserialize_seq(self).map_err(|error| {
            let message = error.to_string();
            // An error within a request already names its index.
            if message.starts_with('`') { D::Error::custom(message) } else { at("requests", &message) }
        })
    }
}

impl<'de> Visitor<'de> for Requests {
    type Value = Vec<Request<'de>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of requests")
    }

    fn visit_seq<S: SeqAccess<'de>>(self, mut list: S) -> Result<Self::Value, S::Error> {
        let mut requests = Vec::new();
        loop {
            let mut request = Request::new();
            let index = requests.len();
            let read = list.next_element_seed(NestedRequest(&mut request));
            if read.map_err(|error| at(&format!("requests[{index}]"), &error))?.is_none() {
                return Ok(requests);
            }
            if index == BATCH_MAX {
                return Err(S::Error::custom(format!("`requests`: there are more than {BATCH_MAX}")));
            }
            requests.push(request);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_come_in_order() {
        let read = batch(r#"{"requests":[{"user":"a"},{"user":"b","cost":2}]}"#).unwrap();
        let users: Vec<&str> = read.iter().filter_map(|request| request.user.as_deref()).collect();
        assert_eq!(users, ["a", "b"]);
        assert!(batch(r#"{"requests":[]}"#).unwrap().is_empty());
    }

    #[test]
    fn they_can_be_read_again_one_by_one() {
        let odd = " { \"re\\u0071uests\" : [ {\"user\":\"]}[{,\\\"\"} ,\n{}\t, {\"headers\":{\"a\":[\"1\",\"2\"]}} ,{\"cost\":3}] } ";
        for text in [odd, r#"{"requests":[]}"#, r#"{"requests":[{"user":"a"},{"user":"b","cost":2}]}"#] {
            let all = batch(text).unwrap();
            for at_a_time in 1..=3 {
                let (mut reader, mut read) = (BatchReader::default(), Vec::new());
                loop {
                    let before = read.len();
                    read.extend(reader.requests(text).take(at_a_time));
                    if read.len() == before {
                        break;
                    }
                }
                assert_eq!(format!("{read:?}"), format!("{all:?}"), "{text}");
            }
        }
    }

    #[test]
    fn what_is_wrong_names_the_place() {
        for (text, what, field) in [
            ("{}", "`requests` is missing", Some("requests")),
            ("[]", "a batch", None),
            (r#"{"requests":{}}"#, "`requests`: ", Some("requests")),
            (r#"{"requests":[],"requests":[]}"#, "`requests` is there twice", Some("requests")),
            (r#"{"request":[]}"#, "unknown member `request`", Some("request")),
            (r#"{"requests":[{},{"cost":-1}]}"#, "-1 is not an integer", Some("requests[1].cost")),
            (r#"{"requests":[{"usr":1}]}"#, "unknown member `usr`", Some("requests[0].usr")),
            (r#"{"requests":[7]}"#, "`requests[0]`: ", Some("requests[0]")),
            (r#"{"requests":[{}]} x"#, "trailing characters", None),
            (r#"{"requests":[{}"#, "EOF", Some("requests[1]")),
        ] {
            let error = batch(text).expect_err(text);
            assert!(error.to_string().contains(what), "{text}: {error}");
            assert_eq!(error.field().as_deref(), field, "{text}: {error}");
        }
    }

    #[test]
    fn there_is_an_end() {
        let of = |count: usize| format!("{{\"requests\":[{}]}}", vec!["{}"; count].join(","));
        assert_eq!(batch(&of(BATCH_MAX)).unwrap().len(), BATCH_MAX);
        let error = batch(&of(BATCH_MAX + 1)).unwrap_err();
        assert_eq!(error.to_string(), "`requests`: there are more than 1000");
    }
}
