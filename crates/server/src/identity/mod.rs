//! The identity of a client: its address behind proxies, and the claims of its verified token.
//!
//! A header alone proves nothing. The address of a client is taken only from trusted proxies; its user, tenant, plan
//! and client program are taken only from a token with a valid signature.

pub(crate) mod access;
mod bearer;
pub(crate) mod forwarded_request;
mod rejection;
mod token;

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use smallvec::SmallVec;
use tidegate::Nanos;
use tidegate::engine::{Credential, Request};
use tidegate_proxies::{ForwardedSource, TrustedProxies, client_address};

use crate::bounds::budget::client_network;
use crate::settings::Settings;
pub use bearer::PresentedCredential;
pub use rejection::Rejection;
use token::Tokens;
pub use token::claims::Claims;

/// Determines the identity of clients, as the settings configure it.
#[derive(Debug)]
pub struct Identity {
    trusted: TrustedProxies,
    source: ForwardedSource,
    tokens: Option<Tokens>,
    /// Has the log warned of a peer that forwards requests but is not trusted?
    has_warned: AtomicBool,
}

/// Why the keys for tokens cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// The JWKS file cannot be read.
    #[error("jwt.jwks: cannot read {}: {error}", .file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// The error.
        error: std::io::Error,
    },
    /// The JWKS file has no usable keys.
    #[error("jwt.jwks: {}: {why}", .file.display())]
    NoKeys {
        /// The file.
        file: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// The algorithm of the key is unknown.
    #[error(
        "jwt.algorithm: {0} is not a known algorithm; use HS256, HS384, HS512, RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384 or EdDSA"
    )]
    Algorithm(String),
    /// The key does not fit its algorithm.
    #[error("jwt.key: this is not a key for {algorithm}: {why}")]
    Key {
        /// The algorithm.
        algorithm: String,
        /// What is wrong.
        why: String,
    },
}

/// What is known of a client before its credential is verified.
#[derive(Clone, Copy, Debug)]
pub struct ClientInfo<'h> {
    /// The client's address.
    pub ip: IpAddr,
    /// Is the peer a trusted proxy?
    pub trusted: bool,
    /// The credential it sent; always `Nothing` if the settings have no `jwt`.
    pub presented: PresentedCredential<'h>,
}

/// The result of verifying a credential.
#[derive(Clone, Debug, Default)]
pub struct Verified {
    claims: Option<Arc<Claims>>,
    rejection: Option<Rejection>,
}

impl Verified {
    /// Whether the credential is valid, invalid, or missing.
    pub fn credential(&self) -> Credential {
        match (&self.claims, self.rejection) {
            (_, Some(_)) => Credential::Invalid,
            (Some(_), None) => Credential::Valid,
            (None, None) => Credential::None,
        }
    }

    /// Why the credential is invalid.
    pub fn rejection(&self) -> Option<Rejection> {
        self.rejection
    }

    /// Adds to a request whether its credential is valid, the claims, and the fields that follow from them.
    pub fn describe<'a>(&'a self, request: &mut Request<'a>) {
        request.credential = self.credential();
        if let Some(claims) = &self.claims {
            claims.describe(request);
        }
    }
}

impl Identity {
    /// Creates it from the settings.
    ///
    /// # Errors
    /// When the keys for tokens cannot be loaded.
    pub fn new(settings: &Settings) -> Result<Identity, IdentityError> {
        Ok(Identity {
            trusted: settings.trusted_proxies.iter().copied().collect(),
            source: settings.forwarded,
            tokens: settings.jwt.as_ref().map(Tokens::new).transpose()?,
            has_warned: AtomicBool::new(false),
        })
    }

    /// The client of a request, from its headers and the address of its connection. Header names are compared without
    /// case, and several lines of one header must be in their order. No credential is verified here.
    pub fn client_info<'h>(
        &self,
        headers: impl Iterator<Item = (&'h str, &'h [u8])>,
        peer: IpAddr,
    ) -> ClientInfo<'h> {
        let source = self.source.header();
        let mut lines: SmallVec<[&[u8]; 4]> = SmallVec::new();
        let mut authorization: SmallVec<[&[u8]; 2]> = SmallVec::new();
        for (name, value) in headers {
            if source.as_ref().is_some_and(|source| name.eq_ignore_ascii_case(source.as_str())) {
                lines.push(value);
            } else if self.tokens.is_some() && name.eq_ignore_ascii_case("authorization") {
                authorization.push(value);
            }
        }
        ClientInfo {
            ip: client_address(peer, &self.trusted, self.source, lines.iter().copied()),
            trusted: self.trusted.contains(peer),
            presented: PresentedCredential::in_lines(&authorization),
        }
    }

    /// Verifies the credential of a client. `None` if the settings have no `jwt`.
    pub fn verify(&self, who: &ClientInfo<'_>, now: Nanos) -> Option<Verified> {
        let tokens = self.tokens.as_ref()?;
        // If a proxy did not forward the client's address, its own address stands for all its clients, so failed checks
        // are not counted against it.
        let is_somebody = !self.trusted.contains(who.ip) && !who.ip.is_unspecified();
        let from = is_somebody.then(|| client_network(who.ip));
        let verified = match who.presented {
            PresentedCredential::Nothing => return Some(Verified::default()),
            PresentedCredential::Malformed => Err(Rejection::Malformed),
            PresentedCredential::Token(token) => tokens.verify(token, from, now),
        };
        Some(match verified {
            Ok(claims) => Verified { claims: Some(claims), rejection: None },
            Err(why) => {
                tracing::info!(%why, "invalid bearer token");
                Verified { claims: None, rejection: Some(why) }
            }
        })
    }

    /// Is this peer a trusted proxy?
    pub fn trusts(&self, peer: IpAddr) -> bool {
        self.trusted.contains(peer)
    }

    /// Logs a warning, once, that a peer forwards requests but is not trusted. It is nearly always a proxy that is
    /// missing in `trusted_proxies`.
    pub(crate) fn warn_untrusted_forwarder(&self, peer: IpAddr) {
        if !self.has_warned.swap(true, Ordering::Relaxed) {
            tracing::warn!(%peer, "ignoring forwarded headers: this peer is not in trusted_proxies");
        }
    }

    /// Reloads the keys for tokens.
    ///
    /// # Errors
    /// When they cannot be loaded; the previous keys stay in use.
    pub fn reload(&self) -> Result<(), IdentityError> {
        self.tokens.as_ref().map_or(Ok(()), Tokens::reload)
    }
}

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
