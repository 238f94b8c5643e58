//! Reads a parameter of a query strictly: what can be read in two ways is a fault.

use std::borrow::Cow;

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
        if *decode(key) != *name.as_bytes() {
            continue;
        }
        let value = decode(value);
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

/// Decodes `%20` and `+`. A `%` that begins no escape stays as it is.
fn decode(text: &str) -> Cow<'_, [u8]> {
    if !text.bytes().any(|byte| byte == b'%' || byte == b'+') {
        return Cow::Borrowed(text.as_bytes());
    }
    let digit = |byte: u8| (byte as char).to_digit(16).map(|digit| digit as u8);
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [byte, tail @ ..] = rest {
        rest = tail;
        match (byte, tail) {
            (b'+', _) => bytes.push(b' '),
            (b'%', [high, low, after @ ..]) => match digit(*high).zip(digit(*low)) {
                Some((high, low)) => {
                    bytes.push(high * 16 + low);
                    rest = after;
                }
                None => bytes.push(b'%'),
            },
            _ => bytes.push(*byte),
        }
    }
    Cow::Owned(bytes)
}
