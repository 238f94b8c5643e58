//! From a token to what it says, if it is to be believed.

use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwap;
use tidegate::Nanos;

use super::cache::Cache;
use super::keys::Keys;
use super::{Claims, IdentityError};
use crate::settings::Jwt;

/// A longer token is not looked at.
const TOKEN_BYTES_MAX: usize = 8 * 1_024;

/// Verifies tokens.
pub(super) struct Tokens {
    settings: Jwt,
    keys: ArcSwap<Versioned>,
    cache: Cache,
}

struct Versioned {
    version: u64,
    keys: Keys,
}

impl Tokens {
    pub(super) fn new(settings: &Jwt) -> Result<Tokens, IdentityError> {
        let keys = Keys::load(&settings.key)?;
        let keys = ArcSwap::from_pointee(Versioned { version: 0, keys });
        Ok(Tokens { settings: settings.clone(), keys, cache: Cache::new() })
    }

    /// What a token says; `None` if it does not hold.
    pub(super) fn verify(&self, token: &[u8], now: Nanos) -> Option<Arc<Claims>> {
        if token.len() > TOKEN_BYTES_MAX {
            return None;
        }
        let keys = self.keys.load();
        let name = self.cache.name(token);
        if let Some(known) = self.cache.get(name, keys.version, now) {
            return known.is_valid(now).then_some(known);
        }
        let payload = keys.keys.payload(token)?;
        let claims = Claims::new(&payload, &self.settings).filter(|claims| claims.is_valid(now))?;
        let claims = Arc::new(claims);
        self.cache.insert(name, keys.version, Arc::clone(&claims), now);
        Some(claims)
    }

    /// A token that was verified by keys from before has to be verified again.
    pub(super) fn reload(&self) -> Result<(), IdentityError> {
        let version = self.keys.load().version + 1;
        let keys = Keys::load(&self.settings.key)?;
        self.keys.store(Arc::new(Versioned { version, keys }));
        Ok(())
    }

    #[cfg(test)]
    pub(super) fn cached(&self) -> usize {
        self.cache.len()
    }
}

/// Without the keys.
impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokens").field("version", &self.keys.load().version).finish_non_exhaustive()
    }
}
