//! Wake-ups: nodes that share a server tell each other, by a channel of it, that there is something new to look at.
//!
//! A message is a hint and nothing more. It may be lost, doubled or false, so whoever is woken looks at the truth, which is
//! elsewhere, and whoever waits also looks from time to time by itself.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{PushInfo, PushKind, Value};
use tokio::sync::Notify;
use tokio_util::task::AbortOnDropHandle;

use super::address::Topology;
use super::backoff::Backoff;
use super::connector::{ConnectTarget, Connector, OpenConnection, PushHandler, error_message};
use super::sentinels::Sentinels;
use super::{RedisClientError, RedisClientOptions};

/// How often a connection is tested: one that was cut silently brings no messages.
const PING_EVERY: Duration = Duration::from_secs(1);

/// The pause after the server has refused the subscription: it will most likely refuse it again.
const REFUSED_PAUSE: Duration = Duration::from_secs(30);

/// What there may be news about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WakeTopic {
    /// The policy: another version may be active.
    Policy,
    /// What is done beside the policy.
    Live,
    /// What is known about users.
    Trust,
}

impl WakeTopic {
    const ALL: [WakeTopic; 3] = [WakeTopic::Policy, WakeTopic::Live, WakeTopic::Trust];

    /// The message for it.
    const fn as_str(self) -> &'static str {
        match self {
            WakeTopic::Policy => "policy",
            WakeTopic::Live => "live",
            WakeTopic::Trust => "trust",
        }
    }
}

/// A channel of a server, on a connection of its own. It connects by itself, and reconnects whenever the connection is
/// lost.
///
/// The connection is a task of the runtime on which [`WakeUps::connect`] was called, and ends when this is dropped.
#[derive(Debug)]
pub struct WakeUps {
    shared: Arc<Shared>,
    _task: AbortOnDropHandle<()>,
}

#[derive(Debug)]
struct Shared {
    channel: String,
    /// The connection, or why there is none.
    state: Mutex<Result<MultiplexedConnection, String>>,
    /// One for each topic. Any number of messages that nobody has waited for are one.
    woken: [Notify; WakeTopic::ALL.len()],
    timeout: Duration,
}

impl WakeUps {
    /// Starts to connect to the server of a store, on the current tokio runtime. Nodes with the same `prefix` wake each
    /// other.
    ///
    /// # Errors
    /// When the address or the file of certificates cannot be read, or there is no runtime. A server that cannot be
    /// reached is no error.
    pub fn connect(options: &RedisClientOptions, prefix: &str) -> Result<WakeUps, RedisClientError> {
        let (topology, connect_options, runtime) = options.resolve()?;
        let shared = Arc::new(Shared {
            channel: format!("{prefix}:1:wake"),
            state: Mutex::new(Err("connecting".to_owned())),
            woken: WakeTopic::ALL.map(|_| Notify::new()),
            timeout: connect_options.connect_timeout,
        });
        let connector = |target| Connector { connect_options: Arc::clone(&connect_options), target };
        let connectors = match topology {
            Topology::Single(address) => vec![connector(ConnectTarget::Address(address))],
            // A Cluster passes messages on to all of its nodes, so any of them will do.
            Topology::Cluster { seeds } => {
                seeds.into_iter().map(|seed| connector(ConnectTarget::Address(seed))).collect()
            }
            Topology::Sentinel { sentinels, master } => {
                let sentinels = Sentinels::start(&runtime, Arc::clone(&connect_options), sentinels, master);
                vec![connector(ConnectTarget::Master(Arc::new(sentinels)))]
            }
        };
        let task = runtime.spawn(run(Arc::clone(&shared), connectors));
        Ok(WakeUps { shared, _task: AbortOnDropHandle::new(task) })
    }

    /// Waits until there may be news: after a message of a node, this one included, and whenever the connection was made
    /// anew, since messages may have been missed. Messages that came before count too, as one. One task at a time waits
    /// for a topic.
    pub async fn woken(&self, topic: WakeTopic) {
        self.shared.woken[topic as usize].notified().await;
    }

    /// Wakes the nodes that listen. Returns whether the server has the message; if not, they find out by themselves.
    pub async fn wake(&self, topic: WakeTopic) -> bool {
        let Ok(mut connection) = self.shared.state().clone() else { return false };
        let mut publish = redis::cmd("PUBLISH");
        publish.arg(&self.shared.channel).arg(topic.as_str());
        let sent = tokio::time::timeout(self.shared.timeout, connection.send_packed_command(&publish)).await;
        matches!(sent, Ok(Ok(Value::Int(_))))
    }

    /// Why no messages arrive, while they do not.
    pub fn problem(&self) -> Option<String> {
        self.shared.state().as_ref().err().cloned()
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, Result<MultiplexedConnection, String>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a push message. Unknown ones are for newer versions of the program.
    fn take(&self, push: &PushInfo) {
        if push.kind != PushKind::Message {
            return;
        }
        let Some(Value::BulkString(message)) = push.data.last() else { return };
        let known = WakeTopic::ALL.into_iter().find(|topic| topic.as_str().as_bytes() == message);
        known.inspect(|topic| self.woken[*topic as usize].notify_one());
    }
}

/// Why messages stopped.
enum Silence {
    /// The connection could not be made, or was lost.
    Lost(String),
    /// The server does not let this user subscribe.
    Refused(String),
}

impl Silence {
    fn of(why: String) -> Silence {
        if why.to_ascii_uppercase().contains("NOPERM") { Silence::Refused(why) } else { Silence::Lost(why) }
    }
}

/// Connects, listens and reconnects, for ever; each time to the next server if there are several.
async fn run(shared: Arc<Shared>, connectors: Vec<Connector>) {
    let mut backoff = Backoff::new();
    for connector in connectors.iter().cycle() {
        let silence = listen(&shared, connector, &mut backoff).await;
        let (why, pause) = match silence {
            Silence::Lost(why) => (why, backoff.wait()),
            Silence::Refused(why) => (why, REFUSED_PAUSE),
        };
        *shared.state() = Err(why);
        tokio::time::sleep(pause).await;
    }
}

/// Listens for as long as the connection lasts.
async fn listen(shared: &Arc<Shared>, connector: &Connector, backoff: &mut Backoff) -> Silence {
    let taking = Arc::clone(shared);
    let handler: PushHandler = Arc::new(move |push| taking.take(&push));
    let OpenConnection { mut connection, driver, address } = match connector.open(Some(&handler)).await {
        Ok(opened) => opened,
        Err(why) => return Silence::of(why),
    };
    let listening = async {
        match tokio::time::timeout(shared.timeout, connection.subscribe(&shared.channel)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return Silence::of(format!("{address}: {}", error_message(&error))),
            Err(_) => return Silence::Lost(format!("{address}: no answer to SUBSCRIBE")),
        }
        backoff.reset();
        *shared.state() = Ok(connection.clone());
        shared.woken.iter().for_each(Notify::notify_one);
        let ping = redis::cmd("PING");
        loop {
            tokio::time::sleep(PING_EVERY).await;
            match tokio::time::timeout(shared.timeout, connection.send_packed_command(&ping)).await {
                Ok(Ok(_)) => {}
                _ => return Silence::Lost(format!("{address}: the server does not answer")),
            }
        }
    };
    tokio::select! {
        silence = listening => silence,
        () = driver => Silence::Lost(format!("{address}: the server closed the connection")),
        () = connector.target.until_moved_from(&address) => Silence::Lost(format!("{address}: no longer the master")),
    }
}
