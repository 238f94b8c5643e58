//! Verifies bearer tokens (JWT): from the bytes of a token to its claims, or the reason for rejecting it.
//!
//! Verified and rejected tokens are cached, and failed signature checks are limited per client address.

pub(super) mod algorithm;
pub(super) mod cache;
pub(super) mod claims;
pub(super) mod der;
pub(super) mod failed_checks;
pub(super) mod jwk;
pub(super) mod jws;
pub(super) mod keys;
pub(super) mod rejected_tokens;

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use arc_swap::ArcSwap;
use tidegate::Nanos;

use super::{Claims, IdentityError, Rejection};
use crate::settings::Jwt;
use cache::Cache;
use failed_checks::FailedChecks;
use jws::Jws;
use keys::VerificationKeys;
use rejected_tokens::RejectedTokens;

/// Longer tokens are rejected without parsing.
const TOKEN_BYTES_MAX: usize = 8 * 1_024;

/// Verifies tokens.
pub(crate) struct Tokens {
    settings: Jwt,
    keys: ArcSwap<Versioned>,
    cache: Cache,
    rejected: RejectedTokens,
    failed_checks: FailedChecks,
}

struct Versioned {
    version: u64,
    keys: VerificationKeys,
}

impl Tokens {
    pub(crate) fn new(settings: &Jwt) -> Result<Tokens, IdentityError> {
        let keys = VerificationKeys::load(&settings.key)?;
        let keys = ArcSwap::from_pointee(Versioned { version: 0, keys });
        Ok(Tokens {
            settings: settings.clone(),
            keys,
            cache: Cache::new(),
            rejected: RejectedTokens::new(),
            failed_checks: FailedChecks::new(),
        })
    }

    /// The claims of a token, or why it is invalid. Failed checks are counted for the address `from`, if there is one.
    pub(crate) fn verify(
        &self,
        token: &[u8],
        from: Option<IpAddr>,
        now: Nanos,
    ) -> Result<Arc<Claims>, Rejection> {
        if token.len() > TOKEN_BYTES_MAX {
            return Err(Rejection::Malformed);
        }
        let keys = self.keys.load();
        let name = self.cache.name(token);
        let claims = match self.cache.get(name, keys.version, now) {
            Some(known) => known,
            None => self.verify_uncached((token, name), from, &keys, now)?,
        };
        // Check the time on every use: the cache holds tokens with a valid signature, also before and after their time.
        claims.check_time(now)?;
        Ok(claims)
    }

    /// Verifies a token that is not in the cache of verified tokens.
    fn verify_uncached(
        &self,
        (token, name): (&[u8], u128),
        from: Option<IpAddr>,
        keys: &Versioned,
        now: Nanos,
    ) -> Result<Arc<Claims>, Rejection> {
        if let Some(rejection) = self.rejected.get(name, keys.version, now) {
            return Err(rejection);
        }
        let jws = Jws::parse(token).ok_or(Rejection::Malformed)?;
        let may_check = || from.is_none_or(|from| self.failed_checks.may_check(from, now));
        let payload = keys.keys.payload(&jws, may_check);
        if let (Some(from), Err(Rejection::BadSignature)) = (from, &payload) {
            self.failed_checks.failed(from, now);
        }
        let claims = payload.and_then(|payload| Claims::new(&payload, &self.settings)).map(Arc::new);
        match &claims {
            Ok(claims) => self.cache.insert(name, keys.version, Arc::clone(claims), now),
            // Not worth caching: an unknown key costs no signature check, and an unchecked token may be valid.
            Err(Rejection::UnknownKey | Rejection::NotChecked) => {}
            Err(rejection) => self.rejected.insert(name, keys.version, *rejection, now),
        }
        claims
    }

    /// Reloads the keys. The new version makes all cached tokens be verified again.
    pub(crate) fn reload(&self) -> Result<(), IdentityError> {
        let version = self.keys.load().version + 1;
        let keys = VerificationKeys::load(&self.settings.key)?;
        self.keys.store(Arc::new(Versioned { version, keys }));
        Ok(())
    }

    #[cfg(test)]
    pub(super) fn cached(&self) -> usize {
        self.cache.len()
    }

    /// Is it in the cache of rejected tokens?
    #[cfg(test)]
    pub(super) fn is_cached_as_rejected(&self, token: &[u8], now: Nanos) -> bool {
        self.rejected.get(self.cache.name(token), self.keys.load().version, now).is_some()
    }
}

/// Prints no keys.
impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokens").field("version", &self.keys.load().version).finish_non_exhaustive()
    }
}
