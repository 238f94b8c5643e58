//! Tokens and sessions in the database, and what is remembered of them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use subtle::ConstantTimeEq;
use tidegate::{Clock, MonotonicClock, Nanos};
use tidegate_database::{BrowserSession, Database, DatabaseError, StoredToken, UnixMillis};
use tokio::time::timeout;

use super::seen::{FRESH, FirstLookups, GRACE, KnownCredential, SeenCredentials};
use super::sessions::{idle_end, session_end};
use super::{AccessError, Principal, SecretHash};
use crate::bounds::SEEN_CREDENTIALS_MAX;
use crate::control::startup::unix_millis;

/// How long the database is waited for if the credential was valid before.
const PATIENCE: Duration = Duration::from_secs(1);
/// The shortest time between two lines of the log about a database that does not answer.
const COMPLAINT_INTERVAL: Nanos = Nanos::from_secs(10);
/// A session that would end later by less than this is not written down again.
const EXTENSION_MIN_MS: i64 = 60_000;

/// Tokens and sessions in the database.
#[derive(Debug)]
pub(super) struct TokenBook {
    database: Database,
    seen: SeenCredentials,
    first_lookups: FirstLookups,
    /// When it was logged last that the database does not answer.
    complained: Mutex<Option<Nanos>>,
    uses: Mutex<CredentialUses>,
    clock: MonotonicClock,
}

/// What is to be written down of uses.
#[derive(Debug, Default)]
struct CredentialUses {
    /// When tokens were used last.
    tokens: HashMap<Arc<str>, UnixMillis>,
    /// When sessions end, now that they were used.
    sessions: HashMap<SecretHash, UnixMillis>,
}

impl TokenBook {
    pub(super) fn new(database: Database) -> TokenBook {
        let clock = MonotonicClock::new();
        TokenBook {
            database,
            seen: SeenCredentials::default(),
            first_lookups: FirstLookups::default(),
            complained: Mutex::default(),
            uses: Mutex::default(),
            clock,
        }
    }

    /// The lock that the first lookup of a token or session holds.
    pub(super) fn first_lookup(&self, hash: SecretHash) -> Arc<tokio::sync::Mutex<()>> {
        self.first_lookups.of(hash)
    }

    /// Was this token or session valid a short time ago?
    pub(super) fn has_seen(&self, hash: SecretHash) -> bool {
        self.seen.get(hash).is_some()
    }

    /// The token with this hash, if it is valid.
    pub(super) async fn token(&self, hash: SecretHash) -> Result<Option<KnownCredential>, AccessError> {
        let looking = async {
            let found = self.database.token_by_hash(hash.as_bytes()).await?;
            // In constant time: an index of the database may compare otherwise.
            let found = found.filter(|token| token.sha256.ct_eq(hash.as_bytes()).into());
            Ok(found.and_then(|token| known(&token, None)))
        };
        let found = self.look_up(hash, looking).await?;
        if let Some(known) = &found {
            self.note_use(known, None);
        }
        Ok(found)
    }

    /// The session with this hash, if it is valid.
    pub(super) async fn session(&self, hash: SecretHash) -> Result<Option<KnownCredential>, AccessError> {
        let looking = async {
            let found = self.database.session(hash.as_bytes(), self.wall()).await?;
            Ok(found.and_then(|(session, token)| known(&token, Some(&session))))
        };
        let found = self.look_up(hash, looking).await?;
        if let Some(known) = &found {
            self.note_use(known, Some(hash));
        }
        Ok(found)
    }

    /// Begins a session of a token, and returns when it ends at the latest.
    pub(super) async fn begin_session(
        &self,
        hash: SecretHash,
        token: &KnownCredential,
    ) -> Result<UnixMillis, AccessError> {
        let created_at = self.wall();
        let session = BrowserSession {
            hash: *hash.as_bytes(),
            token_id: token.token.to_string(),
            created_at,
            expires_at: idle_end(created_at, created_at),
        };
        let known = KnownCredential { session: Some((created_at, session.expires_at)), ..token.clone() };
        self.database.create_session(session).await.map_err(|error| self.unavailable(&error))?;
        // The page that has logged in begins with many calls at once.
        self.seen.insert(hash, self.clock.now(), known);
        Ok(session_end(created_at))
    }

    /// Ends a session.
    pub(super) async fn end_session(&self, hash: SecretHash) -> Result<(), AccessError> {
        self.seen.remove(hash);
        self.database
            .delete_session(hash.as_bytes())
            .await
            .map(drop)
            .map_err(|error| self.unavailable(&error))
    }

    /// Writes down when tokens were used last, and when sessions end. What cannot be written is tried again later.
    pub(super) async fn write_uses(&self) -> Result<(), DatabaseError> {
        let (tokens, sessions): (Vec<_>, Vec<_>) = {
            let uses = self.uses.lock().unwrap_or_else(PoisonError::into_inner);
            let tokens = uses.tokens.iter().map(|(id, time)| (id.to_string(), *time));
            (tokens.collect(), uses.sessions.iter().map(|(hash, end)| (*hash.as_bytes(), *end)).collect())
        };
        if !tokens.is_empty() {
            self.database.touch_tokens(tokens.clone()).await?;
        }
        if !sessions.is_empty() {
            self.database.extend_sessions(sessions.clone()).await?;
        }
        let mut uses = self.uses.lock().unwrap_or_else(PoisonError::into_inner);
        uses.tokens.retain(|id, time| !tokens.iter().any(|(done, at)| **done == **id && at == time));
        uses.sessions.retain(|hash, end| !sessions.iter().any(|done| *done == (*hash.as_bytes(), *end)));
        Ok(())
    }

    /// What the database says of a credential, or, while it does not answer, what it has said before.
    async fn look_up(
        &self,
        hash: SecretHash,
        looking: impl Future<Output = Result<Option<KnownCredential>, DatabaseError>>,
    ) -> Result<Option<KnownCredential>, AccessError> {
        let (now, wall) = (self.clock.now(), self.wall());
        let seen = self.seen.get(hash);
        let is_younger = |age| seen.clone().filter(|seen| now.saturating_sub(seen.checked) < age);
        let found = match is_younger(FRESH) {
            Some(seen) => Some(seen.known),
            None => {
                let looked = match &seen {
                    None => looking.await,
                    Some(_) => timeout(PATIENCE, looking).await.unwrap_or_else(|_late| {
                        Err(DatabaseError::Unavailable(format!("no answer within {PATIENCE:?}")))
                    }),
                };
                match (looked, is_younger(GRACE)) {
                    (Ok(Some(known)), _) if known.is_valid_at(wall) => {
                        self.seen.insert(hash, now, known.clone());
                        Some(known)
                    }
                    (Ok(_), _) => {
                        self.seen.remove(hash);
                        None
                    }
                    (Err(_), Some(seen)) => Some(seen.known),
                    (Err(error), None) => return Err(self.unavailable(&error)),
                }
            }
        };
        Ok(found.filter(|known| known.is_valid_at(wall)))
    }

    fn note_use(&self, known: &KnownCredential, session: Option<SecretHash>) {
        let wall = self.wall();
        let mut uses = self.uses.lock().unwrap_or_else(PoisonError::into_inner);
        if uses.tokens.len() < SEEN_CREDENTIALS_MAX || uses.tokens.contains_key(&known.token) {
            uses.tokens.insert(Arc::clone(&known.token), wall);
        }
        let Some((hash, (began, ends))) = session.zip(known.session) else { return };
        let later = idle_end(began, wall);
        let is_worth_it = later.get() - ends.get() >= EXTENSION_MIN_MS;
        if is_worth_it && (uses.sessions.len() < SEEN_CREDENTIALS_MAX || uses.sessions.contains_key(&hash)) {
            uses.sessions.insert(hash, later);
        }
    }

    /// The error for the caller, who may be anybody: what the database says is for the log, once in a while.
    fn unavailable(&self, error: &DatabaseError) -> AccessError {
        let now = self.clock.now();
        let mut complained = self.complained.lock().unwrap_or_else(PoisonError::into_inner);
        if complained.is_none_or(|at| now.saturating_sub(at) >= COMPLAINT_INTERVAL) {
            *complained = Some(now);
            tracing::error!(%error, "tokens cannot be checked");
        }
        AccessError::Unavailable
    }

    #[cfg(test)]
    pub(super) fn seen(&self) -> &SeenCredentials {
        &self.seen
    }

    fn wall(&self) -> UnixMillis {
        unix_millis(self.clock.wall())
    }
}

fn known(token: &StoredToken, session: Option<&BrowserSession>) -> Option<KnownCredential> {
    if token.revoked_at.is_some() {
        return None;
    }
    let principal = Principal::of(token);
    if principal.is_none() {
        tracing::warn!(
            token = token.id,
            role = token.role,
            "a token has a role that this version does not know"
        );
    }
    Some(KnownCredential {
        principal: principal?,
        token: token.id.as_str().into(),
        session: session.map(|session| (session.created_at, session.expires_at)),
    })
}
