//! Follows the master that Sentinels name. Each Sentinel is queried regularly and subscribed to, so that the client
//! leaves a master that was replaced even if it still answers.

mod master_choice;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redis::Value;
use redis::aio::MultiplexedConnection;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio_util::task::AbortOnDropHandle;

use crate::client::address::HostPort;
use crate::client::backoff::Backoff;
use crate::client::connector::{
    ConnectOptions, ConnectionTask, Handshake, PushHandler, error_message, no_answer,
};
use crate::client::reply::error_text;
use master_choice::{MasterClaim, choose};

/// How often a Sentinel is queried: after this time, cut by up to half at random, so that nodes do not query all at
/// once.
const QUERY_EVERY: Duration = Duration::from_secs(1);

/// The channel on which Sentinels announce a new master.
const SWITCH_CHANNEL: &str = "+switch-master";

/// The state of a master and its Sentinels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MasterWatch {
    /// The address of the master, if a Sentinel has named it.
    pub master: Option<String>,
    /// How often the client moved from one master to another.
    pub moves: u64,
    /// How many Sentinels the client's address names.
    pub sentinels: usize,
    /// How many of them answer.
    pub answering: usize,
}

/// Queries the Sentinels until it is dropped.
#[derive(Debug)]
pub(super) struct Sentinels {
    shared: Arc<Shared>,
    _watchers: Vec<AbortOnDropHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    connect_options: Arc<ConnectOptions>,
    addresses: Vec<HostPort>,
    name: String,
    view: Mutex<MasterView>,
    /// Notified of every reply.
    changed: Notify,
    /// One for each Sentinel: notified when it is to be queried at once.
    query_now: Vec<Notify>,
    moves: AtomicU64,
}

/// The last replies of all Sentinels, and the conclusion from them.
#[derive(Debug)]
struct MasterView {
    /// The master to use.
    current: Option<MasterClaim>,
    /// The address that the client last connected to.
    connected: Option<HostPort>,
    /// The last reply of each Sentinel, or why there is none.
    replies: Vec<SentinelReply>,
    /// The number of the last `find`.
    round: u64,
}

#[derive(Clone, Debug)]
struct SentinelReply {
    claims: Result<MasterClaim, String>,
    /// The round in which it was queried.
    round: u64,
}

impl Sentinels {
    /// Starts to query all Sentinels.
    pub(super) fn start(
        runtime: &Handle,
        connect_options: Arc<ConnectOptions>,
        addresses: Vec<HostPort>,
        name: String,
    ) -> Sentinels {
        let nothing = SentinelReply { claims: Err("not queried yet".into()), round: 0 };
        let view =
            MasterView { current: None, connected: None, replies: vec![nothing; addresses.len()], round: 0 };
        let shared = Arc::new(Shared {
            connect_options,
            query_now: addresses.iter().map(|_| Notify::new()).collect(),
            addresses,
            name,
            view: Mutex::new(view),
            changed: Notify::new(),
            moves: AtomicU64::new(0),
        });
        let watch_sentinel =
            |index| AbortOnDropHandle::new(runtime.spawn(watch_sentinel(Arc::clone(&shared), index)));
        let _watchers = (0..shared.addresses.len()).map(watch_sentinel).collect();
        Sentinels { shared, _watchers }
    }

    /// The address of the master: queries all Sentinels at once, and waits for a majority, or for the timeout of one.
    ///
    /// # Errors
    /// Why each Sentinel failed, if none has ever named a master.
    pub(super) async fn find(&self) -> Result<HostPort, String> {
        let round = {
            let mut view = self.shared.view();
            view.round += 1;
            view.round
        };
        self.shared.query_now.iter().for_each(Notify::notify_one);
        let replies = self.shared.until(|view| view.has_enough_replies(round).then_some(()));
        // A late reply is recorded when it comes.
        let _ = tokio::time::timeout(self.shared.connect_options.connect_timeout, replies).await;
        let address = self.shared.view().address().cloned();
        address.ok_or_else(|| self.failures())
    }

    /// Resolves when the master is no longer at `than`.
    pub(super) async fn until_moved_from(&self, than: &HostPort) {
        self.shared.until(|view| view.address().filter(|address| *address != than).map(|_| ())).await;
    }

    /// The client has connected to this address.
    pub(super) fn connected(&self, address: &HostPort) {
        let before = self.shared.view().connected.replace(address.clone());
        if before.is_some_and(|before| before != *address) {
            self.shared.moves.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A snapshot for reports.
    pub(super) fn known(&self) -> MasterWatch {
        let view = self.shared.view();
        MasterWatch {
            master: view.address().map(ToString::to_string),
            moves: self.shared.moves.load(Ordering::Relaxed),
            sentinels: view.replies.len(),
            answering: view.claims().len(),
        }
    }

    fn failures(&self) -> String {
        let view = self.shared.view();
        let all = self.shared.addresses.iter().zip(&view.replies);
        let failures = all.filter_map(|(address, replies)| {
            replies.claims.as_ref().err().map(|why| format!("Sentinel {address}: {why}"))
        });
        failures.collect::<Vec<_>>().join("; ")
    }
}

impl MasterView {
    fn address(&self) -> Option<&HostPort> {
        self.current.as_ref().map(|current| &current.address)
    }

    fn claims(&self) -> Vec<&MasterClaim> {
        self.replies.iter().filter_map(|replies| replies.claims.as_ref().ok()).collect()
    }

    fn record(&mut self, index: usize, replies: SentinelReply) {
        self.replies[index] = replies;
        self.current = choose(&self.claims(), self.replies.len(), self.current.as_ref());
    }

    /// Since that round, has a majority answered, or has every Sentinel answered or failed?
    fn has_enough_replies(&self, round: u64) -> bool {
        let since = || self.replies.iter().filter(|replies| replies.round >= round);
        let answered = since().filter(|replies| replies.claims.is_ok()).count();
        answered * 2 > self.replies.len() || since().count() == self.replies.len()
    }
}

impl Shared {
    fn view(&self) -> MutexGuard<'_, MasterView> {
        self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until `look` finds something.
    async fn until<T>(&self, look: impl Fn(&MasterView) -> Option<T>) -> T {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // Registered before checking, so that no change is missed.
            changed.as_mut().enable();
            let seen = look(&self.view());
            match seen {
                Some(seen) => return seen,
                None => changed.await,
            }
        }
    }

    fn record(&self, index: usize, round: u64, claims: Result<MasterClaim, String>) {
        self.view().record(index, SentinelReply { claims, round });
        self.changed.notify_waiters();
    }

    /// Queries one Sentinel for as long as it answers; returns why it stopped.
    async fn query_until_failure(&self, index: usize, backoff: &mut Backoff) -> String {
        let pushes = Arc::new(Notify::new());
        let pushed = Arc::clone(&pushes);
        let handler: PushHandler = Arc::new(move |_| pushed.notify_one());
        let (mut connection, driver) = match self.open(&self.addresses[index], &handler).await {
            Ok(opened) => opened,
            Err(why) => return why,
        };
        let querying = async {
            // Without permission to subscribe, querying still works.
            let _ = tokio::time::timeout(
                self.connect_options.connect_timeout,
                connection.subscribe(SWITCH_CHANNEL),
            )
            .await;
            loop {
                let round = self.view().round;
                match self.query(&mut connection).await {
                    // The master may be configured later, so keep the connection.
                    Err(QueryError::Unknown(why)) => self.record(index, round, Err(why)),
                    Err(QueryError::Failed(why)) => return why,
                    Ok(claim) => {
                        backoff.reset();
                        self.record(index, round, Ok(claim));
                    }
                }
                tokio::select! {
                    () = tokio::time::sleep(backoff.cut(QUERY_EVERY)) => {}
                    () = self.query_now[index].notified() => {}
                    () = pushes.notified() => {}
                }
            }
        };
        tokio::select! {
            why = querying => why,
            () = driver => "it closed the connection".into(),
        }
    }

    async fn open(
        &self,
        address: &HostPort,
        pushes: &PushHandler,
    ) -> Result<(MultiplexedConnection, ConnectionTask), String> {
        match self.open_with_login(address, Some(pushes)).await {
            // Subscribing on the same connection needs RESP3, which `HELLO` starts; without it, only query.
            Err(why) if why.to_lowercase().contains("hello") => self.open_with_login(address, None).await,
            other => other,
        }
    }

    async fn open_with_login(
        &self,
        address: &HostPort,
        pushes: Option<&PushHandler>,
    ) -> Result<(MultiplexedConnection, ConnectionTask), String> {
        // Most Sentinels need no password; those that do usually have that of the servers.
        match self.connect_options.open(address, Handshake::None, pushes).await {
            Err(why) if why.contains("NOAUTH") => {
                self.connect_options.open(address, Handshake::Login, pushes).await
            }
            other => other,
        }
    }

    /// Queries one Sentinel: the epoch first, then the address. If a failover happens in between, the result is a new
    /// address with an old epoch, which is harmless; an old address with a new epoch would win over the truth.
    async fn query(&self, connection: &mut MultiplexedConnection) -> Result<MasterClaim, QueryError> {
        let mut questions = redis::pipe();
        questions.cmd("SENTINEL").arg("MASTER").arg(&self.name);
        questions.cmd("SENTINEL").arg("GET-MASTER-ADDR-BY-NAME").arg(&self.name);
        let connect_timeout = self.connect_options.connect_timeout;
        let answers =
            tokio::time::timeout(connect_timeout, connection.send_packed_commands(&questions, 0, 2))
                .await
                .map_err(|_| QueryError::Failed(no_answer(connect_timeout)))?
                .map_err(|error| QueryError::Failed(error_message(&error)))?;
        let [about, address] = answers.as_slice() else { return Err(QueryError::malformed()) };
        let address = match address {
            Value::Array(parts) => match parts.as_slice() {
                [Value::BulkString(host), Value::BulkString(port)] => {
                    parse_address(host, port).map_err(QueryError::Failed)?
                }
                _ => return Err(QueryError::malformed()),
            },
            Value::Nil => {
                return Err(QueryError::Unknown(format!("it knows no master named {:?}", self.name)));
            }
            Value::ServerError(error) => return Err(QueryError::Failed(error_text(error))),
            _ => return Err(QueryError::malformed()),
        };
        Ok(MasterClaim { address, epoch: config_epoch(about) })
    }
}

/// Why a Sentinel does not name a master.
enum QueryError {
    /// It knows no master of that name.
    Unknown(String),
    /// It did not answer, or its answer is malformed.
    Failed(String),
}

impl QueryError {
    fn malformed() -> QueryError {
        QueryError::Failed("unreadable answer".into())
    }
}

/// Queries one Sentinel, and reconnects to it, for ever.
async fn watch_sentinel(shared: Arc<Shared>, index: usize) {
    let mut backoff = Backoff::new();
    loop {
        let round = shared.view().round;
        let why = shared.query_until_failure(index, &mut backoff).await;
        shared.record(index, round, Err(why));
        tokio::select! {
            () = tokio::time::sleep(backoff.wait()) => {}
            () = shared.query_now[index].notified() => {}
        }
    }
}

fn parse_address(host: &[u8], port: &[u8]) -> Result<HostPort, String> {
    let text =
        |bytes| std::str::from_utf8(bytes).map_err(|_| "the master's address is unreadable".to_owned());
    let port = text(port)?.parse().map_err(|_| "the master's port is unreadable".to_owned())?;
    Ok(HostPort { host: text(host)?.to_owned(), port })
}

/// The configuration epoch in the reply to `SENTINEL MASTER`; zero if it is missing, for instance where the user may
/// only query the address.
fn config_epoch(about: &Value) -> u64 {
    let number = |name: &Value, value: &Value| match (name, value) {
        (Value::BulkString(name), Value::BulkString(value)) if name == b"config-epoch" => {
            std::str::from_utf8(value).ok()?.parse().ok()
        }
        _ => None,
    };
    let found = match about {
        Value::Map(pairs) => pairs.iter().find_map(|(name, value)| number(name, value)),
        Value::Array(parts) => parts.chunks_exact(2).find_map(|pair| number(&pair[0], &pair[1])),
        _ => None,
    };
    found.unwrap_or(0)
}
