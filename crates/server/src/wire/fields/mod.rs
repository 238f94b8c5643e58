//! Builds a request from pairs of field and value, as in `TG.CHECK` and `tidegate check`.

use std::borrow::Cow;

use tidegate_document::nearest;
use tidegate_policy::{Credential, Request};

use super::table::{self, FieldTarget, RequestField};

/// Why a field cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FieldError {
    /// The field is unknown.
    #[error("unknown field '{}'{}", shown(name), hint(name))]
    Unknown {
        /// As it was written.
        name: String,
    },
    /// A field that may occur once occurs again.
    #[error("'{name}' is there twice")]
    Twice {
        /// The field.
        name: String,
    },
    /// `route` cannot be set: it is derived from the path.
    #[error("'route' follows from the path; give 'path' instead")]
    Route,
    /// The value is invalid for the field.
    #[error("'{name}': '{}' is not {want}", shown(value))]
    Value {
        /// The field.
        name: &'static str,
        /// As it was written.
        value: String,
        /// What is expected.
        want: &'static str,
    },
}

/// A name or value of a client for an error message: escaped and shortened.
fn shown(text: &str) -> String {
    const SHOWN_MAX: usize = 64;
    let mut shown: String = text.chars().take(SHOWN_MAX).flat_map(char::escape_debug).collect();
    if text.chars().nth(SHOWN_MAX).is_some() {
        shown.push_str("...");
    }
    shown
}

fn hint(name: &str) -> String {
    let (prefix, rest) = match name.split_once(':') {
        Some((prefix, rest)) => (format!("{prefix}:"), rest),
        None => (name.to_owned(), ""),
    };
    let names = table::pair_names();
    match nearest(&prefix, names.iter().copied()) {
        Some(near) if *near == prefix => format!("; write '{near}<name>', without blanks"),
        Some(near) => format!("; did you mean '{near}{}'?", shown(rest)),
        None => format!("; fields are {}", names.join(", ")),
    }
}

/// A request that is built field by field.
#[derive(Clone, Debug, Default)]
pub struct RequestFields<'a> {
    request: Request<'a>,
    has_cost: bool,
    has_credential: bool,
}

impl<'a> RequestFields<'a> {
    /// An empty request.
    pub fn new() -> RequestFields<'a> {
        RequestFields::default()
    }

    /// Sets a field: a descriptor, the whole `query`, `priority`, `cost` or `trust`. Headers, claims, query parameters and
    /// descriptors may occur several times; a whole query must come before its parameters.
    ///
    /// # Errors
    /// When the field is unknown or already set, or the value is invalid for it.
    pub fn set(&mut self, name: &'a str, value: &'a str) -> Result<(), FieldError> {
        let Some((field, own_name)) = RequestField::of_pair(name) else {
            let unknown = FieldError::Unknown { name: name.to_owned() };
            return Err(if name == "route" { FieldError::Route } else { unknown });
        };
        let twice = || FieldError::Twice { name: name.to_owned() };
        let wrong =
            |want| FieldError::Value { name: field.pair.unwrap_or_default(), value: value.to_owned(), want };
        match field.target(&mut self.request) {
            FieldTarget::Text(target) => once(target, Cow::Borrowed(value)).ok_or_else(twice)?,
            FieldTarget::Address(target) => {
                let address = table::address(value).ok_or_else(|| wrong("an address such as 203.0.113.7"))?;
                once(target, address).ok_or_else(twice)?;
            }
            FieldTarget::Trust(target) => {
                once(target, table::trust(value).map_err(wrong)?).ok_or_else(twice)?
            }
            FieldTarget::Priority(target) => {
                once(target, table::priority(value).map_err(wrong)?).ok_or_else(twice)?
            }
            FieldTarget::Cost(_) if self.has_cost => return Err(twice()),
            FieldTarget::Cost(target) => {
                *target = table::cost(value).map_err(wrong)?;
                self.has_cost = true;
            }
            FieldTarget::Credential(_) if self.has_credential => return Err(twice()),
            FieldTarget::Credential(target) => {
                *target =
                    Credential::parse(value).ok_or_else(|| wrong("none, valid, invalid or unknown_key"))?;
                self.has_credential = true;
            }
            FieldTarget::Pairs(pairs) => pairs.push((Cow::Borrowed(own_name), Cow::Borrowed(value))),
            FieldTarget::Parameter(query) => {
                append_parameter(query.get_or_insert_default().to_mut(), own_name, value);
            }
        }
        Ok(())
    }

    /// The request.
    pub fn into_request(self) -> Request<'a> {
        // The caller of an API is trusted to say what the headers are.
        Request { headers_trusted: true, ..self.request }
    }
}

/// Sets a value that is not set yet; `None` if it is.
fn once<T>(target: &mut Option<T>, value: T) -> Option<()> {
    target.is_none().then(|| *target = Some(value))
}

/// Appends a percent-encoded parameter to a query.
fn append_parameter(query: &mut String, name: &str, value: &str) {
    if !query.is_empty() {
        query.push('&');
    }
    encode(query, name);
    query.push('=');
    encode(query, value);
}

fn encode(query: &mut String, text: &str) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            query.push(char::from(byte));
        } else {
            query.push('%');
            query.push(char::from(DIGITS[usize::from(byte >> 4)]));
            query.push(char::from(DIGITS[usize::from(byte & 15)]));
        }
    }
}

#[cfg(test)]
mod tests;
