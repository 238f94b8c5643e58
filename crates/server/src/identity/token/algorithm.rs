//! The algorithms that tokens may be signed by.

use ring::hmac;
use ring::signature::{self, RsaParameters};

/// As RFC 7518 and RFC 8037 name them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JwsAlgorithm {
    Hs256,
    Hs384,
    Hs512,
    Rs256,
    Rs384,
    Rs512,
    Ps256,
    Ps384,
    Ps512,
    Es256,
    Es384,
    EdDsa,
}

/// What a key is, and so which algorithms it can be for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyKind {
    Secret,
    Rsa,
    P256,
    P384,
    Ed25519,
}

impl JwsAlgorithm {
    const ALL: [(JwsAlgorithm, &'static str, KeyKind); 12] = [
        (JwsAlgorithm::Hs256, "HS256", KeyKind::Secret),
        (JwsAlgorithm::Hs384, "HS384", KeyKind::Secret),
        (JwsAlgorithm::Hs512, "HS512", KeyKind::Secret),
        (JwsAlgorithm::Rs256, "RS256", KeyKind::Rsa),
        (JwsAlgorithm::Rs384, "RS384", KeyKind::Rsa),
        (JwsAlgorithm::Rs512, "RS512", KeyKind::Rsa),
        (JwsAlgorithm::Ps256, "PS256", KeyKind::Rsa),
        (JwsAlgorithm::Ps384, "PS384", KeyKind::Rsa),
        (JwsAlgorithm::Ps512, "PS512", KeyKind::Rsa),
        (JwsAlgorithm::Es256, "ES256", KeyKind::P256),
        (JwsAlgorithm::Es384, "ES384", KeyKind::P384),
        (JwsAlgorithm::EdDsa, "EdDSA", KeyKind::Ed25519),
    ];

    /// By its name.
    pub(crate) fn named(name: &str) -> Option<JwsAlgorithm> {
        JwsAlgorithm::ALL.iter().find(|(_, own, _)| *own == name).map(|(algorithm, ..)| *algorithm)
    }

    /// Its name.
    pub(crate) fn name(self) -> &'static str {
        self.entry().1
    }

    /// What its keys are.
    pub(crate) fn kind(self) -> KeyKind {
        self.entry().2
    }

    fn entry(self) -> &'static (JwsAlgorithm, &'static str, KeyKind) {
        let entry = JwsAlgorithm::ALL.iter().find(|(algorithm, ..)| *algorithm == self);
        entry.expect("every algorithm is in the list")
    }

    /// Those that a kind of key can be for.
    pub(crate) fn of_kind(kind: KeyKind) -> impl Iterator<Item = JwsAlgorithm> {
        JwsAlgorithm::ALL.iter().filter(move |(.., own)| *own == kind).map(|(algorithm, ..)| *algorithm)
    }

    /// For HMAC: by which digest.
    pub(crate) fn hmac(self) -> Option<hmac::Algorithm> {
        match self {
            JwsAlgorithm::Hs256 => Some(hmac::HMAC_SHA256),
            JwsAlgorithm::Hs384 => Some(hmac::HMAC_SHA384),
            JwsAlgorithm::Hs512 => Some(hmac::HMAC_SHA512),
            _ => None,
        }
    }

    /// For RSA: by which padding and digest.
    pub(crate) fn rsa(self) -> Option<&'static RsaParameters> {
        match self {
            JwsAlgorithm::Rs256 => Some(&signature::RSA_PKCS1_2048_8192_SHA256),
            JwsAlgorithm::Rs384 => Some(&signature::RSA_PKCS1_2048_8192_SHA384),
            JwsAlgorithm::Rs512 => Some(&signature::RSA_PKCS1_2048_8192_SHA512),
            JwsAlgorithm::Ps256 => Some(&signature::RSA_PSS_2048_8192_SHA256),
            JwsAlgorithm::Ps384 => Some(&signature::RSA_PSS_2048_8192_SHA384),
            JwsAlgorithm::Ps512 => Some(&signature::RSA_PSS_2048_8192_SHA512),
            _ => None,
        }
    }
}
