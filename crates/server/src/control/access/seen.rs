//! Tokens and sessions that were found valid a short time ago, so that neither a busy client nor a database that is away
//! for a while matters.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tidegate::Nanos;
use tidegate_database::UnixMillis;

use super::{Principal, SecretHash};
use crate::bounds::SEEN_CREDENTIALS_MAX;

/// For how long the database is not asked again. A revoked token may be used for that long.
pub(super) const FRESH: Nanos = Nanos::from_millis(500);
/// For how long a credential is accepted while the database does not answer.
pub(super) const GRACE: Nanos = Nanos::from_secs(600);

/// A credential that is valid.
#[derive(Clone, Debug)]
pub(super) struct KnownCredential {
    pub(super) principal: Principal,
    /// The name of the token.
    pub(super) token: Arc<str>,
    /// When the session began and when it ends, if it is one.
    pub(super) session: Option<(UnixMillis, UnixMillis)>,
}

impl KnownCredential {
    /// Has neither the token nor the session ended?
    pub(super) fn is_valid_at(&self, wall: UnixMillis) -> bool {
        let ends = [self.principal.expires, self.session.map(|(_, ends)| ends)];
        ends.into_iter().flatten().all(|end| wall < end)
    }
}

/// When something was found valid, and what.
#[derive(Clone, Debug)]
pub(super) struct SeenCredential {
    pub(super) checked: Nanos,
    pub(super) known: KnownCredential,
}

/// Credentials by the hash of their secret. Only valid ones are kept, so that nobody can fill it with guesses.
#[derive(Debug, Default)]
pub(super) struct SeenCredentials(Mutex<HashMap<SecretHash, SeenCredential>>);

impl SeenCredentials {
    pub(super) fn get(&self, hash: SecretHash) -> Option<SeenCredential> {
        self.table().get(&hash).cloned()
    }

    pub(super) fn insert(&self, hash: SecretHash, checked: Nanos, known: KnownCredential) {
        let mut table = self.table();
        if table.len() >= SEEN_CREDENTIALS_MAX && !table.contains_key(&hash) {
            let oldest = table.iter().min_by_key(|(_, seen)| seen.checked).map(|(hash, _)| *hash);
            oldest.and_then(|oldest| table.remove(&oldest));
        }
        table.insert(hash, SeenCredential { checked, known });
    }

    pub(super) fn remove(&self, hash: SecretHash) {
        self.table().remove(&hash);
    }

    /// Lets time pass.
    #[cfg(test)]
    pub(super) fn make_older(&self, by: Nanos) {
        self.table().values_mut().for_each(|seen| seen.checked = seen.checked.saturating_sub(by));
    }

    fn table(&self) -> MutexGuard<'_, HashMap<SecretHash, SeenCredential>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Networks from which a valid credential was sent; a bounded number of them.
#[derive(Debug, Default)]
pub(super) struct SeenNetworks(Mutex<HashSet<IpAddr>>);

impl SeenNetworks {
    pub(super) fn contains(&self, network: IpAddr) -> bool {
        self.networks().contains(&network)
    }

    pub(super) fn insert(&self, network: IpAddr) {
        let mut networks = self.networks();
        if networks.len() >= SEEN_CREDENTIALS_MAX {
            networks.clear();
        }
        networks.insert(network);
    }

    fn networks(&self) -> MutexGuard<'_, HashSet<IpAddr>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The first lookups of credentials that are under way. There are as many as calls wait for one.
#[derive(Debug, Default)]
pub(super) struct FirstLookups(Mutex<HashMap<SecretHash, Weak<tokio::sync::Mutex<()>>>>);

impl FirstLookups {
    /// The lock that the first lookup of a credential holds.
    pub(super) fn of(&self, hash: SecretHash) -> Arc<tokio::sync::Mutex<()>> {
        let mut lookups = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = lookups.get(&hash).and_then(Weak::upgrade) {
            return known;
        }
        lookups.retain(|_, lookup| lookup.strong_count() > 0);
        let new = Arc::default();
        lookups.insert(hash, Arc::downgrade(&new));
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(expires: Option<i64>, session_ends: Option<i64>) -> KnownCredential {
        let principal = Principal { expires: expires.map(UnixMillis::new), ..Principal::admin() };
        let session = session_ends.map(|ends| (UnixMillis::new(0), UnixMillis::new(ends)));
        KnownCredential { principal, token: "t".into(), session }
    }

    #[test]
    fn it_ends_with_the_token_or_the_session_whichever_is_first() {
        let valid =
            |known: KnownCredential| (1..9).filter(|now| known.is_valid_at(UnixMillis::new(*now))).count();
        assert_eq!(valid(known(None, None)), 8);
        assert_eq!((valid(known(Some(3), Some(5))), valid(known(Some(5), Some(3)))), (2, 2));
    }

    #[test]
    fn the_oldest_makes_room() {
        let seen = SeenCredentials::default();
        let hash = |number: usize| SecretHash::of(&number.to_string());
        for number in 0..=SEEN_CREDENTIALS_MAX {
            seen.insert(hash(number), Nanos::new(number as u64), known(None, None));
        }
        assert!(seen.get(hash(0)).is_none() && seen.get(hash(1)).is_some());
        assert_eq!(seen.table().len(), SEEN_CREDENTIALS_MAX);
        seen.remove(hash(1));
        assert!(seen.get(hash(1)).is_none());
    }
}
