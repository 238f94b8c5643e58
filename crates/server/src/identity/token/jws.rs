//! A token in its three parts (RFC 7515, compact form), not verified yet.

use std::borrow::Cow;
use std::collections::HashMap;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde_json::value::RawValue;

/// What a verified token says, name by name.
pub(crate) type Payload = HashMap<String, Box<RawValue>>;

/// A token.
pub(crate) struct Jws<'t> {
    /// The algorithm that it asks for.
    pub(crate) algorithm: String,
    /// The key that it names.
    pub(crate) key_id: Option<String>,
    /// What is signed.
    pub(crate) message: &'t [u8],
    payload: &'t [u8],
    pub(crate) signature: Vec<u8>,
}

#[derive(Deserialize)]
struct Header<'h> {
    #[serde(borrow)]
    alg: Cow<'h, str>,
    #[serde(borrow, default)]
    kid: Option<Cow<'h, str>>,
    /// What must be understood, by names of which none is known here.
    #[serde(default)]
    crit: Option<serde::de::IgnoredAny>,
}

impl<'t> Jws<'t> {
    /// `None` if it is no token, or has a header that must be understood and is not.
    pub(crate) fn parse(token: &'t [u8]) -> Option<Jws<'t>> {
        let mut dots = token.iter().enumerate().filter(|(_, byte)| **byte == b'.').map(|(place, _)| place);
        let (first, second) = (dots.next()?, dots.next()?);
        if dots.next().is_some() {
            return None;
        }
        let header = decode(&token[..first])?;
        let header: Header<'_> = serde_json::from_slice(&header).ok()?;
        if header.crit.is_some() {
            return None;
        }
        Some(Jws {
            algorithm: header.alg.into_owned(),
            key_id: header.kid.map(Cow::into_owned),
            message: &token[..second],
            payload: &token[first + 1..second],
            signature: decode(&token[second + 1..])?,
        })
    }

    /// What it says. To be believed only after its signature was verified.
    pub(crate) fn payload(&self) -> Option<Payload> {
        serde_json::from_slice(&decode(self.payload)?).ok()
    }
}

/// The strict alphabet without padding: one text for one value.
pub(crate) fn decode(text: &[u8]) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text).ok()
}
