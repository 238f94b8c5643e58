//! Reads a parameter of a query strictly: what can be read in two ways is a fault.

use std::borrow::Cow;

use crate::request::decoded_bytes;

/// Why a parameter has no usable value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueryFault {
    /// It is there more than once, with different values.
    Contradiction,
    /// It is not UTF-8 once it is decoded.
    NotUtf8,
}

/// The only value of a parameter, decoded; `None` if the parameter is not there. A query may repeat it with the same
/// value.
///
/// # Errors
/// When it has no usable value.
pub fn single_query_value<'q>(query: &'q str, name: &str) -> Result<Option<Cow<'q, str>>, QueryFault> {
    let query = query.strip_prefix('?').unwrap_or(query);
    // Nothing after `#` belongs to the query.
    let query = query.split('#').next().unwrap_or_default();
    let mut found: Option<Cow<'q, [u8]>> = None;
    for pair in query.split('&') {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        if *decoded_bytes(key) != *name.as_bytes() {
            continue;
        }
        let value = decoded_bytes(value);
        if found.as_ref().is_some_and(|found| *found != value) {
            return Err(QueryFault::Contradiction);
        }
        found = Some(value);
    }
    let text = match found {
        None => return Ok(None),
        Some(Cow::Borrowed(bytes)) => std::str::from_utf8(bytes).ok().map(Cow::Borrowed),
        Some(Cow::Owned(bytes)) => String::from_utf8(bytes).ok().map(Cow::Owned),
    };
    text.map(Some).ok_or(QueryFault::NotUtf8)
}
