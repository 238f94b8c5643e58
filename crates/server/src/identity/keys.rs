//! What tokens are verified with.

use std::collections::HashMap;
use std::path::Path;
use std::str::FromStr;

use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, JwkSet, KeyOperations, PublicKeyUse};
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey, Header, Validation};
use serde_json::value::RawValue;

use super::IdentityError;
use crate::settings::JwtKey;

/// Bytes of a file with keys.
const FILE_BYTES_MAX: u64 = 1_024 * 1_024;
/// Keys of a set.
const KEYS_MAX: usize = 64;
/// Keys that one token is tried with, where its `kid` does not tell which: who sends bad ones must not
/// make the server verify with all there are.
const TRIES_MAX: usize = 8;

/// A key, and the algorithms that it is for. A token is never verified by another one, whatever it
/// asks for.
struct Key {
    id: Option<String>,
    key: DecodingKey,
    algorithms: Vec<Algorithm>,
}

/// All keys there are.
pub(super) struct Keys(Vec<Key>);

impl Keys {
    /// As the settings say.
    pub(super) fn load(from: &JwtKey) -> Result<Keys, IdentityError> {
        match from {
            JwtKey::Jwks(file) => Keys::read(file),
            JwtKey::Key { key, algorithm } => Ok(Keys(vec![one_key(key, algorithm)?])),
        }
    }

    fn read(file: &Path) -> Result<Keys, IdentityError> {
        let no_keys = |why: String| IdentityError::NoKeys { file: file.to_owned(), why };
        let unreadable = |error| IdentityError::Unreadable { file: file.to_owned(), error };
        if std::fs::metadata(file).map_err(unreadable)?.len() > FILE_BYTES_MAX {
            return Err(no_keys(format!("it is larger than {FILE_BYTES_MAX} bytes")));
        }
        let text = std::fs::read(file).map_err(unreadable)?;
        let set: JwkSet = serde_json::from_slice(&text)
            .map_err(|error| no_keys(format!("it is no JSON Web Key Set: {error}")))?;
        let keys: Vec<Key> = set.keys.iter().filter_map(key_of_set).collect();
        match keys.len() {
            0 => Err(no_keys(format!("of its {} keys none is for verifying signatures", set.keys.len()))),
            1..=KEYS_MAX => Ok(Keys(keys)),
            more => Err(no_keys(format!("it has {more} keys; at most {KEYS_MAX} are used"))),
        }
    }

    /// The payload of a token whose signature one of the keys verifies.
    pub(super) fn payload(&self, token: &[u8]) -> Option<HashMap<String, Box<RawValue>>> {
        let header = jsonwebtoken::decode_header(token).ok()?;
        // What is critical there is nothing that we know.
        if header.crit.is_some() {
            return None;
        }
        let mut fitting = self.0.iter().filter(|key| key.fits(&header));
        fitting.by_ref().take(TRIES_MAX).find_map(|key| {
            let verified = jsonwebtoken::decode(token, &key.key, &signature_only(header.alg));
            verified.ok().map(|token| token.claims)
        })
    }
}

impl Key {
    fn fits(&self, header: &Header) -> bool {
        let same_id = match (&self.id, &header.kid) {
            (Some(own), Some(asked)) => own == asked,
            _ => true,
        };
        same_id && self.algorithms.contains(&header.alg)
    }
}

/// Times, issuer and audience are looked at elsewhere: the library would read the wall clock.
fn signature_only(algorithm: Algorithm) -> Validation {
    let mut validation = Validation::new(algorithm);
    validation.required_spec_claims.clear();
    validation.validate_exp = false;
    validation.validate_nbf = false;
    validation.validate_aud = false;
    validation
}

fn one_key(key: &str, name: &str) -> Result<Key, IdentityError> {
    let algorithm = Algorithm::from_str(name).map_err(|_| IdentityError::Algorithm(name.to_owned()))?;
    let bytes = key.as_bytes();
    let read = match algorithm.family() {
        AlgorithmFamily::Hmac => Ok(DecodingKey::from_secret(bytes)),
        AlgorithmFamily::Rsa => DecodingKey::from_rsa_pem(bytes),
        AlgorithmFamily::Ec => DecodingKey::from_ec_pem(bytes),
        AlgorithmFamily::Ed => DecodingKey::from_ed_pem(bytes),
    };
    let key = read.map_err(|error| IdentityError::Key { algorithm: name.to_owned(), error })?;
    Ok(Key { id: None, key, algorithms: vec![algorithm] })
}

/// A key of a set, unless it is for something else or of a kind that is not known.
fn key_of_set(jwk: &Jwk) -> Option<Key> {
    let common = &jwk.common;
    let signs = common.public_key_use.as_ref().is_none_or(|use_| *use_ == PublicKeyUse::Signature);
    let verifies = common.key_operations.as_ref().is_none_or(|all| all.contains(&KeyOperations::Verify));
    if !signs || !verifies {
        return None;
    }
    let of_kind = match &jwk.algorithm {
        AlgorithmParameters::RSA(_) => AlgorithmFamily::Rsa.algorithms(),
        AlgorithmParameters::OctetKey(_) => AlgorithmFamily::Hmac.algorithms(),
        AlgorithmParameters::EllipticCurve(curve) => match curve.curve {
            EllipticCurve::P256 => &[Algorithm::ES256],
            EllipticCurve::P384 => &[Algorithm::ES384],
            _ => return None,
        },
        AlgorithmParameters::OctetKeyPair(pair) if pair.curve == EllipticCurve::Ed25519 => {
            &[Algorithm::EdDSA]
        }
        _ => return None,
    };
    let algorithms = match common.key_algorithm {
        None => of_kind.to_vec(),
        Some(named) => {
            let named = Algorithm::try_from(named).ok()?;
            of_kind.iter().copied().filter(|kind| *kind == named).collect()
        }
    };
    let key = DecodingKey::from_jwk(jwk).ok()?;
    (!algorithms.is_empty()).then(|| Key { id: common.key_id.clone(), key, algorithms })
}
