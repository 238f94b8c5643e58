//! The connections to a real server: one Redis or Valkey, a master under Sentinel, or a Cluster.
//!
//! All calls to a server share one connection: they are pipelined, so that many calls need few reads and writes. Each
//! has a deadline, and none is sent twice.

mod address;
mod backoff;
mod cluster;
mod connection;
mod connector;
mod options;
mod reply;
mod sentinels;
mod tls;
mod together;
mod wake_ups;

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use redis::{Cmd, Value};

use crate::calls::bursts::{decode_bursts, encode_bursts};
use crate::calls::fleet::{self, FleetCall};
use crate::calls::live::{
    SharedLiveChange, SharedLiveHead, SharedLiveOutcome, SharedLivePage, decode_change, decode_page,
    encode_change, encode_page,
};
use crate::calls::penalties::{decode_penalties, encode_penalties};
use crate::calls::wire::{self, EncodedCall};
use crate::calls::{
    BurstAnswer, BurstCall, CallAnswer, Heartbeat, Link, LinkError, PenaltyListAnswer, PenaltyListCall,
    ScriptCall,
};
use crate::registry::BucketKey;
use address::Topology;
use cluster::Cluster;
use connection::RedisConnection;
use connector::{ConnectTarget, Connector};
use reply::ReplyAction;
use sentinels::Sentinels;
use together::{CallReply, GatheredCalls, SendRole};

pub use address::AddressError;
pub use options::{RedisClientError, RedisClientOptions};
pub use sentinels::MasterWatch;
pub use wake_ups::{WakeTopic, WakeUps};

/// How long a heartbeat waits for the first attempt to connect.
const FIRST_ATTEMPT: Duration = Duration::from_secs(1);

/// A client of a real server. It connects by itself, and reconnects whenever the connection is lost; until then calls
/// fail at once. Only during the very first attempt, or the first attempt at a new master, do calls wait for the
/// connection.
///
/// It may be used from any thread and any runtime. The connection is a task of the runtime on which
/// [`RedisClient::connect`] was called, and ends when the client is dropped.
#[derive(Debug)]
pub struct RedisClient {
    connections: Connections,
    sentinels: Option<Arc<Sentinels>>,
    deadline: Duration,
    /// The one server is a node of a Cluster, though its address does not say so: calls are no longer sent as one, since
    /// their keys are in different slots.
    has_undeclared_slots: AtomicBool,
}

#[derive(Debug)]
enum Connections {
    One(RedisConnection),
    Many(Cluster),
}

impl RedisClient {
    /// Starts to connect, on the current tokio runtime.
    ///
    /// # Errors
    /// When the address or the file of certificates cannot be read, or there is no runtime. A server that cannot be
    /// reached is no error: it may come up later.
    pub fn connect(options: RedisClientOptions) -> Result<RedisClient, RedisClientError> {
        let (topology, connect_options, runtime) = options.resolve()?;
        let connection = |target| {
            Connections::One(RedisConnection::start(
                &runtime,
                Connector { connect_options: Arc::clone(&connect_options), target },
            ))
        };
        let mut watched = None;
        let connections = match topology {
            Topology::Single(address) => connection(ConnectTarget::Address(address)),
            Topology::Sentinel { sentinels, master } => {
                let sentinels = Sentinels::start(&runtime, Arc::clone(&connect_options), sentinels, master);
                connection(ConnectTarget::Master(Arc::clone(watched.insert(Arc::new(sentinels)))))
            }
            Topology::Cluster { seeds } => {
                Connections::Many(Cluster::start(&runtime, connect_options, seeds))
            }
        };
        let has_undeclared_slots = AtomicBool::new(false);
        Ok(RedisClient { connections, sentinels: watched, deadline: options.deadline, has_undeclared_slots })
    }

    /// The master and its Sentinels, if the address names Sentinels.
    pub fn master_watch(&self) -> Option<MasterWatch> {
        self.sentinels.as_ref().map(|sentinels| sentinels.known())
    }

    /// Reads live entries.
    pub(crate) async fn live_page(
        &self,
        key: &BucketKey,
        seen: SharedLiveHead,
        after: u64,
        most: u32,
    ) -> Result<SharedLivePage, LinkError> {
        decode_page(&self.run(encode_page(key, seen, after, most)).await?)
    }

    /// Changes live entries.
    pub(crate) async fn change_live(
        &self,
        key: &BucketKey,
        change: &SharedLiveChange,
    ) -> Result<SharedLiveOutcome, LinkError> {
        decode_change(&self.run(encode_change(key, change)).await?)
    }

    /// Tells other nodes of this one, or reads what they have told. Returns the reply as it is.
    pub(crate) async fn call_fleet(&self, key: &BucketKey, call: FleetCall<'_>) -> Result<Value, LinkError> {
        self.run(fleet::encode(key, call)).await
    }

    /// Runs all plain calls that begin at the same time as one, and returns the reply to the first of them.
    async fn run_gathered(&self, gathered: Arc<GatheredCalls>) -> CallReply {
        gathered.complete().await;
        let (all, sent) = gathered.take();
        if sent.is_only_first() {
            return self.run(all.encode()).await;
        }
        let first_keys = all.first_keys();
        let mut encoded = all.encode();
        let mut cross_slot = None;
        let running = async {
            let reply = self.run_script(&encoded).await;
            if !reply::is_cross_slot(&reply) {
                return reply;
            }
            // Alone, each may have all its keys in one slot. The first cannot wait until it is asked for again.
            self.has_undeclared_slots.store(true, Ordering::Relaxed);
            cross_slot = reply.err();
            encoded.keep_first(first_keys);
            Box::pin(self.run_script(&encoded)).await
        };
        let reply = self.within_deadline(running).await;
        match cross_slot {
            None => sent.pass_on(reply, |reply| self.connections.read(reply).into_answer()),
            Some(refused) => {
                sent.fail(refused);
                reply
            }
        }
    }

    /// Its address in memory, which tells it from other clients for as long as it is borrowed.
    fn identity(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Runs a script.
    pub(crate) async fn run(&self, encoded: EncodedCall) -> Result<Value, LinkError> {
        self.within_deadline(async move { self.run_script(&encoded).await }).await
    }

    /// Runs a script by its SHA-1. A server that does not know it has not run it; then sends the text.
    async fn run_script(&self, encoded: &EncodedCall) -> CallReply {
        match self.connections.send(encoded, &eval_sha(encoded)).await? {
            ReplyAction::NoScript => {
                // Boxed, because it is rare, and this future is moved in every decision that waits for the server.
                let text = eval(encoded);
                Box::pin(self.connections.send(encoded, &text)).await?.into_answer()
            }
            other => other.into_answer(),
        }
    }

    async fn within_deadline(&self, running: impl Future<Output = CallReply>) -> CallReply {
        // Boxed, because tokio aligns timers to 128 bytes, and whatever contains one is slow to allocate.
        match Box::pin(tokio::time::timeout(self.deadline, running)).await {
            Ok(result) => result,
            Err(_) => Err(LinkError::Timeout(self.deadline.into())),
        }
    }
}

impl Connections {
    async fn send(&self, encoded: &EncodedCall, command: &Cmd) -> Result<ReplyAction, LinkError> {
        match self {
            Connections::One(connection) => Ok(self.read(connection.send(command, false).await?)),
            Connections::Many(cluster) => {
                let key = encoded.keys.first().map_or("", |key| &key.0);
                // Boxed, so that callers of a single server do not have to move it.
                Box::pin(cluster.send(key.as_bytes(), command)).await
            }
        }
    }

    /// Classifies a reply, or a part of one, of a server that was asked without redirects. If it is not the master, finds
    /// the master again.
    fn read(&self, reply: Value) -> ReplyAction {
        let Connections::One(connection) = self else { return ReplyAction::read(reply, None) };
        let action = ReplyAction::read(reply, connection.address());
        if matches!(action, ReplyAction::NotMaster(_)) {
            connection.find_master_again();
        }
        action
    }

    async fn first_attempt_done(&self) {
        match self {
            Connections::One(connection) => connection.first_attempt_done().await,
            Connections::Many(cluster) => cluster.first_attempt_done().await,
        }
    }
}

fn eval_sha(encoded: &EncodedCall) -> Cmd {
    command("EVALSHA", &encoded.script.sha, encoded)
}

fn eval(encoded: &EncodedCall) -> Cmd {
    command("EVAL", &encoded.script.text, encoded)
}

/// The most digits of a number of keys.
const COUNT_DIGITS_MAX: usize = 20;

fn command(name: &str, script: &str, encoded: &EncodedCall) -> Cmd {
    let keys: usize = encoded.keys.iter().map(|key| key.0.len()).sum();
    let args: usize = encoded.args.iter().map(Vec::len).sum();
    let bytes = name.len() + script.len() + COUNT_DIGITS_MAX + keys + args;
    let mut command = Cmd::with_capacity(3 + encoded.keys.len() + encoded.args.len(), bytes);
    command.arg(name).arg(script).arg(encoded.keys.len());
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
        let reply = match SendRole::of(call, self.identity()) {
            SendRole::Alone(encoded) => self.run(encoded).await?,
            SendRole::After(gathered, encoded) => {
                gathered.complete().await;
                // Those that wait for the first call are told that it was cancelled once nobody else has them.
                drop(gathered);
                self.run(encoded).await?
            }
            // Boxed, because most calls are alone, and all of them would be as large.
            SendRole::First(gathered) => Box::pin(self.run_gathered(gathered)).await?,
            SendRole::Joined(slot) => slot.reply().await?,
        };
        wire::decode(call, reply)
    }

    fn send_together(&self, poll: &mut dyn FnMut()) {
        match self.connections {
            Connections::One(_) if !self.has_undeclared_slots.load(Ordering::Relaxed) => {
                together::send_together(self.identity(), poll);
            }
            // The keys of one call must be in one slot.
            Connections::One(_) | Connections::Many(_) => poll(),
        }
    }

    async fn heartbeat(&self, heartbeat: &Heartbeat) -> Result<u32, LinkError> {
        // The first heartbeat reports how the first attempt to connect ended, rather than that it is still running.
        let _ = tokio::time::timeout(FIRST_ATTEMPT, self.connections.first_attempt_done()).await;
        let reply = self.run(wire::encode_heartbeat(heartbeat)).await?;
        wire::decode_heartbeat(reply)
    }

    async fn count_bursts(&self, call: &BurstCall) -> Result<Vec<BurstAnswer>, LinkError> {
        if let Some(gathered) = together::gathering(self.identity()) {
            // They may be those of a candidate, and somebody waits for the first of the charges.
            gathered.complete().await;
            drop(gathered);
        }
        let reply = self.run(encode_bursts(call)).await?;
        decode_bursts(call, reply)
    }

    async fn list_penalties(&self, call: &PenaltyListCall) -> Result<PenaltyListAnswer, LinkError> {
        decode_penalties(self.run(encode_penalties(call)).await?)
    }

    fn has_slots(&self) -> bool {
        matches!(self.connections, Connections::Many(_))
    }

    fn shard(&self, key: &BucketKey) -> usize {
        match &self.connections {
            Connections::One(_) => 0,
            Connections::Many(cluster) => cluster.shard(key.0.as_bytes()),
        }
    }
}
