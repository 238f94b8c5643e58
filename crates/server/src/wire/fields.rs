//! A request as fields and values, as `TG.CHECK` and the command line write it.

use std::borrow::Cow;

use tidegate::Cost;
use tidegate_policy::{Credential, Descriptor, Request, Trust, nearest};

/// The names of fields; those with a colon need something after it.
const NAMES: &[&str] = &[
    "tenant",
    "user",
    "client",
    "ip",
    "plan",
    "method",
    "host",
    "path",
    "query",
    "domain",
    "credential",
    "header:",
    "query:",
    "jwt:",
    "descriptor:",
    "cost",
    "trust",
];

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
    match nearest(&prefix, NAMES.iter().copied()) {
        Some(near) if *near == prefix => format!("; write '{near}<name>', without blanks"),
        Some(near) => format!("; did you mean '{near}{}'?", shown(rest)),
        None => format!("; fields are {}", NAMES.join(", ")),
    }
}

/// A request that is put together field by field.
#[derive(Clone, Debug, Default)]
pub struct Fields<'a> {
    request: Request<'a>,
    has_cost: bool,
    has_credential: bool,
}

impl<'a> Fields<'a> {
    /// Of which nothing is known.
    pub fn new() -> Fields<'a> {
        Fields::default()
    }

    /// Sets a field: a descriptor, `query` as a whole, `cost` or `trust`. Headers, claims, query
    /// parameters and descriptors may come several times; a whole query comes before its parameters.
    ///
    /// # Errors
    /// When there is no such field, when it is there already, or does not take the value.
    pub fn set(&mut self, name: &'a str, value: &'a str) -> Result<(), FieldError> {
        let request = &mut self.request;
        let twice = || FieldError::Twice { name: name.to_owned() };
        match name {
            "cost" if self.has_cost => return Err(twice()),
            "cost" => {
                request.cost = cost(value)?;
                self.has_cost = true;
                return Ok(());
            }
            "trust" => return once(&mut request.trust, trust(value)?, twice),
            "query" => return once(&mut request.query, Cow::Borrowed(value), twice),
            _ => {}
        }
        let descriptor =
            Descriptor::parse(name).ok_or_else(|| FieldError::Unknown { name: name.to_owned() })?;
        let after_colon = || Cow::Borrowed(name.split_once(':').map_or("", |(_, after)| after));
        let text = Cow::Borrowed(value);
        match descriptor {
            Descriptor::Tenant => once(&mut request.tenant, text, twice),
            Descriptor::User => once(&mut request.user, text, twice),
            Descriptor::Client => once(&mut request.client, text, twice),
            Descriptor::Ip => once(&mut request.ip, address(value)?, twice),
            Descriptor::Plan => once(&mut request.plan, text, twice),
            Descriptor::Method => once(&mut request.method, text, twice),
            Descriptor::Host => once(&mut request.host, text, twice),
            Descriptor::Path => once(&mut request.path, text, twice),
            Descriptor::Domain => once(&mut request.domain, text, twice),
            Descriptor::Route => Err(FieldError::Route),
            Descriptor::Credential if self.has_credential => Err(twice()),
            Descriptor::Credential => {
                request.credential = credential(value)?;
                self.has_credential = true;
                Ok(())
            }
            Descriptor::Header(_) => {
                request.headers.push((after_colon(), text));
                Ok(())
            }
            Descriptor::Jwt(_) => {
                request.jwt.push((after_colon(), text));
                Ok(())
            }
            Descriptor::Custom(_) => {
                request.descriptors.push((after_colon(), text));
                Ok(())
            }
            Descriptor::Query(parameter) => {
                append_parameter(request.query.get_or_insert_default().to_mut(), &parameter, value);
                Ok(())
            }
        }
    }

    /// The request.
    pub fn into_request(self) -> Request<'a> {
        self.request
    }
}

fn once<T>(place: &mut Option<T>, value: T, twice: impl FnOnce() -> FieldError) -> Result<(), FieldError> {
    if place.is_some() {
        return Err(twice());
    }
    *place = Some(value);
    Ok(())
}

fn cost(value: &str) -> Result<Cost, FieldError> {
    let wrong = || FieldError::Value {
        name: "cost",
        value: value.to_owned(),
        want: "an integer from 0 to 4294967295",
    };
    // A sign would be read, too.
    let digits = value.bytes().all(|byte| byte.is_ascii_digit());
    value.parse::<u32>().ok().filter(|_| digits).map(Cost::new).ok_or_else(wrong)
}

fn trust(value: &str) -> Result<Trust, FieldError> {
    let wrong = || FieldError::Value {
        name: "trust",
        value: value.to_owned(),
        want: "a number from 0 to 1, such as 0.8",
    };
    Trust::parse(value).ok_or_else(wrong)
}

fn credential(value: &str) -> Result<Credential, FieldError> {
    let wrong =
        || FieldError::Value { name: "credential", value: value.to_owned(), want: "none, valid or invalid" };
    Credential::parse(value).ok_or_else(wrong)
}

fn address(value: &str) -> Result<std::net::IpAddr, FieldError> {
    let wrong =
        || FieldError::Value { name: "ip", value: value.to_owned(), want: "an address such as 203.0.113.7" };
    value.parse().map(|ip: std::net::IpAddr| ip.to_canonical()).map_err(|_| wrong())
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
