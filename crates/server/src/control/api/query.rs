//! The parameters in the query of a request, checked by the table of its route.

use jiff::Timestamp;
use serde_json::{Value, json};
use tidegate::Nanos;

use super::ApiError;

/// A parameter in the query.
#[derive(Debug)]
pub(crate) struct QueryField {
    /// Its name.
    pub(crate) name: &'static str,
    /// What it takes.
    pub(crate) kind: QueryKind,
    /// What it does.
    pub(crate) about: &'static str,
}

/// What a parameter takes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum QueryKind {
    /// Any text of at most [`QUERY_TEXT_MAX`] characters.
    Text,
    /// A whole number in a range.
    Integer(u64, u64),
    /// A time, as in RFC 3339.
    Time,
    /// One of some words, and it must be given.
    NeededWord(&'static [&'static str]),
}

/// The longest text of a parameter, in characters.
pub(crate) const QUERY_TEXT_MAX: usize = 1_024;
/// How many entries a page has by default, and at most.
pub(crate) const PAGE_DEFAULT: u64 = 100;
pub(crate) const PAGE_MAX: u64 = 1_000;

/// The parameters of every list.
pub(crate) const PAGE: &[QueryField] = &[
    QueryField {
        name: "limit",
        kind: QueryKind::Integer(1, PAGE_MAX),
        about: "How many entries; 100 without it.",
    },
    QueryField { name: "cursor", kind: QueryKind::Text, about: "The `next` of the page before." },
    QueryField { name: "q", kind: QueryKind::Text, about: "Only entries that contain this text." },
];

/// The parameter of every write of a new version.
pub(crate) const REASON: &[QueryField] = &[QueryField {
    name: "reason",
    kind: QueryKind::Text,
    about: "Why, for the audit. Also the header `X-Reason`.",
}];

impl QueryKind {
    /// Its JSON Schema.
    pub(crate) fn schema(self) -> Value {
        match self {
            QueryKind::Text => json!({ "type": "string", "minLength": 1, "maxLength": QUERY_TEXT_MAX }),
            QueryKind::Integer(least, most) => {
                json!({ "type": "integer", "minimum": least, "maximum": most })
            }
            QueryKind::Time => json!({ "type": "string", "format": "date-time" }),
            QueryKind::NeededWord(words) => {
                json!({ "type": "string", "enum": words })
            }
        }
    }

    /// Must it be given?
    pub(crate) fn is_needed(self) -> bool {
        matches!(self, QueryKind::NeededWord(_))
    }

    /// What is wrong with a value, if anything.
    fn check(self, value: &str) -> Option<String> {
        match self {
            _ if value.is_empty() => Some("it is empty".to_owned()),
            QueryKind::Text => {
                let is_long = value.chars().count() > QUERY_TEXT_MAX;
                is_long.then(|| format!("it is longer than {QUERY_TEXT_MAX} characters"))
            }
            QueryKind::Integer(least, most) => {
                let is_right = value.parse().is_ok_and(|number: u64| (least..=most).contains(&number));
                (!is_right).then(|| format!("it must be a whole number from {least} to {most}"))
            }
            QueryKind::Time => (parse_time(value).is_none())
                .then(|| "it must be a time such as 2027-01-01T00:00:00Z".to_owned()),
            QueryKind::NeededWord(words) => {
                (!words.contains(&value)).then(|| format!("it must be one of {}", words.join(", ")))
            }
        }
    }
}

/// A time by RFC 3339, from 1970 on.
pub(crate) fn parse_time(text: &str) -> Option<Nanos> {
    let nanos = text.parse::<Timestamp>().ok()?.as_nanosecond();
    u64::try_from(nanos).ok().map(Nanos::new)
}

/// The parameters of a request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Query(Vec<(&'static str, String)>);

impl Query {
    /// Parses and checks a query.
    ///
    /// # Errors
    /// At the first parameter that is unknown, given twice or has a value that it does not take.
    pub(super) fn parse(text: &str, fields: &[&'static QueryField]) -> Result<Query, ApiError> {
        let mut seen: Vec<(&'static str, String)> = Vec::new();
        for (name, value) in form_urlencoded::parse(text.as_bytes()) {
            let Some(field) = fields.iter().find(|field| field.name == name) else {
                let known: Vec<&str> = fields.iter().map(|field| field.name).collect();
                return Err(ApiError::parameter(&name, unknown(&known)));
            };
            if seen.iter().any(|(name, _)| *name == field.name) {
                return Err(ApiError::parameter(field.name, "it is given twice".to_owned()));
            }
            if let Some(wrong) = field.kind.check(&value) {
                return Err(ApiError::parameter(field.name, wrong));
            }
            seen.push((field.name, value.into_owned()));
        }
        Ok(Query(seen))
    }

    /// The value of a parameter.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(seen, _)| *seen == name).map(|(_, value)| value.as_str())
    }

    /// The value of a parameter that takes a number.
    pub(crate) fn integer(&self, name: &str) -> Option<u64> {
        self.get(name)?.parse().ok()
    }

    /// The value of a parameter that takes a time.
    pub(crate) fn time(&self, name: &str) -> Option<Nanos> {
        parse_time(self.get(name)?)
    }

    /// How many entries a page has.
    pub(crate) fn page_length(&self) -> usize {
        self.integer("limit").unwrap_or(PAGE_DEFAULT) as usize
    }
}

fn unknown(known: &[&str]) -> String {
    match known {
        [] => "this route has no parameters".to_owned(),
        known => format!("it is not known here; the parameters are {}", known.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_checked_before_anything_is_done() {
        let fields: Vec<&'static QueryField> = PAGE.iter().collect();
        let query = Query::parse("limit=7&q=a+b%21", &fields).unwrap();
        assert_eq!((query.page_length(), query.get("q"), query.get("cursor")), (7, Some("a b!"), None));
        for wrong in ["limit=0", "limit=1001", "limit=x", "limit=1&limit=1", "q=", "other=1"] {
            assert!(Query::parse(wrong, &fields).is_err(), "{wrong}");
        }
        assert!(Query::parse("q=1", &[]).is_err());
        assert_eq!(Query::default().page_length(), 100);
    }

    #[test]
    fn times_are_of_rfc_3339() {
        assert_eq!(parse_time("1970-01-01T00:00:01Z"), Some(Nanos::SECOND));
        assert!(["2027-01-01", "now", "1969-12-31T23:59:59Z"].iter().all(|text| parse_time(text).is_none()));
    }
}
