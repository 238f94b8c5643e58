//! Who may use the admin API: bearer tokens, their roles, and the tenants that they are restricted to.

mod principal;
mod role;
mod secret;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use subtle::ConstantTimeEq;

pub use principal::Principal;
pub use role::Role;
pub use secret::{NoRandomNumbers, SecretHash, new_secret};

use crate::identity::access::bearer;

/// Decides who a request of the admin API comes from.
#[derive(Debug)]
pub struct Access {
    /// The hash of the one admin token of a server without a database.
    admin: SecretHash,
}

/// Why a request has no principal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AccessError {
    /// It sends no token.
    #[error("this needs a token: send `Authorization: Bearer TOKEN`")]
    Missing,
    /// The token is unknown, expired or revoked.
    #[error("the token is not valid: it is unknown, has expired or was revoked")]
    Invalid,
}

impl Access {
    /// Access by one token, which has the role `admin`.
    pub fn by_token(token: &str) -> Access {
        Access { admin: SecretHash::of(token) }
    }

    /// Who sends these headers.
    ///
    /// # Errors
    /// When there is no token, or it is not valid.
    pub fn authenticate(&self, headers: &HeaderMap) -> Result<Principal, AccessError> {
        let sent = headers.get(AUTHORIZATION).and_then(|value| bearer(value.as_bytes()));
        let sent = SecretHash::of_bytes(sent.ok_or(AccessError::Missing)?);
        // In constant time, so that the duration does not tell how much of the hash is right.
        match bool::from(sent.as_bytes().ct_eq(self.admin.as_bytes())) {
            true => Ok(Principal::admin()),
            false => Err(AccessError::Invalid),
        }
    }
}
