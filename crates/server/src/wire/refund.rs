//! Parses a refund: `{"request":…,"cost":n}`.

use std::fmt;

use serde::de::{Error, MapAccess, Visitor};
use tidegate::Cost;
use tidegate_policy::Request;

use super::RequestError;
use super::request::{NestedRequest, TextValue, at, cut, value, whole_object};
use super::table::cost;

/// A refund.
#[derive(Debug)]
pub struct Refund<'a> {
    /// The request whose limits get the tokens back.
    pub request: Request<'a>,
    /// The number of tokens.
    pub cost: Cost,
}

/// Parses a refund.
///
/// # Errors
/// When it is not a refund.
pub fn refund(text: &str) -> Result<Refund<'_>, RequestError> {
    whole_object(text, RefundVisitor)
}

struct RefundVisitor;

impl<'de> Visitor<'de> for RefundVisitor {
    type Value = Refund<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a refund: {\"request\":…,\"cost\":n}")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
        let (mut request, mut tokens) = (Request::new(), None);
        let mut has_request = false;
        while let Some(TextValue(name)) = map.next_key::<TextValue<'de>>()? {
            let twice = match &*name {
                "request" => std::mem::replace(&mut has_request, true),
                "cost" => tokens.is_some(),
                _ => {
                    let known = format!("unknown member `{}`; a refund has request, cost", cut(&name));
                    return Err(M::Error::custom(known));
                }
            };
            if twice {
                return Err(M::Error::custom(format!("`{name}` is there twice")));
            }
            if name == "cost" {
                tokens = Some(value(&mut map, &name, cost)?);
            } else {
                map.next_value_seed(NestedRequest(&mut request)).map_err(|error| at(&name, &error))?;
            }
        }
        if !has_request {
            return Err(M::Error::custom("`request` is missing: the request whose tokens are refunded"));
        }
        let cost =
            tokens.ok_or_else(|| M::Error::custom("`cost` is missing: the number of tokens to refund"))?;
        Ok(Refund { request, cost })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_members_are_read_in_any_order() {
        for text in [r#"{"request":{"user":"a"},"cost":3}"#, r#"{"cost":3,"request":{"user":"a"}}"#] {
            let refund = refund(text).unwrap();
            assert_eq!((refund.request.user.as_deref(), refund.cost), (Some("a"), Cost::new(3)));
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, what, field) in [
            ("{}", "`request` is missing", Some("request")),
            (r#"{"request":{}}"#, "`cost` is missing", Some("cost")),
            (r#"{"request":{"cost":0.5},"cost":1}"#, "0.5 is not an integer", Some("request.cost")),
            (r#"{"request":{},"cost":18446744073709551616}"#, "is not an integer", Some("cost")),
            (r#"{"request":{},"cost":1e400}"#, "1e400 is not an integer", Some("cost")),
            (r#"{"request":{},"cost":NaN}"#, "`cost`: ", Some("cost")),
            (r#"{"request":{},"cost":1,"cost":1}"#, "`cost` is there twice", Some("cost")),
            (r#"{"request":{},"request":{}}"#, "`request` is there twice", Some("request")),
            (r#"{"user":"a"}"#, "unknown member `user`", Some("user")),
            ("7", "a refund", None),
        ] {
            let error = refund(text).expect_err(text);
            assert!(error.to_string().contains(what), "{text}: {error}");
            assert_eq!(error.field().as_deref(), field, "{text}: {error}");
        }
    }
}
