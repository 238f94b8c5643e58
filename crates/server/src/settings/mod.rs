//! What a server is told to do: by flags, by the environment, by a file, in this order.

mod given;
mod masked;
mod read;
mod store;
mod table;

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use ipnet::IpNet;
use tidegate::engine::InvalidCredentials;
use tidegate_policy::OnStoreError;
use tidegate_proxies::ForwardedSource;

pub(crate) use given::{FlagsAndEnvironment, kill_switch_from};
pub(crate) use masked::masked;
pub(crate) use read::read;
pub use store::SharedStoreSettings;
pub(crate) use table::reference;

/// A kind of listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Listener {
    /// Decisions by HTTP.
    Http,
    /// Decisions by gRPC, as Envoy asks for them.
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

/// Everything that a server is told. What it prints for `Debug` has no secrets.
#[derive(Clone)]
pub struct Settings {
    /// Where to listen, in the order of [`Listener::ALL`]; `None` is off.
    pub listen: [Option<SocketAddr>; 4],
    /// The policy; the embedded one without it.
    pub policy: Option<PathBuf>,
    /// How many keys can be told apart at once.
    pub max_keys: usize,
    /// How many nodes share the limits; rates and bursts are divided by it.
    pub nodes: u32,
    /// The store that nodes share; the memory of this one without it.
    pub shared: Option<SharedStoreSettings>,
    /// What limits do that do not say it, while the shared store cannot be asked.
    pub on_store_error: OnStoreError,
    /// Who may say on whose behalf it asks.
    pub trusted_proxies: Vec<IpNet>,
    /// The one header that they tell the client's address by.
    pub forwarded: ForwardedSource,
    /// TLS for HTTP and gRPC.
    pub tls: Option<TlsFiles>,
    /// Names by which the admin listener may be asked, beside addresses and localhost.
    pub admin_hosts: Vec<String>,
    /// The bearer token of `/v1/refund` and `/v1/throttle` where they are not on loopback.
    pub http_token: Option<String>,
    /// The password of the RESP listener.
    pub resp_password: Option<String>,
    /// How tokens of clients are verified.
    pub jwt: Option<Jwt>,
    /// How logs are written.
    pub log: LogFormat,
    /// Where traces go.
    pub otlp: Option<String>,
    /// Threads that answer; one fewer than there are cores without it.
    pub workers: Option<usize>,
}

/// A certificate chain and its key, both PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The chain.
    pub cert: PathBuf,
    /// The key.
    pub key: PathBuf,
}

/// How tokens of clients are verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Jwt {
    /// By what.
    pub key: JwtKey,
    /// `iss` must be this.
    pub issuer: Option<String>,
    /// `aud` must have this.
    pub audience: Option<String>,
    /// What becomes of requests whose token does not hold.
    pub invalid: InvalidCredentials,
}

/// What tokens are verified with.
#[derive(Clone, PartialEq, Eq)]
pub enum JwtKey {
    /// A file with a JSON Web Key Set.
    Jwks(PathBuf),
    /// One key, a secret or PEM, and the one algorithm that it is for.
    Key {
        /// The key.
        key: String,
        /// Such as `HS256`.
        algorithm: String,
    },
}

/// How logs are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// For machines.
    Json,
}

impl Default for Settings {
    fn default() -> Settings {
        let loopback = |port| Some(SocketAddr::from(([127, 0, 0, 1], port)));
        Settings {
            listen: [loopback(8080), loopback(8081), loopback(6380), loopback(9090)],
            policy: None,
            max_keys: 10_000_000,
            nodes: 1,
            shared: None,
            on_store_error: OnStoreError::Local,
            trusted_proxies: ["127.0.0.1/32", "::1/128"].map(|net| net.parse().expect("a network")).into(),
            forwarded: ForwardedSource::XForwardedFor,
            tls: None,
            admin_hosts: Vec::new(),
            http_token: None,
            resp_password: None,
            jwt: None,
            log: LogFormat::Text,
            otlp: None,
            workers: None,
        }
    }
}

impl Settings {
    /// Where a listener is to be.
    pub fn address(&self, listener: Listener) -> Option<SocketAddr> {
        self.listen[listener as usize]
    }
}

/// What stands for a secret wherever it would be printed.
const HIDDEN: &str = "(hidden)";

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Settings { listen, policy, max_keys, nodes, shared, on_store_error, .. } = self;
        let Settings { trusted_proxies, forwarded, admin_hosts, .. } = self;
        let Settings { tls, http_token, resp_password, jwt, log, otlp, workers, .. } = self;
        f.debug_struct("Settings")
            .field("listen", listen)
            .field("policy", policy)
            .field("max_keys", max_keys)
            .field("nodes", nodes)
            .field("shared", shared)
            .field("on_store_error", on_store_error)
            .field("trusted_proxies", trusted_proxies)
            .field("forwarded", forwarded)
            .field("tls", tls)
            .field("admin_hosts", admin_hosts)
            .field("http_token", &http_token.as_ref().map(|_| HIDDEN))
            .field("resp_password", &resp_password.as_ref().map(|_| HIDDEN))
            .field("jwt", jwt)
            .field("log", log)
            // An address may carry a password.
            .field("otlp", &otlp.as_ref().map(|_| HIDDEN))
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
