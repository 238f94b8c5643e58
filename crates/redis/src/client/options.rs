//! What a client needs to know: the address of a server, and how to connect to it.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;

use super::address::{self, AddressError, RedisAddress, Topology};
use super::connector::ConnectOptions;
use super::tls::TrustedRoots;

/// Connecting may take ten deadlines, but at least this long…
const CONNECT_TIMEOUT_MIN: Duration = Duration::from_millis(500);
/// …and at most this long, so that a server that is back is found within two seconds.
const CONNECT_TIMEOUT_MAX: Duration = Duration::from_secs(1);

/// A connection that is checked may take one deadline to answer, since calls on it may too; but at least this long…
const PING_TIMEOUT_MIN: Duration = Duration::from_millis(250);
/// …and at most this long, so that a server that is gone is noticed soon.
const PING_TIMEOUT_MAX: Duration = Duration::from_secs(1);

/// The address of a server, and how to connect to it. [`RedisClientOptions::new`] has the defaults.
#[derive(Clone)]
pub struct RedisClientOptions {
    /// The address: `redis://[user:password@]host:port[/db]`, `redis+sentinel://host:port,host:port/name[/db]` or
    /// `redis+cluster://host:port,host:port`; `rediss` instead of `redis` uses TLS, and `valkey` and
    /// `valkeys` mean the same as the two.
    pub url: String,
    /// The longest that a call may take.
    pub deadline: Duration,
    /// A file with certificates (PEM) of authorities to trust, in addition to the roots of the system.
    pub ca: Option<PathBuf>,
}

impl RedisClientOptions {
    /// The default deadline.
    pub const DEADLINE: Duration = Duration::from_millis(20);

    /// The default options for an address.
    pub fn new(url: impl Into<String>) -> RedisClientOptions {
        RedisClientOptions { url: url.into(), deadline: Self::DEADLINE, ca: None }
    }

    /// The servers, how to connect to them, and the runtime for it.
    pub(super) fn resolve(&self) -> Result<(Topology, Arc<ConnectOptions>, Handle), RedisClientError> {
        let address = RedisAddress::parse(&self.url)?;
        let trust = if address.tls { Some(TrustedRoots::load(self.ca.as_deref())?) } else { None };
        let runtime = Handle::try_current().map_err(|_| RedisClientError::NoRuntime)?;
        let connect_timeout =
            self.deadline.saturating_mul(10).clamp(CONNECT_TIMEOUT_MIN, CONNECT_TIMEOUT_MAX);
        let ping_timeout = self.deadline.clamp(PING_TIMEOUT_MIN, PING_TIMEOUT_MAX);
        let options =
            ConnectOptions { login: address.login, db: address.db, trust, connect_timeout, ping_timeout };
        Ok((address.topology, Arc::new(options), runtime))
    }
}

impl fmt::Debug for RedisClientOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisClientOptions")
            .field("url", &address::without_login(&self.url))
            .field("deadline", &self.deadline)
            .field("ca", &self.ca)
            .finish()
    }
}

/// Why a client cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RedisClientError {
    /// The address cannot be read.
    #[error(transparent)]
    RedisAddress(#[from] AddressError),
    /// The file of certificates cannot be used.
    #[error("{file}: {why}; name a readable file with certificates in PEM form", file = file.display())]
    Authority {
        /// Which file.
        file: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// TLS is requested, and there are no root certificates to trust.
    #[error("the system has no root certificates; install them, or name a file of certificates to trust")]
    NoRoots,
    /// There is no tokio runtime to run the connection on.
    #[error(
        "there is no tokio runtime; connect within one that has timers and IO enabled, which runs the connection"
    )]
    NoRuntime,
}
