//! Splits a token into its three parts (RFC 7515, compact form). The signature is not verified here.

use std::borrow::Cow;
use std::collections::HashMap;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde_json::value::RawValue;

/// The claims of a token by name, as raw JSON.
pub(crate) type Payload = HashMap<String, Box<RawValue>>;

/// An unverified token.
pub(crate) struct Jws<'t> {
    /// `alg` of its header.
    pub(crate) algorithm: String,
    /// `kid` of its header.
    pub(crate) key_id: Option<String>,
    /// The signed bytes: header and payload.
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
    /// Names of extensions that a verifier must understand. None is implemented here.
    #[serde(default)]
    crit: Option<serde::de::IgnoredAny>,
}

impl<'t> Jws<'t> {
    /// `None` if it is not a token, or requires an extension (`crit`).
    pub(crate) fn parse(token: &'t [u8]) -> Option<Jws<'t>> {
        let mut dots = token.iter().enumerate().filter(|(_, byte)| **byte == b'.').map(|(index, _)| index);
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

    /// Its claims. Do not use them before the signature is verified.
    pub(crate) fn payload(&self) -> Option<Payload> {
        serde_json::from_slice(&decode(self.payload)?).ok()
    }
}

/// Decodes base64url strictly, without padding, so that each value has only one spelling.
pub(crate) fn decode(text: &[u8]) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text).ok()
}
