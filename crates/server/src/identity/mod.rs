//! The identity of a client: its address behind proxies, its verified token and API key, and the user, tenant and so on
//! that follow from them.
//!
//! A header alone proves nothing: headers count only if a trusted proxy has sent them. Otherwise the user, tenant, plan
//! and client program come only from a token with a valid signature, or from a known API key.

pub(crate) mod access;
pub(crate) mod api_keys;
mod bearer;
pub(crate) mod explained;
pub(crate) mod forwarded_request;
pub(crate) mod known_members;
mod rejection;
mod token;
mod verified;

use std::borrow::Cow;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use smallvec::SmallVec;
use tidegate::Nanos;
use tidegate::engine::Request;
use tidegate_policy::{IdentityFault, IdentityMember, IdentitySources};
use tidegate_proxies::{ForwardedSource, TrustedProxies, client_address};

use crate::bounds::budget::client_network;
use crate::settings::Settings;
use api_keys::ApiKeys;
pub use api_keys::{KeyFileError, KeyStatus};
pub use bearer::PresentedCredential;
use known_members::KnownMembers;
pub use rejection::Rejection;
pub(crate) use token::Tokens;
pub use token::claims::Claims;
pub use verified::Verified;

/// Determines the identity of clients, as the settings configure it.
#[derive(Debug)]
pub struct Identity {
    trusted: TrustedProxies,
    source: ForwardedSource,
    tokens: Option<Tokens>,
    /// Where members come from that the settings list.
    sources: IdentitySources,
    /// Is any member listed?
    has_sources: bool,
    keys: Option<ApiKeys>,
    /// Has the log warned of a peer that forwards requests but is not trusted?
    has_warned: AtomicBool,
}

/// Why the keys for tokens, or the API keys, cannot be loaded.
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
    /// The file of API keys cannot be loaded.
    #[error(transparent)]
    ApiKeys(#[from] KeyFileError),
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

impl Identity {
    /// Creates it from the settings.
    ///
    /// # Errors
    /// When the keys for tokens, or the API keys, cannot be loaded.
    pub fn new(settings: &Settings) -> Result<Identity, IdentityError> {
        Ok(Identity {
            trusted: settings.trusted_proxies.iter().copied().collect(),
            source: settings.forwarded,
            tokens: settings.jwt.as_ref().map(Tokens::new).transpose()?,
            sources: settings.identity.clone(),
            has_sources: !settings.identity.is_empty(),
            keys: settings.api_keys.as_ref().map(ApiKeys::load).transpose()?,
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

    /// The API key that a request has sent; `None` if there is none, or the settings have no `api_keys`. A key proves
    /// itself, so it may come from anybody.
    ///
    /// # Errors
    /// When the request has sent two different keys.
    pub fn presented_key<'h>(
        &self,
        headers: impl Iterator<Item = (&'h str, &'h [u8])>,
        request: &'h Request<'_>,
    ) -> Result<Option<Cow<'h, [u8]>>, IdentityFault> {
        match &self.keys {
            Some(keys) => keys.presented(headers, verified::query(request)),
            None => Ok(None),
        }
    }

    /// Adds to a request what the gates before the credential need to know: its upstream, if the settings list it and it
    /// does not come from a token. The arguments are those of [`Identity::describe`].
    ///
    /// # Errors
    /// When a source of it has a value that cannot be used.
    pub fn describe_upstream<'a>(
        &self,
        headers: impl Iterator<Item = (&'a str, &'a [u8])>,
        believed: bool,
        request: &mut Request<'a>,
    ) -> Result<(), IdentityFault> {
        if self.has_sources && self.sources.of(IdentityMember::Upstream).is_some() {
            let headers: SmallVec<[_; 32]> = headers.filter(|_| believed).collect();
            let known =
                self.sources.upstream_before_credential(&verified::evidence(&headers, believed, request));
            known?.describe(request);
        }
        Ok(())
    }

    /// Verifies the token of a client and looks its API key up. `None` if the settings have neither `jwt` nor `api_keys`.
    pub fn verify(&self, who: &ClientInfo<'_>, key: Option<&[u8]>, now: Nanos) -> Option<Verified> {
        if self.tokens.is_none() && self.keys.is_none() {
            return None;
        }
        let mut verified = self.verify_token(who, now);
        if let (Some(keys), Some(key)) = (&self.keys, key) {
            let checked = keys.check(key, now);
            if checked.status != KeyStatus::Valid {
                tracing::info!(why = checked.status.as_str(), denied = checked.denied, "unknown API key");
            }
            verified.key = Some(checked);
        }
        Some(verified)
    }

    fn verify_token(&self, who: &ClientInfo<'_>, now: Nanos) -> Verified {
        let Some(tokens) = &self.tokens else { return Verified::default() };
        // If a proxy did not forward the client's address, its own address stands for all its clients, so failed checks
        // are not counted against it.
        let is_somebody = !self.trusted.contains(who.ip) && !who.ip.is_unspecified();
        let from = is_somebody.then(|| client_network(who.ip));
        let verified = match who.presented {
            PresentedCredential::Nothing => return Verified::default(),
            PresentedCredential::Malformed => Err(Rejection::Malformed),
            PresentedCredential::Token(token) => tokens.verify(token, from, now),
        };
        match verified {
            Ok(claims) => Verified { claims: Some(claims), ..Verified::default() },
            Err(why) => {
                tracing::info!(%why, "invalid bearer token");
                Verified { rejection: Some(why), ..Verified::default() }
            }
        }
    }

    /// Adds to a request what its credentials prove, and the members that the settings list. `headers` are those of the
    /// request; they and its host and query are `believed` only if a trusted proxy has sent them.
    ///
    /// # Errors
    /// When a source of a listed member has a value that cannot be used.
    pub fn describe<'a>(
        &self,
        verified: &'a Verified,
        headers: impl Iterator<Item = (&'a str, &'a [u8])>,
        believed: bool,
        request: &mut Request<'a>,
    ) -> Result<(), IdentityFault> {
        verified.describe(&self.sources, request);
        if self.has_sources {
            let headers: SmallVec<[_; 32]> = headers.filter(|_| believed).collect();
            verified.resolve(&self.sources, &headers, believed, request)?.describe(request);
        }
        Ok(())
    }

    /// Each member of a request that is known, with its value and where it came from. The arguments are those of
    /// [`Identity::describe`].
    ///
    /// # Errors
    /// When a source of a listed member has a value that cannot be used.
    pub(crate) fn origins<'a>(
        &self,
        verified: &'a Verified,
        headers: impl Iterator<Item = (&'a str, &'a [u8])>,
        believed: bool,
        request: &mut Request<'a>,
    ) -> Result<KnownMembers, IdentityFault> {
        verified.describe(&self.sources, request);
        let headers: SmallVec<[_; 32]> = headers.filter(|_| believed).collect();
        let identified = verified.resolve(&self.sources, &headers, believed, request)?;
        Ok(verified.origins(&self.sources, &identified))
    }

    /// Where the client's address was found, for people.
    pub(crate) fn address_source(&self, who: &ClientInfo<'_>, peer: IpAddr) -> String {
        match self.source.header() {
            Some(header) if who.ip != peer.to_canonical() => format!("header:{header}"),
            _ => "peer".to_owned(),
        }
    }

    /// Where an API key is sent, if the settings have `api_keys`.
    pub(crate) fn key_place(&self) -> Option<String> {
        self.keys.as_ref().map(|keys| keys.place().to_string())
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

    /// Reloads the API keys.
    ///
    /// # Errors
    /// When they cannot be loaded; the previous keys stay in use.
    pub fn reload_api_keys(&self) -> Result<(), KeyFileError> {
        self.keys.as_ref().map_or(Ok(()), ApiKeys::reload)
    }
}

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
