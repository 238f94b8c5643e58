//! Keys and tokens for tests. The RSA key in this folder was made for tests and is used nowhere else.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rcgen::{KeyPair, PublicKeyData};
use ring::rand::SystemRandom;
use ring::signature::{EcdsaKeyPair, Ed25519KeyPair, RsaKeyPair};
use ring::{hmac, signature};
use serde_json::{Value, json};

use super::token::der;

pub(crate) const RSA_PRIVATE: &str = include_str!("rsa-2048-private.pem");
pub(crate) const RSA_PUBLIC: &str = include_str!("rsa-2048-public.pem");
pub(crate) const RSA_SMALL: &str = include_str!("rsa-1024-public.pem");

/// A key that signs tokens.
pub(crate) enum Signer {
    Secret(Vec<u8>),
    Pair(Box<KeyPair>),
    Rsa,
}

pub(crate) fn encoded(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

impl Signer {
    /// A new key pair for ES256, ES384 or EdDSA, the RSA key for RSA algorithms, or a secret for HMAC.
    pub(crate) fn new(algorithm: &str) -> Signer {
        let pair = |kind| Signer::Pair(Box::new(KeyPair::generate_for(kind).unwrap()));
        match algorithm {
            "ES256" => pair(&rcgen::PKCS_ECDSA_P256_SHA256),
            "ES384" => pair(&rcgen::PKCS_ECDSA_P384_SHA384),
            "EdDSA" => pair(&rcgen::PKCS_ED25519),
            rsa if rsa.starts_with(['R', 'P']) => Signer::Rsa,
            _ => Signer::Secret(b"secret".to_vec()),
        }
    }

    /// The verifying key as a JWK.
    pub(crate) fn jwk(&self, id: &str) -> Value {
        match self {
            Signer::Secret(secret) => json!({"kty": "oct", "kid": id, "k": encoded(secret)}),
            Signer::Rsa => rsa_jwk(RSA_PUBLIC, id),
            Signer::Pair(pair) => {
                let point = pair.der_bytes();
                let half = |part: usize| encoded(&point[1..][part * (point.len() / 2)..][..point.len() / 2]);
                match point.len() {
                    32 => json!({"kty": "OKP", "crv": "Ed25519", "kid": id, "x": encoded(point)}),
                    size => {
                        let crv = if size == 65 { "P-256" } else { "P-384" };
                        json!({"kty": "EC", "crv": crv, "kid": id, "x": half(0), "y": half(1)})
                    }
                }
            }
        }
    }

    /// The verifying key as PEM; a secret as it is.
    pub(crate) fn pem(&self) -> String {
        match self {
            Signer::Secret(secret) => String::from_utf8(secret.clone()).unwrap(),
            Signer::Rsa => RSA_PUBLIC.to_owned(),
            Signer::Pair(pair) => pair.public_key_pem(),
        }
    }

    /// A token with this header, signed by the algorithm in its `alg`.
    pub(crate) fn token(&self, header: &Value, claims: &Value) -> String {
        let message = format!("{}.{}", encoded(header.to_string()), encoded(claims.to_string()));
        let signature = self.sign(header["alg"].as_str().unwrap(), message.as_bytes());
        format!("{message}.{}", encoded(signature))
    }

    fn sign(&self, algorithm: &str, message: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        match (self, algorithm) {
            (Signer::Secret(secret), _) => {
                let digest = match algorithm {
                    "HS384" => hmac::HMAC_SHA384,
                    "HS512" => hmac::HMAC_SHA512,
                    _ => hmac::HMAC_SHA256,
                };
                hmac::sign(&hmac::Key::new(digest, secret), message).as_ref().to_vec()
            }
            (Signer::Rsa, _) => {
                let key = RsaKeyPair::from_pkcs8(&der::pem(RSA_PRIVATE).unwrap().1).unwrap();
                let padding: &'static dyn signature::RsaEncoding = match algorithm {
                    "RS384" => &signature::RSA_PKCS1_SHA384,
                    "RS512" => &signature::RSA_PKCS1_SHA512,
                    "PS256" => &signature::RSA_PSS_SHA256,
                    "PS384" => &signature::RSA_PSS_SHA384,
                    "PS512" => &signature::RSA_PSS_SHA512,
                    _ => &signature::RSA_PKCS1_SHA256,
                };
                let mut signed = vec![0; key.public().modulus_len()];
                key.sign(padding, &random, message, &mut signed).unwrap();
                signed
            }
            (Signer::Pair(pair), "EdDSA") => {
                let key = Ed25519KeyPair::from_pkcs8_maybe_unchecked(&pair.serialize_der()).unwrap();
                key.sign(message).as_ref().to_vec()
            }
            (Signer::Pair(pair), _) => {
                let kind = match algorithm {
                    "ES384" => &signature::ECDSA_P384_SHA384_FIXED_SIGNING,
                    _ => &signature::ECDSA_P256_SHA256_FIXED_SIGNING,
                };
                let key = EcdsaKeyPair::from_pkcs8(kind, &pair.serialize_der(), &random).unwrap();
                key.sign(&random, message).unwrap().as_ref().to_vec()
            }
        }
    }
}

/// An RSA key as a JWK.
pub(crate) fn rsa_jwk(pem: &str, id: &str) -> Value {
    let (_, info) = der::pem(pem).unwrap();
    let (modulus, exponent) = der::rsa_public_key(der::public_key_info(&info).unwrap().1).unwrap();
    json!({"kty": "RSA", "kid": id, "n": encoded(&modulus[1..]), "e": encoded(exponent)})
}
