//! From a token to what it says, if it is to be believed.

pub(super) mod algorithm;
pub(super) mod cache;
pub(super) mod checks;
pub(super) mod claims;
pub(super) mod der;
pub(super) mod junk;
pub(super) mod jwk;
pub(super) mod jws;
pub(super) mod keys;

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use arc_swap::ArcSwap;
use tidegate::Nanos;

use super::{Claims, IdentityError, Rejection};
use crate::settings::Jwt;
use cache::Cache;
use checks::FailedChecks;
use junk::RejectedTokens;
use jws::Jws;
use keys::VerificationKeys;

/// A longer token is not looked at.
const TOKEN_BYTES_MAX: usize = 8 * 1_024;

/// Verifies tokens.
pub(super) struct Tokens {
    settings: Jwt,
    keys: ArcSwap<Versioned>,
    cache: Cache,
    junk: RejectedTokens,
    failed_checks: FailedChecks,
}

struct Versioned {
    version: u64,
    keys: VerificationKeys,
}

impl Tokens {
    pub(super) fn new(settings: &Jwt) -> Result<Tokens, IdentityError> {
        let keys = VerificationKeys::load(&settings.key)?;
        let keys = ArcSwap::from_pointee(Versioned { version: 0, keys });
        Ok(Tokens {
            settings: settings.clone(),
            keys,
            cache: Cache::new(),
            junk: RejectedTokens::new(),
            failed_checks: FailedChecks::new(),
        })
    }

    /// What a token says, or why it does not hold. `from` is whose checks are counted, if anybody's.
    pub(super) fn verify(
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
            None => self.look((token, name), from, &keys, now)?,
        };
        // Its time is looked at every time, and what is signed is remembered whether it is in its time or not.
        claims.check_time(now)?;
        Ok(claims)
    }

    /// What a token says that is not known, or known for junk.
    fn look(
        &self,
        (token, name): (&[u8], u128),
        from: Option<IpAddr>,
        keys: &Versioned,
        now: Nanos,
    ) -> Result<Arc<Claims>, Rejection> {
        if let Some(rejection) = self.junk.get(name, keys.version, now) {
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
            // That there is no key for it was found out at no cost; and what was not checked may hold.
            Err(Rejection::UnknownKey | Rejection::NotChecked) => {}
            Err(dear) => self.junk.insert(name, keys.version, *dear, now),
        }
        claims
    }

    /// A token that was verified by keys from before has to be verified again.
    pub(super) fn reload(&self) -> Result<(), IdentityError> {
        let version = self.keys.load().version + 1;
        let keys = VerificationKeys::load(&self.settings.key)?;
        self.keys.store(Arc::new(Versioned { version, keys }));
        Ok(())
    }

    #[cfg(test)]
    pub(super) fn cached(&self) -> usize {
        self.cache.len()
    }

    /// Is it remembered as one that does not hold?
    #[cfg(test)]
    pub(super) fn knows_as_junk(&self, token: &[u8], now: Nanos) -> bool {
        self.junk.get(self.cache.name(token), self.keys.load().version, now).is_some()
    }
}

/// Without the keys.
impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokens").field("version", &self.keys.load().version).finish_non_exhaustive()
    }
}
