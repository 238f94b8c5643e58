//! Turns `name=value` pairs into the JSON of a request.

use serde_json::{Map, Value};
use tidegate::Cost;
use tidegate_policy::{Credential, Pairs, Request};

use crate::wire::{FIELDS, FieldError, FieldTarget, RequestField, RequestFields};

/// The JSON of the request that these pairs describe, by the same rules as `TG.CHECK`.
///
/// # Errors
/// When a name is unknown, a field that may occur once occurs twice, or a value does not fit its field.
pub(crate) fn request_json<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>) -> Result<Value, FieldError> {
    let mut fields = RequestFields::new();
    for (name, value) in pairs {
        fields.set(name, value)?;
    }
    Ok(Value::Object(members(fields.into_request())))
}

fn members(mut request: Request<'_>) -> Map<String, Value> {
    let member = |field: &RequestField| Some((field.json?.to_owned(), value(field.target(&mut request))?));
    FIELDS.iter().filter_map(member).collect()
}

/// The value of a field as JSON; `None` if the field is not set.
fn value(target: FieldTarget<'_, '_>) -> Option<Value> {
    Some(match target {
        FieldTarget::Text(text) | FieldTarget::Parameter(text) => Value::from(text.as_deref()?),
        FieldTarget::Address(address) => Value::from((*address)?.to_string()),
        FieldTarget::Credential(Credential::None) => return None,
        FieldTarget::Credential(credential) => Value::from(credential.as_str()),
        FieldTarget::Pairs(pairs) if pairs.is_empty() => return None,
        FieldTarget::Pairs(pairs) => map(pairs),
        FieldTarget::Cost(cost) if *cost == Cost::ONE => return None,
        FieldTarget::Cost(cost) => Value::from(cost.get()),
        FieldTarget::Priority(priority) => Value::from((*priority)?.get()),
        FieldTarget::Trust(trust) => Value::from(f64::from((*trust)?.hundredths()) / 100.0),
    })
}

/// A JSON object of the pairs. A name with several values gets a list.
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

    fn json_of(text: &str) -> Result<String, FieldError> {
        request_json(pairs(text)).map(|value| value.to_string())
    }

    #[test]
    fn nothing_is_lost_on_the_way_to_json() {
        let all = "tenant=t user=42 client=c ip=203.0.113.7 plan=p upstream=u method=GET host=h path=/a query=a=b domain=d \
                   priority=9 cost=3 trust=0.29 header:x-api-key=k header:x-api-key=l jwt:sub=42 descriptor:generic_key=x \
                   query:q=c&d";
        let json = json_of(all).unwrap();
        let mut fields = RequestFields::new();
        pairs(all).for_each(|(name, value)| fields.set(name, value).unwrap());
        let expected = fields.into_request();
        assert_eq!(expected.query.as_deref(), Some("a=b&q=c%26d"));
        assert_eq!(crate::wire::request(&json).unwrap(), expected);
        assert_eq!(json_of("ip:address=::1").unwrap(), r#"{"ip":"::1"}"#);
        assert_eq!(json_of("").unwrap(), "{}");
    }

    #[test]
    fn what_is_wrong_is_told() {
        for (text, expected) in [
            ("usr=1", "did you mean 'user'?"),
            ("cost=many", "'cost': 'many' is not an integer"),
            ("user=1 user=2", "'user' is there twice"),
            ("route=/a", "give 'path' instead"),
        ] {
            assert!(json_of(text).unwrap_err().to_string().contains(expected), "{text}");
        }
    }
}
