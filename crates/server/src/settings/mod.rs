//! The settings of a server. Flags override environment variables, and both override the settings file.
//!
//! `read` parses the file, `table` describes its fields and their help, `store`, `identity` and `events` are the sections
//! with most rules of their own, `overrides` applies flags and environment, `masked` hides secrets in error output.

mod auth_table;
mod database;
mod events;
mod identity;
mod jwt_table;
mod masked;
mod oidc;
mod overrides;
mod read;
mod store;
mod table;
mod trust;

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use ipnet::IpNet;
use tidegate::engine::InvalidCredentials;
use tidegate_policy::{IdentitySources, OnStoreError};
use tidegate_proxies::ForwardedSource;

pub use database::{DatabaseSettings, Retention};
pub use events::EventSettings;
pub(crate) use events::host_name;
pub use identity::{ApiKeySettings, KeyPlace, UnknownKeys};
pub(crate) use masked::masked;
pub use oidc::OidcSettings;
pub(crate) use overrides::{FlagsAndEnvironment, kill_switch_from};
pub(crate) use read::{is_settings, read};
pub use store::SharedStoreSettings;
pub(crate) use table::reference;
pub use trust::TrustSettings;

/// A kind of listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Listener {
    /// Decisions by HTTP.
    Http,
    /// Decisions by gRPC, for Envoy.
    Grpc,
    /// Decisions by the Redis protocol.
    Resp,
    /// Health, metrics, administration.
    Admin,
}

impl Listener {
    /// All of them.
    pub const ALL: [Listener; 4] = [Listener::Http, Listener::Grpc, Listener::Resp, Listener::Admin];

    /// Its name in settings, flags and messages.
    pub const fn name(self) -> &'static str {
        match self {
            Listener::Http => "http",
            Listener::Grpc => "grpc",
            Listener::Resp => "resp",
            Listener::Admin => "admin",
        }
    }
}

/// All settings of a server. Its `Debug` output hides secrets.
#[derive(Clone)]
pub struct Settings {
    /// The addresses to listen on, in the order of [`Listener::ALL`]; `None` is off.
    pub listen: [Option<SocketAddr>; 4],
    /// The policy file; `None` is the policy in the database, or the embedded one.
    pub policy: Option<PathBuf>,
    /// The database, if there is one.
    pub database: Option<DatabaseSettings>,
    /// How many keys can be tracked at once.
    pub max_keys: usize,
    /// How many nodes divide the limits among themselves; rates and bursts are divided by it.
    pub nodes: u32,
    /// The store that nodes share; `None` is this node's memory.
    pub shared: Option<SharedStoreSettings>,
    /// What limits without their own `on_store_error` do while the shared store is unavailable.
    pub on_store_error: OnStoreError,
    /// The proxies whose forwarded client address is believed.
    pub trusted_proxies: Vec<IpNet>,
    /// The header in which they pass on the client's address.
    pub forwarded: ForwardedSource,
    /// TLS for HTTP, gRPC and administration.
    pub tls: Option<TlsFiles>,
    /// Host names that the admin listener accepts, besides IP addresses and `localhost`.
    pub admin_hosts: Vec<String>,
    /// The console's address for the links in problem bodies; `None` is no links.
    pub console_link: Option<String>,
    /// The bearer token that `/v1/refund`, `/v1/throttle` and `/v1/identify` require where they are not on loopback.
    pub http_token: Option<String>,
    /// The admin token of a server without a database; `None` makes a new one at each start.
    pub admin_token: Option<String>,
    /// The identity provider whose tokens the admin API accepts.
    pub oidc: Option<OidcSettings>,
    /// Is the admin API answered without TLS on a listener that other machines reach?
    pub admin_insecure: bool,
    /// Does each tenant's limit have metrics of its own, rather than one sum over all tenants?
    pub tenant_metrics: bool,
    /// Which problems make `/readyz` answer 503.
    pub readiness: ReadinessRule,
    /// The password of the RESP listener.
    pub resp_password: Option<String>,
    /// How the bearer tokens of clients are verified.
    pub jwt: Option<Jwt>,
    /// Where the members of a proxied request come from.
    pub identity: IdentitySources,
    /// The API keys of clients.
    pub api_keys: Option<ApiKeySettings>,
    /// How the trust of requests is computed, if it is.
    pub trust: Option<TrustSettings>,
    /// The format of the log.
    pub log: LogFormat,
    /// The OTLP endpoint that traces are sent to.
    pub otlp: Option<String>,
    /// Where events go; `None` is nowhere.
    pub events: Option<EventSettings>,
    /// Number of worker threads; `None` is one less than the number of cores.
    pub workers: Option<usize>,
}

/// Which problems make `/readyz` answer 503.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadinessRule {
    /// None: only a server that starts or shuts down is unready.
    #[default]
    Lenient,
    /// Each problem of the store, the policy or another file.
    Strict,
}

/// A certificate chain and its key, both PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The chain.
    pub cert: PathBuf,
    /// The key.
    pub key: PathBuf,
}

/// How the bearer tokens of clients are verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Jwt {
    /// The keys to verify with.
    pub key: JwtKey,
    /// The required `iss`.
    pub issuer: Option<String>,
    /// The value that `aud` must contain.
    pub audience: Option<String>,
    /// What happens to requests with an invalid token.
    pub invalid: InvalidCredentials,
}

/// The keys that tokens are verified with.
#[derive(Clone, PartialEq, Eq)]
pub enum JwtKey {
    /// A file with a JSON Web Key Set.
    Jwks(PathBuf),
    /// One key, a secret or PEM, and its only algorithm.
    Key {
        /// The key.
        key: String,
        /// Such as `HS256`.
        algorithm: String,
    },
}

/// The format of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// Plain text.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

impl Default for Settings {
    fn default() -> Settings {
        let loopback = |port| Some(SocketAddr::from(([127, 0, 0, 1], port)));
        Settings {
            listen: [loopback(8080), loopback(8081), loopback(6380), loopback(9090)],
            policy: None,
            database: None,
            max_keys: 10_000_000,
            nodes: 1,
            shared: None,
            on_store_error: OnStoreError::Local,
            trusted_proxies: ["127.0.0.1/32", "::1/128"].map(|net| net.parse().expect("a network")).into(),
            forwarded: ForwardedSource::XForwardedFor,
            tls: None,
            admin_hosts: Vec::new(),
            console_link: None,
            admin_token: None,
            oidc: None,
            admin_insecure: false,
            tenant_metrics: false,
            readiness: ReadinessRule::Lenient,
            http_token: None,
            resp_password: None,
            jwt: None,
            identity: IdentitySources::new(),
            api_keys: None,
            trust: None,
            log: LogFormat::Text,
            otlp: None,
            events: None,
            workers: None,
        }
    }
}

impl Settings {
    /// The address of a listener; `None` is off.
    pub fn address(&self, listener: Listener) -> Option<SocketAddr> {
        self.listen[listener as usize]
    }
}

/// Printed in place of a secret.
const HIDDEN: &str = "(hidden)";

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Settings {
            listen,
            policy,
            database,
            admin_token,
            admin_insecure,
            max_keys,
            nodes,
            shared,
            on_store_error,
            ..
        } = self;
        let Settings {
            tenant_metrics,
            trusted_proxies,
            forwarded,
            admin_hosts,
            readiness,
            identity,
            api_keys,
            oidc,
            ..
        } = self;
        let Settings { tls, http_token, resp_password, jwt, trust, log, otlp, events, workers, .. } = self;
        f.debug_struct("Settings")
            .field("listen", listen)
            .field("policy", policy)
            .field("database", database)
            .field("max_keys", max_keys)
            .field("nodes", nodes)
            .field("shared", shared)
            .field("on_store_error", on_store_error)
            .field("trusted_proxies", trusted_proxies)
            .field("forwarded", forwarded)
            .field("tls", tls)
            .field("admin_hosts", admin_hosts)
            .field("admin_token", &admin_token.as_ref().map(|_| HIDDEN))
            .field("oidc", oidc)
            .field("admin_insecure", admin_insecure)
            .field("tenant_metrics", tenant_metrics)
            .field("readiness", readiness)
            .field("http_token", &http_token.as_ref().map(|_| HIDDEN))
            .field("resp_password", &resp_password.as_ref().map(|_| HIDDEN))
            .field("jwt", jwt)
            .field("identity", identity)
            .field("api_keys", api_keys)
            .field("trust", trust)
            .field("log", log)
            // A URL may contain a password.
            .field("otlp", &otlp.as_ref().map(|_| HIDDEN))
            .field("events", events)
            .field("workers", workers)
            .finish()
    }
}

impl fmt::Debug for JwtKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JwtKey::Jwks(file) => f.debug_tuple("Jwks").field(file).finish(),
            JwtKey::Key { algorithm, .. } => {
                f.debug_struct("Key").field("key", &HIDDEN).field("algorithm", algorithm).finish()
            }
        }
    }
}

#[cfg(test)]
mod tests;
