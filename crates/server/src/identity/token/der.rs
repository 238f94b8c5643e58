//! Parses public keys in PEM and DER.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::algorithm::KeyKind;

const SEQUENCE: u8 = 0x30;
const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const OBJECT: u8 = 0x06;

/// Object identifiers of key types and curves.
const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];
const EC: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];
const P256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];
const P384: &[u8] = &[0x2b, 0x81, 0x04, 0x00, 0x22];
const ED25519: &[u8] = &[0x2b, 0x65, 0x70];

/// The first section of a PEM text: its label and its bytes.
pub(crate) fn pem(text: &str) -> Option<(&str, Vec<u8>)> {
    let (_, rest) = text.split_once("-----BEGIN ")?;
    let (label, rest) = rest.split_once("-----")?;
    let (body, _) = rest.split_once("-----END ")?;
    let body: String = body.split_ascii_whitespace().collect();
    Some((label, STANDARD.decode(body).ok()?))
}

/// The type of a `SubjectPublicKeyInfo`, and the key in it.
pub(crate) fn public_key_info(der: &[u8]) -> Option<(KeyKind, &[u8])> {
    let (info, _) = value(der, SEQUENCE)?;
    let (algorithm, rest) = value(info, SEQUENCE)?;
    let (kind, parameters) = value(algorithm, OBJECT)?;
    let kind = match kind {
        RSA => KeyKind::Rsa,
        ED25519 => KeyKind::Ed25519,
        EC => match value(parameters, OBJECT)?.0 {
            P256 => KeyKind::P256,
            P384 => KeyKind::P384,
            _ => return None,
        },
        _ => return None,
    };
    // The first byte of a bit string is the number of unused bits; keys are whole bytes, so it is 0.
    let (bits, _) = value(rest, BIT_STRING)?;
    Some((kind, bits.strip_prefix(&[0])?))
}

/// Modulus and exponent of an `RSAPublicKey`.
pub(crate) fn rsa_public_key(der: &[u8]) -> Option<(&[u8], &[u8])> {
    let (key, _) = value(der, SEQUENCE)?;
    let (modulus, rest) = value(key, INTEGER)?;
    let (exponent, _) = value(rest, INTEGER)?;
    Some((modulus, exponent))
}

/// The contents of the first element of the input, if it has this tag, and the rest of the input.
fn value(input: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (&found, rest) = input.split_first()?;
    let (&first, rest) = rest.split_first()?;
    // Above 127 it is the number of bytes of the length; no key needs more than two.
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        0x81 => (usize::from(*rest.first()?), &rest[1..]),
        0x82 => (usize::from(u16::from_be_bytes(*rest.first_chunk()?)), &rest[2..]),
        _ => return None,
    };
    (found == tag).then_some(())?;
    rest.split_at_checked(length)
}
