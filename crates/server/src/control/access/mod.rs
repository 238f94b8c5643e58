//! Who may use the admin API: tokens, their roles, the tenants that they are restricted to, and sessions of browsers.
//!
//! A request proves who it comes from by a token in `Authorization`, or else by the cookie of a session. Tokens and sessions
//! are kept in the database as hashes (`token_book`); a server without one has a single token, that of the settings.
//! Tokens of an identity provider are verified by its keys (`oidc`). `limits` bounds how often all that may be tried.

mod limits;
mod new_token;
mod oidc;
mod principal;
mod role;
mod same_origin;
mod secret;
mod seen;
mod sessions;
#[cfg(test)]
mod tests;
mod token_book;

use std::net::IpAddr;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use subtle::ConstantTimeEq;
use tidegate::{Clock, MemoryError, MonotonicClock};
use tidegate_database::{Database, DatabaseError, UnixMillis};

use limits::AccessLimits;
pub(crate) use new_token::{
    CreateTokenError, CreatedToken, TokenRequest, create_token, create_token_once, first_token, new_id,
    token_entry,
};
pub(crate) use oidc::Oidc;
pub use principal::Principal;
pub use role::{AccessRole, UnknownRole};
pub(crate) use same_origin::RequestSite;
pub use secret::{NoRandomNumbers, SecretHash, new_secret};
use seen::SeenNetworks;
use sessions::MemorySessions;
pub(crate) use sessions::{cookie, no_cookie};
use token_book::TokenBook;

use super::startup::unix_millis;
use crate::bounds::budget::client_network;
use crate::identity::access::bearer;

/// Decides who a request of the admin API comes from.
#[derive(Debug)]
pub struct Access {
    /// The hash of the admin token of the settings, or of the one that was made at the start.
    admin: Option<SecretHash>,
    /// The networks that have sent it: wrong tokens from there do not hold it up.
    admin_networks: SeenNetworks,
    /// The sessions of that token.
    sessions: MemorySessions,
    /// The tokens in the database, if there is one.
    book: Option<Box<TokenBook>>,
    /// The identity provider whose tokens are accepted, too.
    oidc: Option<Oidc>,
    limits: AccessLimits,
    clock: MonotonicClock,
}

/// What a request proves who it comes from by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AccessProof<'r> {
    pub(crate) headers: &'r HeaderMap,
    /// The address of the client.
    pub(crate) address: IpAddr,
    /// Does the request change anything?
    pub(crate) writes: bool,
    /// May it use a session? Not where others could read the cookie on the network.
    pub(crate) may_use_session: bool,
}

/// A session that has begun.
#[derive(Debug)]
pub(crate) struct BegunSession {
    /// What the cookie holds.
    pub(crate) secret: String,
    pub(crate) principal: Principal,
    /// When it ends at the latest.
    pub(crate) ends: UnixMillis,
}

/// Why a request has no principal.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AccessError {
    /// It sends no token.
    #[error("this needs a token: send `Authorization: Bearer TOKEN`")]
    Missing,
    /// The token is unknown, expired or revoked.
    #[error("the token is not valid: it is unknown, has expired or was revoked")]
    Invalid,
    /// The session is unknown or has ended.
    #[error("the session has ended: log in again")]
    SessionEnded,
    /// A session cannot be made of this token.
    #[error(
        "a session needs a token of this server; send the token of an identity provider with each request"
    )]
    NoSessionOfProvider,
    /// A page of another site has sent the request, or it does not prove that none has.
    #[error("a session is used by pages of this server only; programs send `Authorization: Bearer TOKEN`")]
    ForeignSite,
    /// Too many calls or attempts.
    #[error("too many {what}: wait {retry_after} s")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// When to try again, in seconds.
        retry_after: u64,
    },
    /// The database does not answer.
    #[error("the token cannot be checked: the database does not answer")]
    Unavailable,
    /// The system has no random numbers.
    #[error("a session cannot begin: the system has no random numbers")]
    NoRandomNumbers,
}

impl Access {
    /// Access by one token, which has the role `admin`.
    ///
    /// # Errors
    /// When there is no memory for its limits.
    pub fn by_token(token: &str) -> Result<Access, MemoryError> {
        Access::of(Some(token), None)
    }

    /// Access by the tokens in a database, and by one more, which has the role `admin`.
    pub(crate) fn by_database(database: Database, token: Option<&str>) -> Result<Access, MemoryError> {
        Access::of(token, Some(Box::new(TokenBook::new(database))))
    }

    fn of(token: Option<&str>, book: Option<Box<TokenBook>>) -> Result<Access, MemoryError> {
        let (sessions, limits) = (MemorySessions::default(), AccessLimits::new()?);
        let admin = token.map(SecretHash::of);
        let (admin_networks, clock) = (SeenNetworks::default(), MonotonicClock::new());
        Ok(Access { admin, admin_networks, sessions, book, oidc: None, limits, clock })
    }

    /// The same, and tokens of an identity provider are accepted.
    #[must_use]
    pub(crate) fn with_oidc(self, oidc: Option<Oidc>) -> Access {
        Access { oidc, ..self }
    }

    /// The identity provider whose tokens are accepted.
    pub(crate) fn oidc(&self) -> Option<&Oidc> {
        self.oidc.as_ref()
    }

    /// Who sends a request. A token in `Authorization` wins over a session.
    ///
    /// # Errors
    /// When there is neither, it is not valid, or the limits of calls are reached.
    pub(crate) async fn authenticate(&self, proof: AccessProof<'_>) -> Result<Principal, AccessError> {
        let principal = match (proof.headers.get(AUTHORIZATION), sessions::sent_session(proof.headers)) {
            (Some(value), _) => match bearer(value.as_bytes()) {
                Some(token) => self.holder_of(token, proof.address).await?,
                None => return Err(self.nobody(proof.address)),
            },
            (None, Some(session)) if proof.may_use_session => self.holder_of_session(session, proof).await?,
            _ => return Err(self.nobody(proof.address)),
        };
        self.limits.call_of(&principal.actor)?;
        Ok(principal)
    }

    /// Counts a call that needs no token.
    ///
    /// # Errors
    /// When its address makes too many.
    pub(crate) fn open_call(&self, address: IpAddr) -> Result<(), AccessError> {
        self.limits.call_from(address)
    }

    fn nobody(&self, address: IpAddr) -> AccessError {
        self.limits.call_from(address).err().unwrap_or(AccessError::Missing)
    }

    /// Who holds a token. One that was valid a short time ago is not held up by wrong ones of the same address.
    async fn holder_of(&self, token: &[u8], address: IpAddr) -> Result<Principal, AccessError> {
        if let Some(oidc) = self.oidc.as_ref().filter(|_| oidc::looks_like_one(token)) {
            return match oidc.holder_of(token, address, self.clock.wall()) {
                Some(principal) => Ok(principal),
                None => Err(self.failed(address)),
            };
        }
        let hash = SecretHash::of_bytes(token);
        if self.is_admin(hash) {
            return self.admin_from(address);
        }
        let Some(book) = &self.book else { return Err(self.failed(address)) };
        let known = self.unless_failing(book, hash, address, book.token(hash)).await?;
        known.map(|known| known.principal).ok_or(AccessError::Invalid)
    }

    /// The holder of the admin token, unless its network has tried too many wrong tokens: whoever guesses must not learn
    /// that a guess was right.
    fn admin_from(&self, address: IpAddr) -> Result<Principal, AccessError> {
        let network = client_network(address);
        if !self.admin_networks.contains(network) {
            self.limits.failure_from(address)?;
            self.limits.no_failure_from(address);
            self.admin_networks.insert(network);
        }
        Ok(Principal::admin())
    }

    /// Is this the hash of the admin token? In constant time, so that the duration does not tell how much of it is right.
    fn is_admin(&self, hash: SecretHash) -> bool {
        self.admin.is_some_and(|admin| hash.as_bytes().ct_eq(admin.as_bytes()).into())
    }

    async fn holder_of_session(
        &self,
        hash: SecretHash,
        proof: AccessProof<'_>,
    ) -> Result<Principal, AccessError> {
        match (RequestSite::of(proof.headers), proof.writes) {
            (RequestSite::Own, _) | (RequestSite::Unknown, false) => {}
            (RequestSite::Unknown, true) | (RequestSite::Foreign, _) => {
                return Err(self.limits.call_from(proof.address).err().unwrap_or(AccessError::ForeignSite));
            }
        }
        if self.sessions.is_valid(hash, self.wall()) {
            return Ok(Principal::admin());
        }
        let Some(book) = &self.book else {
            return Err(self.limits.failure_from(proof.address).err().unwrap_or(AccessError::SessionEnded));
        };
        let known = self.unless_failing(book, hash, proof.address, book.session(hash)).await?;
        known.map(|known| known.principal).ok_or(AccessError::SessionEnded)
    }

    /// Looks something up in the database, unless its address has tried too many wrong ones.
    async fn unless_failing<T>(
        &self,
        book: &TokenBook,
        hash: SecretHash,
        address: IpAddr,
        looking: impl Future<Output = Result<Option<T>, AccessError>>,
    ) -> Result<Option<T>, AccessError> {
        // A client may begin with many calls at once. The first looks its token up; if it is valid, the others find it
        // among those that were seen, and none of them counts as a failure.
        let lookup = (!book.has_seen(hash)).then(|| book.first_lookup(hash));
        let first = lookup.as_ref().and_then(|lookup| lookup.try_lock().ok());
        if let (Some(lookup), None) = (&lookup, &first) {
            drop(lookup.lock().await);
        }
        if book.has_seen(hash) {
            let found = looking.await?;
            if found.is_none() {
                self.limits.failure_from(address)?;
            }
            return Ok(found);
        }
        // Counted before it is known, so that many attempts at once are counted, too.
        self.limits.failure_from(address)?;
        let found = looking.await;
        if !matches!(found, Ok(None)) {
            self.limits.no_failure_from(address);
        }
        found
    }

    fn failed(&self, address: IpAddr) -> AccessError {
        self.limits.failure_from(address).err().unwrap_or(AccessError::Invalid)
    }

    /// Begins a session of the holder of a token.
    ///
    /// # Errors
    /// When the token is not valid, or not one of this server.
    pub(crate) async fn begin_session(
        &self,
        token: &[u8],
        address: IpAddr,
    ) -> Result<BegunSession, AccessError> {
        if self.oidc.is_some() && oidc::looks_like_one(token) {
            return Err(AccessError::NoSessionOfProvider);
        }
        let principal = self.holder_of(token, address).await?;
        self.limits.call_of(&principal.actor)?;
        let secret = new_secret("tgs_").map_err(|_| AccessError::NoRandomNumbers)?;
        let hash = SecretHash::of(&secret);
        let token = SecretHash::of_bytes(token);
        let ends = match &self.book {
            Some(book) if !self.is_admin(token) => {
                let known = book.token(token).await?.ok_or(AccessError::Invalid)?;
                book.begin_session(hash, &known).await?
            }
            _ => self.sessions.begin(hash, self.wall()),
        };
        Ok(BegunSession { secret, principal, ends })
    }

    /// Ends the session that a request names, if it names one.
    ///
    /// # Errors
    /// When a page of another site wants that, or the database does not answer.
    pub(crate) async fn end_session(&self, proof: AccessProof<'_>) -> Result<(), AccessError> {
        self.limits.call_from(proof.address)?;
        if RequestSite::of(proof.headers) != RequestSite::Own {
            return Err(AccessError::ForeignSite);
        }
        let Some(hash) = sessions::sent_session(proof.headers) else { return Ok(()) };
        self.sessions.end(hash);
        match &self.book {
            Some(book) => book.end_session(hash).await,
            None => Ok(()),
        }
    }

    /// Writes down when tokens were used last, where they are in a database.
    ///
    /// # Errors
    /// When the database fails; what is lost then is written the next time.
    pub(crate) async fn write_uses(&self) -> Result<(), DatabaseError> {
        match &self.book {
            Some(book) => book.write_uses().await,
            None => Ok(()),
        }
    }

    fn wall(&self) -> UnixMillis {
        unix_millis(self.clock.wall())
    }
}
