//! A JSON Web Key Set (RFC 7517).

use serde::Deserialize;
use serde_json::value::RawValue;

use super::algorithm::{JwsAlgorithm, KeyKind};
use super::jws::decode;
use super::keys::{PublicKey, VerificationKey};

/// A parsed key set.
pub(crate) struct KeySet {
    /// The keys that can verify signatures.
    pub(crate) keys: Vec<VerificationKey>,
    /// What is wrong with keys for signatures that cannot be used.
    pub(crate) unusable: Vec<String>,
    /// The number of keys in the document.
    pub(crate) total: usize,
}

#[derive(Deserialize)]
struct Document {
    keys: Vec<Box<RawValue>>,
}

/// The members of all types of keys.
#[derive(Deserialize)]
struct Jwk {
    kty: String,
    kid: Option<String>,
    #[serde(rename = "use")]
    used_for: Option<String>,
    key_ops: Option<Vec<String>>,
    alg: Option<String>,
    crv: Option<String>,
    x: Option<String>,
    y: Option<String>,
    n: Option<String>,
    e: Option<String>,
    k: Option<String>,
}

/// Parses a key set. Keys that are broken, or have another purpose, are skipped.
pub(crate) fn read(text: &[u8]) -> Result<KeySet, serde_json::Error> {
    let document: Document = serde_json::from_slice(text)?;
    let mut set = KeySet { keys: Vec::new(), unusable: Vec::new(), total: document.keys.len() };
    for (index, key) in document.keys.iter().enumerate() {
        let read = serde_json::from_str(key.get()).map_err(|error| error.to_string());
        match read.and_then(|jwk: Jwk| jwk.key()) {
            Ok(Some(key)) => set.keys.push(key),
            Ok(None) => {}
            Err(why) => set.unusable.push(format!("keys[{index}]: {why}")),
        }
    }
    Ok(set)
}

impl Jwk {
    /// The key; `None` if it has another purpose or an unknown type.
    fn key(&self) -> Result<Option<VerificationKey>, String> {
        let signs = self.used_for.as_deref().is_none_or(|use_| use_ == "sig");
        let verifies = self.key_ops.as_ref().is_none_or(|all| all.iter().any(|use_| use_ == "verify"));
        let kind = match (self.kty.as_str(), self.crv.as_deref()) {
            ("RSA", _) => KeyKind::Rsa,
            ("oct", _) => KeyKind::Secret,
            ("EC", Some("P-256")) => KeyKind::P256,
            ("EC", Some("P-384")) => KeyKind::P384,
            ("OKP", Some("Ed25519")) => KeyKind::Ed25519,
            _ => return Ok(None),
        };
        let fits = |name: &str| self.alg.as_deref().is_none_or(|alg| alg == name);
        let algorithms: Vec<JwsAlgorithm> =
            JwsAlgorithm::of_kind(kind).filter(|algorithm| fits(algorithm.name())).collect();
        if !signs || !verifies || algorithms.is_empty() {
            return Ok(None);
        }
        Ok(Some(VerificationKey { id: self.kid.clone(), key: self.public_key(kind)?, algorithms }))
    }

    fn public_key(&self, kind: KeyKind) -> Result<PublicKey, String> {
        let part = |name: &str, text: &Option<String>| {
            // Some issuers add padding, which base64url in a JWK must not have.
            let bytes = text.as_deref().and_then(|text| decode(text.trim_end_matches('=').as_bytes()));
            bytes.ok_or_else(|| format!("`{name}` is missing or not base64url"))
        };
        let point = |size: usize| {
            let (x, y) = (part("x", &self.x)?, part("y", &self.y)?);
            match x.len() == size && y.len() == size {
                true => Ok([&[4], &*x, &*y].concat()),
                false => Err(format!("`x` and `y` must have {size} bytes each")),
            }
        };
        Ok(match kind {
            KeyKind::Rsa => PublicKey::rsa(&part("n", &self.n)?, &part("e", &self.e)?)?,
            KeyKind::Secret => PublicKey::new(kind, &part("k", &self.k)?),
            KeyKind::P256 => PublicKey::new(kind, &point(32)?),
            KeyKind::P384 => PublicKey::new(kind, &point(48)?),
            KeyKind::Ed25519 => PublicKey::new(kind, &part("x", &self.x)?),
        })
    }
}
