//! A real server: Redis or Valkey, single, under Sentinel, or a Cluster.
//!
//! There is one connection to each server, and all calls share it: they are sent as they come and answered in
//! their order, so that many cost few reads and writes. Each has a deadline, and none is sent twice.

mod address;
mod backoff;
mod cluster;
mod connection;
mod connector;
mod master_choice;
mod reply;
mod sentinels;
mod slots;
mod tls;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use redis::{Cmd, Value};
use tidegate_core::Nanos;
use tokio::runtime::Handle;

use crate::BucketKey;
use crate::link::{CallAnswer, Link, LinkError, ScriptCall};
use crate::wire::{self, EncodedCall};
use address::{RedisAddress, Topology};
use cluster::Cluster;
use connection::RedisConnection;
use connector::{ConnectOptions, ConnectTarget, Connector};
use reply::ReplyAction;
use sentinels::Sentinels;
use tls::TrustedRoots;

pub use address::AddressError;
pub use sentinels::MasterWatch;

/// How long connecting may take: ten deadlines, but at least and at most so long.
const CONNECT_AT_LEAST: Duration = Duration::from_millis(500);
/// Longer, and a server that is back would not be known to be within two seconds.
const CONNECT_AT_MOST: Duration = Duration::from_secs(1);

/// How long a beat waits for the first attempt to connect.
const FIRST_ATTEMPT: Duration = Duration::from_secs(1);

/// Where the server is and how to talk to it.
#[derive(Clone)]
pub struct RedisClientOptions {
    /// Its address: `redis://[user:password@]host:port[/db]`, `redis+sentinel://host:port,host:port/name[/db]` or
    /// `redis+cluster://host:port,host:port`; `rediss` instead of `redis` speaks TLS, and `valkey` and `valkeys`
    /// are other words for the two.
    pub url: String,
    /// How long an answer may take.
    pub deadline: Nanos,
    /// How keys begin.
    pub prefix: String,
    /// A file with the certificates (PEM) of those who sign the server's, beside the roots of the system.
    pub ca: Option<PathBuf>,
}

impl RedisClientOptions {
    /// How long an answer may take unless somebody says otherwise.
    pub const DEADLINE: Nanos = Nanos::from_millis(20);

    /// The usual ones.
    pub fn new(url: impl Into<String>) -> RedisClientOptions {
        RedisClientOptions { url: url.into(), deadline: Self::DEADLINE, prefix: "tidegate".into(), ca: None }
    }
}

impl fmt::Debug for RedisClientOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerOptions")
            .field("url", &address::without_login(&self.url))
            .field("deadline", &self.deadline)
            .field("prefix", &self.prefix)
            .field("ca", &self.ca)
            .finish()
    }
}

/// Why there is no such server.
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
    /// There are no certificates to trust.
    #[error("the system has no root certificates; install them, or name a file with those to trust")]
    NoRoots,
    /// There is nothing to run the connection on.
    #[error(
        "connect within a tokio runtime that has its timers and sockets enabled: the connection lives there"
    )]
    NoRuntime,
}

/// A link to a real server. It connects by itself, and again whenever the connection is lost; meanwhile calls fail
/// at once. Only while the very first attempt is under way, or the first at another master, they wait for it.
///
/// It may be used from any thread and any runtime. The connection itself lives on the runtime that
/// [`RedisClient::connect`] was called on, and ends when this is dropped.
#[derive(Debug)]
pub struct RedisClient {
    wires: Wires,
    sentinels: Option<Arc<Sentinels>>,
    deadline: Nanos,
    prefix: String,
}

#[derive(Debug)]
enum Wires {
    One(RedisConnection),
    Many(Cluster),
}

impl RedisClient {
    /// A link that begins to connect at once, on the runtime it is made on.
    ///
    /// # Errors
    /// When the address or the file of certificates cannot be read, or there is no runtime. That the server cannot
    /// be reached is no error: it may come.
    pub fn connect(options: RedisClientOptions) -> Result<RedisClient, RedisClientError> {
        let address = RedisAddress::parse(&options.url)?;
        let trust = if address.tls { Some(TrustedRoots::load(options.ca.as_deref())?) } else { None };
        let runtime = Handle::try_current().map_err(|_| RedisClientError::NoRuntime)?;
        let manners = Arc::new(ConnectOptions {
            login: address.login,
            db: address.db,
            trust,
            within: (Duration::from(options.deadline) * 10).clamp(CONNECT_AT_LEAST, CONNECT_AT_MOST),
        });
        let line = |goal| {
            Wires::One(RedisConnection::start(&runtime, Connector { manners: Arc::clone(&manners), goal }))
        };
        let mut watched = None;
        let wires = match address.topology {
            Topology::Single(place) => line(ConnectTarget::Place(place)),
            Topology::Sentinel { sentinels, master } => {
                let sentinels = Sentinels::start(&runtime, Arc::clone(&manners), sentinels, master);
                line(ConnectTarget::Master(Arc::clone(watched.insert(Arc::new(sentinels)))))
            }
            Topology::Cluster { seeds } => Wires::Many(Cluster::start(&runtime, manners, seeds)),
        };
        Ok(RedisClient { wires, sentinels: watched, deadline: options.deadline, prefix: options.prefix })
    }

    /// What is known of the master, where Sentinels watch over it.
    pub fn master_watch(&self) -> Option<MasterWatch> {
        self.sentinels.as_ref().map(|sentinels| sentinels.known())
    }

    /// Runs a script by its name, and with its text where the server does not know it: then it was not run.
    async fn run(&self, encoded: &EncodedCall) -> Result<Value, LinkError> {
        let running = async {
            match self.wires.send(encoded, &by_name(encoded)).await? {
                ReplyAction::NoScript => self.wires.send(encoded, &by_text(encoded)).await?.into_answer(),
                other => other.into_answer(),
            }
        };
        match tokio::time::timeout(self.deadline.into(), running).await {
            Ok(result) => result,
            Err(_) => Err(LinkError::Timeout(self.deadline)),
        }
    }
}

impl Wires {
    async fn send(&self, encoded: &EncodedCall, command: &Cmd) -> Result<ReplyAction, LinkError> {
        match self {
            Wires::One(line) => {
                let reply = ReplyAction::read(line.send(command, false).await?, line.place());
                if matches!(reply, ReplyAction::NotMaster(_)) {
                    line.look_again();
                }
                Ok(reply)
            }
            Wires::Many(cluster) => {
                let key = encoded.keys.first().map_or("", |key| &key.0);
                cluster.send(key.as_bytes(), command).await
            }
        }
    }

    async fn settled(&self) {
        match self {
            Wires::One(line) => line.settled().await,
            Wires::Many(cluster) => cluster.settled().await,
        }
    }
}

fn by_name(encoded: &EncodedCall) -> Cmd {
    with_arguments(redis::cmd("EVALSHA"), &encoded.script.sha, encoded)
}

fn by_text(encoded: &EncodedCall) -> Cmd {
    with_arguments(redis::cmd("EVAL"), &encoded.script.text, encoded)
}

fn with_arguments(mut command: Cmd, script: &str, encoded: &EncodedCall) -> Cmd {
    command.arg(script).arg(encoded.keys.len());
    for key in &encoded.keys {
        command.arg(&*key.0);
    }
    for argument in &encoded.args {
        command.arg(argument.as_slice());
    }
    command
}

impl Link for RedisClient {
    async fn call(&self, call: &ScriptCall) -> Result<CallAnswer, LinkError> {
        let reply = self.run(&wire::encode(call)).await?;
        wire::decode(call, reply)
    }

    async fn beat(&self, node: u128, alive: bool, within: Nanos) -> Result<u32, LinkError> {
        // Who starts wants to know how the first attempt comes out, not that it is still under way.
        let _ = tokio::time::timeout(FIRST_ATTEMPT, self.wires.settled()).await;
        let reply = self.run(&wire::encode_beat(&self.prefix, node, alive, within)).await?;
        wire::decode_beat(reply)
    }

    fn has_slots(&self) -> bool {
        matches!(self.wires, Wires::Many(_))
    }

    fn part(&self, key: &BucketKey) -> usize {
        match &self.wires {
            Wires::One(_) => 0,
            Wires::Many(cluster) => cluster.part(key.0.as_bytes()),
        }
    }
}
