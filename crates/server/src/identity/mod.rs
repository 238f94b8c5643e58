//! Who asks: the client behind proxies, and what a verified token says of it.
//!
//! A header proves nothing about who sends it. The address of a client is taken from proxies that
//! are trusted, and a user, tenant, plan or client program only from a token whose signature holds.

pub(crate) mod access;
mod cache;
mod claims;
pub(crate) mod client_request;
mod keys;
mod tokens;

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use smallvec::SmallVec;
use tidegate::Nanos;
use tidegate::policy::Request;
use tidegate_tower::forwarded::{ForwardedSource, TrustedProxies, client_address};

use crate::settings::Settings;
pub use claims::Claims;
use tokens::Tokens;

/// How to find out who asks.
#[derive(Debug)]
pub struct Identity {
    trusted: TrustedProxies,
    source: ForwardedSource,
    tokens: Option<Tokens>,
    /// Was it said that somebody forwards and is not trusted?
    told_of_stranger: AtomicBool,
}

/// Why it cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// The file with the keys cannot be read.
    #[error("cannot read {}: {error}", .file.display())]
    Unreadable {
        /// Which.
        file: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// It has no keys that can be used.
    #[error("{}: {why}", .file.display())]
    NoKeys {
        /// Which.
        file: PathBuf,
        /// Why.
        why: String,
    },
    /// The algorithm of the key is not known.
    #[error(
        "jwt.algorithm: {0} is not known; use HS256, HS384, HS512, RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384 or EdDSA"
    )]
    Algorithm(String),
    /// The key is none for its algorithm.
    #[error("jwt.key: it is no key for {algorithm}: {error}")]
    Key {
        /// The algorithm.
        algorithm: String,
        /// What is wrong.
        error: jsonwebtoken::errors::Error,
    },
}

/// What is known of whoever asks.
#[derive(Clone, Debug)]
pub struct Who {
    /// The client's address.
    pub ip: IpAddr,
    /// Is what the peer forwards believed?
    pub trusted: bool,
    /// What its token says, if it has one that holds.
    pub claims: Option<Arc<Claims>>,
    /// It has a token that does not hold.
    pub token_rejected: bool,
}

impl Who {
    /// Adds what is known to a request: the address, the claims, and what follows from them.
    pub fn describe<'a>(&'a self, request: &mut Request<'a>) {
        request.ip = Some(self.ip);
        if let Some(claims) = &self.claims {
            claims.describe(request);
        }
    }
}

impl Identity {
    /// As the settings say.
    ///
    /// # Errors
    /// When keys cannot be read.
    pub fn new(settings: &Settings) -> Result<Identity, IdentityError> {
        Ok(Identity {
            trusted: settings.trusted_proxies.iter().copied().collect(),
            source: settings.forwarded,
            tokens: settings.jwt.as_ref().map(Tokens::new).transpose()?,
            told_of_stranger: AtomicBool::new(false),
        })
    }

    /// Who asks, by the headers of a request and the address it came from. Names of headers compare
    /// without case; several lines of one header come in their order.
    pub fn who<'h>(
        &self,
        headers: impl Iterator<Item = (&'h str, &'h [u8])>,
        peer: IpAddr,
        now: Nanos,
    ) -> Who {
        let source = self.source.header();
        let mut lines: SmallVec<[&[u8]; 4]> = SmallVec::new();
        let (mut authorization, mut credentials) = (None, 0_usize);
        for (name, value) in headers {
            if source.as_ref().is_some_and(|source| name.eq_ignore_ascii_case(source.as_str())) {
                lines.push(value);
            } else if self.tokens.is_some() && name.eq_ignore_ascii_case("authorization") {
                credentials += 1;
                authorization = Some(value);
            }
        }
        // Who sends two does not get to choose which one is looked at.
        let verified = match (&self.tokens, authorization.and_then(bearer)) {
            (Some(_), Some(_)) if credentials > 1 => Some(None),
            (Some(tokens), Some(token)) => Some(tokens.verify(token, now)),
            _ => None,
        };
        Who {
            ip: client_address(peer, &self.trusted, self.source, lines.iter().copied()),
            trusted: self.trusted.contains(peer),
            token_rejected: matches!(verified, Some(None)),
            claims: verified.flatten(),
        }
    }

    /// Is what comes from there believed about others?
    pub fn trusts(&self, peer: IpAddr) -> bool {
        self.trusted.contains(peer)
    }

    /// The first time somebody forwards a request who is not trusted, the log says so: it is nearly
    /// always a proxy that is missing in the settings.
    pub(crate) fn stranger_forwards(&self, peer: IpAddr) {
        if !self.told_of_stranger.swap(true, Ordering::Relaxed) {
            tracing::warn!(%peer, "forwarded headers are ignored: trusted_proxies does not have this peer");
        }
    }

    /// Reads the keys again.
    ///
    /// # Errors
    /// When they cannot be read; those from before are kept.
    pub fn reload(&self) -> Result<(), IdentityError> {
        self.tokens.as_ref().map_or(Ok(()), Tokens::reload)
    }
}

/// The token of `Authorization: Bearer …`.
pub(crate) fn bearer(authorization: &[u8]) -> Option<&[u8]> {
    const SCHEME: &[u8] = b"Bearer ";
    let (scheme, token) = authorization.split_at_checked(SCHEME.len())?;
    scheme.eq_ignore_ascii_case(SCHEME).then(|| token.trim_ascii())
}

#[cfg(test)]
mod tests;
