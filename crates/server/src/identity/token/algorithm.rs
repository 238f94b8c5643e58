//! The signature algorithms of tokens.

use ring::hmac;
use ring::signature::{self, RsaParameters};

/// The algorithms, named as in RFC 7518 and RFC 8037.
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

/// The type of a key, which determines the algorithms it can be used with.
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

    /// The algorithm with this name.
    pub(crate) fn named(name: &str) -> Option<JwsAlgorithm> {
        JwsAlgorithm::ALL.iter().find(|(_, own, _)| *own == name).map(|(algorithm, ..)| *algorithm)
    }

    /// Its name.
    pub(crate) fn name(self) -> &'static str {
        self.entry().1
    }

    /// The type of its keys.
    pub(crate) fn kind(self) -> KeyKind {
        self.entry().2
    }

    fn entry(self) -> &'static (JwsAlgorithm, &'static str, KeyKind) {
        let entry = JwsAlgorithm::ALL.iter().find(|(algorithm, ..)| *algorithm == self);
        entry.expect("every algorithm is in the list")
    }

    /// The algorithms that a type of key can be used with.
    pub(crate) fn of_kind(kind: KeyKind) -> impl Iterator<Item = JwsAlgorithm> {
        JwsAlgorithm::ALL.iter().filter(move |(.., own)| *own == kind).map(|(algorithm, ..)| *algorithm)
    }

    /// Its HMAC digest, if it is an HMAC algorithm.
    pub(crate) fn hmac(self) -> Option<hmac::Algorithm> {
        match self {
            JwsAlgorithm::Hs256 => Some(hmac::HMAC_SHA256),
            JwsAlgorithm::Hs384 => Some(hmac::HMAC_SHA384),
            JwsAlgorithm::Hs512 => Some(hmac::HMAC_SHA512),
            _ => None,
        }
    }

    /// Its padding and digest, if it is an RSA algorithm.
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
