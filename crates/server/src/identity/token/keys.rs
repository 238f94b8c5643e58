//! What tokens are verified with: `ring` does the verifying.

use std::path::Path;

use ring::hmac;
use ring::signature::{self, RsaPublicKeyComponents, UnparsedPublicKey};

use super::algorithm::{JwsAlgorithm, KeyKind};
use super::jws::{Jws, Payload};
use super::{der, jwk};
use crate::identity::{IdentityError, Rejection};
use crate::settings::JwtKey;

/// Bytes of a file with keys.
const FILE_BYTES_MAX: u64 = 1_024 * 1_024;
/// Keys of a set.
const KEYS_MAX: usize = 64;
/// Bits of the modulus of an RSA key.
const RSA_BITS: std::ops::RangeInclusive<usize> = 2_048..=8_192;
/// Bytes of its exponent; larger ones only make verifying slow.
const RSA_EXPONENT_BYTES_MAX: usize = 4;

/// A key, and the algorithms that it is for. A token is never verified by another one, whatever it
/// asks for.
pub(crate) struct VerificationKey {
    pub(crate) id: Option<String>,
    pub(crate) key: PublicKey,
    pub(crate) algorithms: Vec<JwsAlgorithm>,
}

/// What verifies.
pub(crate) enum PublicKey {
    Secret(Box<[u8]>),
    Rsa(RsaPublicKeyComponents<Box<[u8]>>),
    P256(UnparsedPublicKey<Box<[u8]>>),
    P384(UnparsedPublicKey<Box<[u8]>>),
    Ed25519(UnparsedPublicKey<Box<[u8]>>),
}

/// All keys there are.
pub(crate) struct VerificationKeys(Vec<VerificationKey>);

impl VerificationKeys {
    /// As the settings say.
    pub(crate) fn load(from: &JwtKey) -> Result<VerificationKeys, IdentityError> {
        match from {
            JwtKey::Jwks(file) => VerificationKeys::read(file),
            JwtKey::Key { key, algorithm } => Ok(VerificationKeys(vec![one_key(key, algorithm)?])),
        }
    }

    fn read(file: &Path) -> Result<VerificationKeys, IdentityError> {
        let no_keys = |why: String| IdentityError::NoKeys { file: file.to_owned(), why };
        let unreadable = |error| IdentityError::Unreadable { file: file.to_owned(), error };
        if std::fs::metadata(file).map_err(unreadable)?.len() > FILE_BYTES_MAX {
            return Err(no_keys(format!("it is larger than {FILE_BYTES_MAX} bytes")));
        }
        let text = std::fs::read(file).map_err(unreadable)?;
        let set = jwk::read(&text).map_err(|error| no_keys(format!("it is no JSON Web Key Set: {error}")))?;
        for why in &set.unusable {
            tracing::warn!(file = %file.display(), "a key is not used: {why}");
        }
        let keys = set.keys;
        if keys.is_empty() {
            let why: String = set.unusable.iter().map(|why| format!("; {why}")).collect();
            return Err(no_keys(format!("of its {} keys none is for verifying signatures{why}", set.there)));
        }
        if keys.len() > KEYS_MAX {
            return Err(no_keys(format!("it has {} keys; at most {KEYS_MAX} are used", keys.len())));
        }
        for (place, key) in keys.iter().enumerate() {
            let rival = |other: &&VerificationKey| key.id == other.id && key.overlaps(other);
            if let (Some(id), true) = (&key.id, keys[..place].iter().any(|other| rival(&other))) {
                let why = format!(
                    "two of its keys have the `kid` {id:?} and the same algorithm; give each its own"
                );
                return Err(no_keys(why));
            }
        }
        Ok(VerificationKeys(keys))
    }

    /// The payload of a token, if the one key that can be meant verifies its signature. A token for which
    /// there is none, or more than one, is verified by none: whoever sends junk must not be able to choose
    /// how much work it makes.
    /// `may_check` is asked before a check that takes long.
    pub(crate) fn payload(
        &self,
        jws: &Jws<'_>,
        may_check: impl FnOnce() -> bool,
    ) -> Result<Payload, Rejection> {
        let algorithm = JwsAlgorithm::named(&jws.algorithm).ok_or(Rejection::UnknownKey)?;
        let key = self.named(jws.key_id.as_deref(), algorithm).ok_or(Rejection::UnknownKey)?;
        if algorithm.kind() != KeyKind::Secret && !may_check() {
            return Err(Rejection::NotChecked);
        }
        if !key.key.verifies(algorithm, jws.message, &jws.signature) {
            return Err(Rejection::BadSignature);
        }
        jws.payload().ok_or(Rejection::Malformed)
    }

    /// The key with this id; where ids do not tell, the only one that can be meant.
    fn named(&self, id: Option<&str>, algorithm: JwsAlgorithm) -> Option<&VerificationKey> {
        let fitting = || self.0.iter().filter(|key| key.algorithms.contains(&algorithm));
        let asked = fitting().find(|key| id.is_some() && key.id.as_deref() == id);
        // A token that names another key is not verified by one that has a name.
        let mut unnamed = fitting().filter(|key| id.is_none() || key.id.is_none());
        asked.or_else(|| unnamed.next().filter(|_| unnamed.next().is_none()))
    }
}

impl VerificationKey {
    /// Is there an algorithm that both are for?
    fn overlaps(&self, other: &VerificationKey) -> bool {
        self.algorithms.iter().any(|algorithm| other.algorithms.contains(algorithm))
    }
}

impl PublicKey {
    /// A key of a kind from its bytes: a point for curves.
    pub(crate) fn new(kind: KeyKind, bytes: &[u8]) -> PublicKey {
        let bytes = Box::from(bytes);
        match kind {
            KeyKind::Secret => PublicKey::Secret(bytes),
            KeyKind::P256 => {
                PublicKey::P256(UnparsedPublicKey::new(&signature::ECDSA_P256_SHA256_FIXED, bytes))
            }
            KeyKind::P384 => {
                PublicKey::P384(UnparsedPublicKey::new(&signature::ECDSA_P384_SHA384_FIXED, bytes))
            }
            KeyKind::Ed25519 => PublicKey::Ed25519(UnparsedPublicKey::new(&signature::ED25519, bytes)),
            KeyKind::Rsa => unreachable!("it has two parts"),
        }
    }

    /// An RSA key from modulus and exponent.
    pub(crate) fn rsa(modulus: &[u8], exponent: &[u8]) -> Result<PublicKey, String> {
        let plain =
            |bytes: &[u8]| -> Box<[u8]> { bytes.iter().copied().skip_while(|byte| *byte == 0).collect() };
        let (n, e) = (plain(modulus), plain(exponent));
        let bits = n.first().map_or(0, |first| n.len() * 8 - first.leading_zeros() as usize);
        if !RSA_BITS.contains(&bits) {
            return Err(format!(
                "an RSA key of {bits} bits; {} to {} are taken",
                RSA_BITS.start(),
                RSA_BITS.end()
            ));
        }
        let is_odd = |number: &[u8]| number.last().is_some_and(|last| last % 2 == 1);
        if !is_odd(&n) || !is_odd(&e) || *e == [1] || e.len() > RSA_EXPONENT_BYTES_MAX {
            return Err("an RSA key whose numbers make none".to_owned());
        }
        Ok(PublicKey::Rsa(RsaPublicKeyComponents { n, e }))
    }

    fn verifies(&self, algorithm: JwsAlgorithm, message: &[u8], signature: &[u8]) -> bool {
        match self {
            PublicKey::Secret(secret) => algorithm.hmac().is_some_and(|digest| {
                hmac::verify(&hmac::Key::new(digest, secret), message, signature).is_ok()
            }),
            PublicKey::Rsa(key) => {
                algorithm.rsa().is_some_and(|rsa| key.verify(rsa, message, signature).is_ok())
            }
            PublicKey::P256(key) | PublicKey::P384(key) | PublicKey::Ed25519(key) => {
                key.verify(message, signature).is_ok()
            }
        }
    }
}

fn one_key(text: &str, name: &str) -> Result<VerificationKey, IdentityError> {
    let algorithm = JwsAlgorithm::named(name).ok_or_else(|| IdentityError::Algorithm(name.to_owned()))?;
    let wrong = |why: &str| IdentityError::Key { algorithm: name.to_owned(), why: why.to_owned() };
    let key = match algorithm.kind() {
        KeyKind::Secret => PublicKey::new(KeyKind::Secret, text.as_bytes()),
        kind => public_key(text, kind).map_err(|why| wrong(&why))?,
    };
    Ok(VerificationKey { id: None, key, algorithms: vec![algorithm] })
}

/// A public key as PEM, of the kind that is wanted.
fn public_key(text: &str, wanted: KeyKind) -> Result<PublicKey, String> {
    let (label, bytes) = der::pem(text).ok_or("it is no PEM text (`-----BEGIN PUBLIC KEY-----`)")?;
    let (kind, key) = match label {
        "PUBLIC KEY" => der::public_key_info(&bytes).ok_or("its kind of key is not known")?,
        "RSA PUBLIC KEY" => (KeyKind::Rsa, &*bytes),
        private if private.ends_with("PRIVATE KEY") => {
            return Err("it is a private key; give the public one".to_owned());
        }
        other => return Err(format!("it is a {other}, not a PUBLIC KEY")),
    };
    match kind {
        _ if kind != wanted => Err(format!("it is a key of another kind ({kind:?})")),
        KeyKind::Rsa => {
            let (modulus, exponent) = der::rsa_public_key(key).ok_or("it cannot be read")?;
            PublicKey::rsa(modulus, exponent)
        }
        kind => Ok(PublicKey::new(kind, key)),
    }
}
