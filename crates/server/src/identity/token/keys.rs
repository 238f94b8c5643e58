//! The keys that verify tokens, loaded from the settings or a JWKS file. `ring` does the cryptography.

use std::path::Path;

use ring::hmac;
use ring::signature::{self, RsaPublicKeyComponents, UnparsedPublicKey};

use super::algorithm::{JwsAlgorithm, KeyKind};
use super::jws::{Jws, Payload};
use super::{der, jwk};
use crate::identity::{IdentityError, Rejection};
use crate::settings::JwtKey;

/// Maximum size of a JWKS file.
const FILE_BYTES_MAX: u64 = 1_024 * 1_024;
/// Maximum number of keys in a set.
const KEYS_MAX: usize = 64;
/// Allowed sizes of the modulus of an RSA key, in bits.
const RSA_BITS: std::ops::RangeInclusive<usize> = 2_048..=8_192;
/// Maximum size of its exponent in bytes; larger ones only make verification slow.
const RSA_EXPONENT_BYTES_MAX: usize = 4;

/// A key and its algorithms. A token is never verified by another algorithm, whatever its header requests.
pub(crate) struct VerificationKey {
    pub(crate) id: Option<String>,
    pub(crate) key: PublicKey,
    pub(crate) algorithms: Vec<JwsAlgorithm>,
}

/// The key material that verifies a signature.
pub(crate) enum PublicKey {
    Secret(Box<[u8]>),
    Rsa(RsaPublicKeyComponents<Box<[u8]>>),
    P256(UnparsedPublicKey<Box<[u8]>>),
    P384(UnparsedPublicKey<Box<[u8]>>),
    Ed25519(UnparsedPublicKey<Box<[u8]>>),
}

/// All keys.
pub(crate) struct VerificationKeys(Vec<VerificationKey>);

impl VerificationKeys {
    /// Loads the keys that the settings name.
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
            return Err(no_keys(format!("the file is larger than {FILE_BYTES_MAX} bytes")));
        }
        let text = std::fs::read(file).map_err(unreadable)?;
        let set =
            jwk::read(&text).map_err(|error| no_keys(format!("this is not a JSON Web Key Set: {error}")))?;
        for why in &set.unusable {
            tracing::warn!(file = %file.display(), "skipping an unusable key: {why}");
        }
        let keys = set.keys;
        if keys.is_empty() {
            let why: String = set.unusable.iter().map(|why| format!("; {why}")).collect();
            return Err(no_keys(format!("none of its {} keys can verify signatures{why}", set.total)));
        }
        if keys.len() > KEYS_MAX {
            return Err(no_keys(format!("it has {} keys; at most {KEYS_MAX} are allowed", keys.len())));
        }
        for (index, key) in keys.iter().enumerate() {
            let rival = |other: &&VerificationKey| key.id == other.id && key.overlaps(other);
            if let (Some(id), true) = (&key.id, keys[..index].iter().any(|other| rival(&other))) {
                let why = format!(
                    "two of its keys have the `kid` {id:?} and the same algorithm; give each its own"
                );
                return Err(no_keys(why));
            }
        }
        Ok(VerificationKeys(keys))
    }

    /// The payload of a token, if the one key that fits it verifies its signature. If no key or more than one fits, no
    /// check is made, so a client with invalid tokens cannot cause more than one check per token. `may_check` is called
    /// before an expensive check (not HMAC).
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

    /// The key with this id; without an id in the token or the keys, the only key for the algorithm.
    fn named(&self, id: Option<&str>, algorithm: JwsAlgorithm) -> Option<&VerificationKey> {
        let fitting = || self.0.iter().filter(|key| key.algorithms.contains(&algorithm));
        let exact = fitting().find(|key| id.is_some() && key.id.as_deref() == id);
        // A token that names a key is never verified by a key with another name.
        let mut unnamed = fitting().filter(|key| id.is_none() || key.id.is_none());
        exact.or_else(|| unnamed.next().filter(|_| unnamed.next().is_none()))
    }
}

impl VerificationKey {
    /// Do both keys have an algorithm in common?
    fn overlaps(&self, other: &VerificationKey) -> bool {
        self.algorithms.iter().any(|algorithm| other.algorithms.contains(algorithm))
    }
}

impl PublicKey {
    /// A key from its bytes: a secret, or a point on a curve.
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
            KeyKind::Rsa => unreachable!("`PublicKey::rsa` makes RSA keys"),
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
                "an RSA key of {bits} bits; {} to {} bits are allowed",
                RSA_BITS.start(),
                RSA_BITS.end()
            ));
        }
        let is_odd = |number: &[u8]| number.last().is_some_and(|last| last % 2 == 1);
        if !is_odd(&n) || !is_odd(&e) || *e == [1] || e.len() > RSA_EXPONENT_BYTES_MAX {
            return Err("an RSA key with an invalid modulus or exponent".to_owned());
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

/// Parses a public key in PEM that must have this type.
fn public_key(text: &str, wanted: KeyKind) -> Result<PublicKey, String> {
    let (label, bytes) = der::pem(text).ok_or("it is not PEM text (`-----BEGIN PUBLIC KEY-----`)")?;
    let (kind, key) = match label {
        "PUBLIC KEY" => der::public_key_info(&bytes).ok_or("its type of key is not supported")?,
        "RSA PUBLIC KEY" => (KeyKind::Rsa, &*bytes),
        private if private.ends_with("PRIVATE KEY") => {
            return Err("it is a private key; use the public key".to_owned());
        }
        other => return Err(format!("it is a {other}, not a PUBLIC KEY")),
    };
    match kind {
        _ if kind != wanted => Err(format!("it is a key of another type ({kind:?})")),
        KeyKind::Rsa => {
            let (modulus, exponent) = der::rsa_public_key(key).ok_or("it is not a valid RSA key")?;
            PublicKey::rsa(modulus, exponent)
        }
        kind => Ok(PublicKey::new(kind, key)),
    }
}
