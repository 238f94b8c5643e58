//! A request as fields and values, as `TG.CHECK` and the command line write it.

use std::borrow::Cow;

use tidegate_document::nearest;
use tidegate_policy::{Credential, Request};

use super::table::{self, FieldTarget, RequestField};

/// Why a field cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FieldError {
    /// There is no such field.
    #[error("unknown field '{}'{}", shown(name), hint(name))]
    Unknown {
        /// As it was written.
        name: String,
    },
    /// A field that can only be there once is there again.
    #[error("'{name}' is there twice")]
    Twice {
        /// The field.
        name: String,
    },
    /// `route` is not told but found.
    #[error("'route' follows from the path; give 'path' instead")]
    Route,
    /// The value is not what the field takes.
    #[error("'{name}': '{}' is not {want}", shown(value))]
    Value {
        /// The field.
        name: &'static str,
        /// As it was written.
        value: String,
        /// What it takes.
        want: &'static str,
    },
}

/// Names and values are a client's: what is shown of them is escaped, and short.
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

/// A request that is put together field by field.
#[derive(Clone, Debug, Default)]
pub struct RequestFields<'a> {
    request: Request<'a>,
    has_cost: bool,
    has_credential: bool,
}

impl<'a> RequestFields<'a> {
    /// Of which nothing is known.
    pub fn new() -> RequestFields<'a> {
        RequestFields::default()
    }

    /// Sets a field: a descriptor, `query` as a whole, `cost` or `trust`. Headers, claims, query
    /// parameters and descriptors may come several times; a whole query comes before its parameters.
    ///
    /// # Errors
    /// When there is no such field, when it is there already, or does not take the value.
    pub fn set(&mut self, name: &'a str, value: &'a str) -> Result<(), FieldError> {
        let Some((field, own_name)) = RequestField::of_pair(name) else {
            let unknown = FieldError::Unknown { name: name.to_owned() };
            return Err(if name == "route" { FieldError::Route } else { unknown });
        };
        let twice = || FieldError::Twice { name: name.to_owned() };
        let wrong =
            |want| FieldError::Value { name: field.pair.unwrap_or_default(), value: value.to_owned(), want };
        match field.place(&mut self.request) {
            FieldTarget::Text(place) => once(place, Cow::Borrowed(value)).ok_or_else(twice)?,
            FieldTarget::Address(place) => {
                let address = table::address(value).ok_or_else(|| wrong("an address such as 203.0.113.7"))?;
                once(place, address).ok_or_else(twice)?;
            }
            FieldTarget::Trust(place) => {
                once(place, table::trust(value).map_err(wrong)?).ok_or_else(twice)?
            }
            FieldTarget::Cost(_) if self.has_cost => return Err(twice()),
            FieldTarget::Cost(place) => {
                *place = table::cost(value).map_err(wrong)?;
                self.has_cost = true;
            }
            FieldTarget::Credential(_) if self.has_credential => return Err(twice()),
            FieldTarget::Credential(place) => {
                *place = Credential::parse(value).ok_or_else(|| wrong("none, valid or invalid"))?;
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
        self.request
    }
}

/// Puts a value where there is none yet.
fn once<T>(place: &mut Option<T>, value: T) -> Option<()> {
    place.is_none().then(|| *place = Some(value))
}

/// Appends a parameter to a query, encoded so that it is read as it was written.
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
