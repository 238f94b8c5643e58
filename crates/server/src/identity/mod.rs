//! Who asks: the client behind proxies, and what a verified token says of it.
//!
//! A header proves nothing about who sends it. The address of a client is taken from proxies that
//! are trusted, and a user, tenant, plan or client program only from a token whose signature holds.

pub(crate) mod access;
mod bearer;
pub(crate) mod client_request;
mod rejection;
mod token;

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use smallvec::SmallVec;
use tidegate::Nanos;
use tidegate::engine::{Credential, Request};
use tidegate_tower::forwarded::{ForwardedSource, TrustedProxies, client_address};

use crate::bounds::budget::client_network;
use crate::settings::Settings;
pub use bearer::PresentedCredential;
pub use rejection::Rejection;
use token::Tokens;
pub use token::claims::Claims;

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
    #[error("jwt.key: it is no key for {algorithm}: {why}")]
    Key {
        /// The algorithm.
        algorithm: String,
        /// What is wrong.
        why: String,
    },
}

/// What is known of whoever asks, before its credential was looked at.
#[derive(Clone, Copy, Debug)]
pub struct ClientInfo<'h> {
    /// The client's address.
    pub ip: IpAddr,
    /// Is what the peer forwards believed?
    pub trusted: bool,
    /// What it brings as its credential; nothing where the settings do not say how to verify one.
    pub presented: PresentedCredential<'h>,
}

/// What came of looking at a credential.
#[derive(Clone, Debug, Default)]
pub struct Verified {
    claims: Option<Arc<Claims>>,
    rejection: Option<Rejection>,
}

impl Verified {
    /// In a word.
    pub fn credential(&self) -> Credential {
        match (&self.claims, self.rejection) {
            (_, Some(_)) => Credential::Invalid,
            (Some(_), None) => Credential::Valid,
            (None, None) => Credential::None,
        }
    }

    /// Why it does not hold.
    pub fn rejection(&self) -> Option<Rejection> {
        self.rejection
    }

    /// Adds what is known to a request: whether the credential holds, the claims, and what follows from them.
    pub fn describe<'a>(&'a self, request: &mut Request<'a>) {
        request.credential = self.credential();
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
    /// without case; several lines of one header come in their order. No credential is verified here.
    pub fn who<'h>(
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

    /// Looks at what was brought as a credential. `None` where the settings do not say how.
    pub fn verify(&self, who: &ClientInfo<'_>, now: Nanos) -> Option<Verified> {
        let tokens = self.tokens.as_ref()?;
        // A proxy that does not say for whom it asks stands for everybody behind it.
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
                tracing::info!(%why, "a bearer token does not hold");
                Verified { claims: None, rejection: Some(why) }
            }
        })
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

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
