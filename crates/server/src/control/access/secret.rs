//! Secrets of the admin API: how they are made, and the hash that is kept of them.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::{SecureRandom, SystemRandom};
use sha2::{Digest, Sha256};

/// The system has no random numbers.
#[derive(Debug, thiserror::Error)]
#[error("the system has no random numbers")]
pub struct NoRandomNumbers;

/// A new secret: 256 random bits behind a prefix by which people and scanners recognise it.
///
/// # Errors
/// When the system has no random numbers.
pub fn new_secret(prefix: &str) -> Result<String, NoRandomNumbers> {
    let mut bytes = [0; 32];
    SystemRandom::new().fill(&mut bytes).map_err(|_| NoRandomNumbers)?;
    Ok(format!("{prefix}{}", URL_SAFE_NO_PAD.encode(bytes)))
}

/// The SHA-256 of a secret. It is what is stored: nobody can compute the secret from it, since that has 256 random
/// bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SecretHash([u8; 32]);

impl SecretHash {
    /// The hash of a secret.
    pub fn of(secret: &str) -> SecretHash {
        SecretHash::of_bytes(secret.as_bytes())
    }

    /// The hash of the bytes that a client has sent as a secret.
    pub fn of_bytes(secret: &[u8]) -> SecretHash {
        SecretHash(Sha256::digest(secret).into())
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_differ_and_hashes_tell_them_apart() {
        let (one, other) = (new_secret("tga_").unwrap(), new_secret("tga_").unwrap());
        assert!(one.starts_with("tga_") && one.len() == 4 + 43, "{one}");
        assert_ne!(SecretHash::of(&one), SecretHash::of(&other));
        assert_eq!(SecretHash::of("abc").as_bytes()[..4], [0xba, 0x78, 0x16, 0xbf]);
    }
}
