//! `name=value` pairs as the JSON of a request.

use serde_json::{Map, Value};
use tidegate::Cost;
use tidegate_policy::{Credential, Pairs, Request};

use crate::wire::{FIELDS, FieldError, FieldTarget, RequestField, RequestFields};

/// The request that pairs of names and values make, by the same rules as those of `TG.CHECK`.
///
/// # Errors
/// When a name is unknown, what can be there once is there twice, or a value is not what its name takes.
pub(crate) fn question<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>) -> Result<Value, FieldError> {
    let mut fields = RequestFields::new();
    for (name, value) in pairs {
        fields.set(name, value)?;
    }
    Ok(Value::Object(members(fields.into_request())))
}

fn members(mut request: Request<'_>) -> Map<String, Value> {
    let told = |field: &RequestField| Some((field.json?.to_owned(), told(field.place(&mut request))?));
    FIELDS.iter().filter_map(told).collect()
}

/// What a field says, if it says anything.
fn told(place: FieldTarget<'_, '_>) -> Option<Value> {
    Some(match place {
        FieldTarget::Text(text) | FieldTarget::Parameter(text) => Value::from(text.as_deref()?),
        FieldTarget::Address(address) => Value::from((*address)?.to_string()),
        FieldTarget::Credential(Credential::None) => return None,
        FieldTarget::Credential(credential) => Value::from(credential.as_str()),
        FieldTarget::Pairs(pairs) if pairs.is_empty() => return None,
        FieldTarget::Pairs(pairs) => map(pairs),
        FieldTarget::Cost(cost) if *cost == Cost::ONE => return None,
        FieldTarget::Cost(cost) => Value::from(cost.get()),
        FieldTarget::Trust(trust) => Value::from(f64::from((*trust)?.hundredths()) / 100.0),
    })
}

/// A name that is there several times has a list.
fn map(pairs: &Pairs<'_>) -> Value {
    let mut members = Map::new();
    for (name, _) in pairs {
        let same = pairs.iter().filter(|(other, _)| other == name);
        let mut values: Vec<Value> = same.map(|(_, value)| Value::from(&**value)).collect();
        let value = if values.len() == 1 { values.remove(0) } else { values.into() };
        members.insert(name.as_ref().to_owned(), value);
    }
    members.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(text: &str) -> impl Iterator<Item = (&str, &str)> {
        text.split_whitespace().map(|pair| pair.split_once('=').unwrap())
    }

    fn asked(text: &str) -> Result<String, FieldError> {
        question(pairs(text)).map(|value| value.to_string())
    }

    #[test]
    fn nothing_is_lost_on_the_way_to_json() {
        let all = "tenant=t user=42 client=c ip=203.0.113.7 plan=p method=GET host=h path=/a query=a=b domain=d \
                   cost=3 trust=0.29 header:x-api-key=k header:x-api-key=l jwt:sub=42 descriptor:generic_key=x \
                   query:q=c&d";
        let json = asked(all).unwrap();
        let mut fields = RequestFields::new();
        pairs(all).for_each(|(name, value)| fields.set(name, value).unwrap());
        let expected = fields.into_request();
        assert_eq!(expected.query.as_deref(), Some("a=b&q=c%26d"));
        assert_eq!(crate::wire::request(&json).unwrap(), expected);
        assert_eq!(asked("ip:address=::1").unwrap(), r#"{"ip":"::1"}"#);
        assert_eq!(asked("").unwrap(), "{}");
    }

    #[test]
    fn what_is_wrong_is_told() {
        for (text, said) in [
            ("usr=1", "did you mean 'user'?"),
            ("cost=many", "'cost': 'many' is not an integer"),
            ("user=1 user=2", "'user' is there twice"),
            ("route=/a", "give 'path' instead"),
        ] {
            assert!(asked(text).unwrap_err().to_string().contains(said), "{text}");
        }
    }
}
