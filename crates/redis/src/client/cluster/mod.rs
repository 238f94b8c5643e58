//! A Cluster: one connection to each master, and the map of which master owns which slots.
//!
//! The node that redirects a call has not executed it, so the call may follow the redirect. Nothing else is sent twice.

mod slots;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use redis::Cmd;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio_util::task::AbortOnDropHandle;

use crate::client::address::HostPort;
use crate::client::connection::RedisConnection;
use crate::client::connector::{ConnectOptions, ConnectTarget, Connector};
use crate::client::reply::ReplyAction;

use crate::calls::LinkError;

/// The most times that a call follows a redirect.
const HOPS_MAX: usize = 4;

/// How often the map is reloaded: while nothing is wrong, and at most, while something is.
const MAP_LIFE: Duration = Duration::from_secs(30);
const MAP_GAP: Duration = Duration::from_millis(100);

/// How long one node may take to send the map.
const MAP_TIMEOUT: Duration = Duration::from_millis(500);

/// The most nodes that are connected to.
const CONNECTIONS_MAX: usize = 1_024;

/// The connections to all masters of a Cluster. They end when this is dropped.
#[derive(Debug)]
pub(super) struct Cluster {
    shared: Arc<Shared>,
    _task: AbortOnDropHandle<()>,
}

#[derive(Debug)]
struct Shared {
    runtime: Handle,
    connect_options: Arc<ConnectOptions>,
    seeds: Vec<HostPort>,
    map: ArcSwap<Map>,
    /// Notified when the map was loaded, or could not be.
    map_loaded: Notify,
    /// Notified when the map seems to be wrong.
    map_doubtful: Notify,
    connections: Mutex<HashMap<HostPort, Arc<RedisConnection>>>,
}

#[derive(Debug)]
enum Map {
    /// The first attempt to load it is under way: calls wait for it.
    NotLoaded,
    Unavailable(String),
    Known(Vec<OwnedRange>),
}

/// A range of slots that one master owns.
#[derive(Clone, Debug)]
struct OwnedRange {
    first: u16,
    last: u16,
    /// The number of that master, from one, in the order of slots.
    shard: usize,
    connection: Arc<RedisConnection>,
}

impl Cluster {
    /// Starts to load the map.
    pub(super) fn start(
        runtime: &Handle,
        connect_options: Arc<ConnectOptions>,
        seeds: Vec<HostPort>,
    ) -> Cluster {
        let shared = Arc::new(Shared {
            runtime: runtime.clone(),
            connect_options,
            seeds,
            map: ArcSwap::from_pointee(Map::NotLoaded),
            map_loaded: Notify::new(),
            map_doubtful: Notify::new(),
            connections: Mutex::new(HashMap::new()),
        });
        let task = runtime.spawn(keep_map_fresh(Arc::clone(&shared)));
        Cluster { shared, _task: AbortOnDropHandle::new(task) }
    }

    /// Resolves once the map was loaded or could not be, and a connection to each master in it was attempted.
    pub(super) async fn first_attempt_done(&self) {
        if self.shared.owner(0).await.is_ok() {
            let connections: Vec<Arc<RedisConnection>> =
                self.shared.connections().values().cloned().collect();
            for connection in connections {
                connection.first_attempt_done().await;
            }
        }
    }

    /// The number of the master that owns the key, from one, in the order of slots; so a replica that takes over has
    /// the number of its master. Zero if the map is not known.
    pub(super) fn shard(&self, key: &[u8]) -> usize {
        match &**self.shared.map.load() {
            Map::Known(ranges) => find_range(ranges, slots::slot(key)).map_or(0, |range| range.shard),
            Map::NotLoaded | Map::Unavailable(_) => 0,
        }
    }

    /// Sends a command to the master that owns the key, and follows redirects.
    ///
    /// # Errors
    /// When no master owns it, or the master cannot be reached.
    pub(super) async fn send(&self, key: &[u8], command: &Cmd) -> Result<ReplyAction, LinkError> {
        // A caller that gives up waiting drops `doubt`, which reloads the map too: the master may have changed.
        let mut doubt = MapDoubt { shared: &self.shared, justified: true };
        let mut connection = self.shared.owner(slots::slot(key)).await?;
        let mut asking = false;
        let mut hops = 0;
        loop {
            let reply = ReplyAction::read(connection.send(command, asking).await?, connection.address());
            hops += 1;
            (connection, asking) = match &reply {
                ReplyAction::Moved(address) if hops < HOPS_MAX => {
                    self.shared.map_doubtful.notify_one();
                    (self.shared.connection_to(address)?, false)
                }
                ReplyAction::Ask(address) if hops < HOPS_MAX => (self.shared.connection_to(address)?, true),
                ReplyAction::Answer(_) | ReplyAction::NoScript => {
                    doubt.justified = false;
                    return Ok(reply);
                }
                _ => return Ok(reply),
            };
        }
    }
}

/// Reloads the map when it is dropped, unless `justified` was cleared.
struct MapDoubt<'a> {
    shared: &'a Shared,
    justified: bool,
}

impl Drop for MapDoubt<'_> {
    fn drop(&mut self) {
        if self.justified {
            self.shared.map_doubtful.notify_one();
        }
    }
}

impl Shared {
    async fn owner(&self, slot: u16) -> Result<Arc<RedisConnection>, LinkError> {
        loop {
            if let Some(known) = self.known(slot) {
                return known;
            }
            let map_loaded = self.map_loaded.notified();
            tokio::pin!(map_loaded);
            // Registered before checking again, so that no change is missed.
            map_loaded.as_mut().enable();
            if self.known(slot).is_none() {
                map_loaded.await;
            }
        }
    }

    /// The connection for a slot, or why there is none; `None` during the first attempt to load the map.
    fn known(&self, slot: u16) -> Option<Result<Arc<RedisConnection>, LinkError>> {
        match &**self.map.load() {
            Map::NotLoaded => None,
            Map::Unavailable(why) => Some(Err(LinkError::Down(why.clone()))),
            Map::Known(ranges) => Some(owner(ranges, slot)),
        }
    }

    fn connection_to(&self, address: &HostPort) -> Result<Arc<RedisConnection>, LinkError> {
        let mut connections = self.connections();
        if let Some(connection) = connections.get(address) {
            return Ok(Arc::clone(connection));
        }
        if connections.len() >= CONNECTIONS_MAX {
            return Err(LinkError::Refused(format!("the Cluster has more than {CONNECTIONS_MAX} masters")));
        }
        let connector = Connector {
            connect_options: Arc::clone(&self.connect_options),
            target: ConnectTarget::Address(address.clone()),
        };
        let connection = Arc::new(RedisConnection::start(&self.runtime, connector));
        connections.insert(address.clone(), Arc::clone(&connection));
        Ok(connection)
    }

    /// Requests the map from the known masters, then from the seeds, until one answers.
    async fn load_map(&self, turn: usize) -> Result<Vec<OwnedRange>, String> {
        let mut addresses: Vec<HostPort> = self.connections().keys().cloned().collect();
        if !addresses.is_empty() {
            // Start with another one each time: the first may be cut off from the Cluster.
            let first = turn % addresses.len();
            addresses.rotate_left(first);
        }
        addresses
            .extend(self.seeds.iter().filter(|seed| !addresses.contains(seed)).cloned().collect::<Vec<_>>());
        let mut failures = Vec::new();
        for address in addresses {
            match self.request_map(&address).await {
                Ok(ranges) => return self.adopt(ranges),
                Err(why) => failures.push(format!("{address}: {why}")),
            }
        }
        Err(failures.join("; "))
    }

    async fn request_map(&self, address: &HostPort) -> Result<Vec<slots::SlotRange>, String> {
        let connection = self.connection_to(address).map_err(|error| error.to_string())?;
        let mut question = redis::cmd("CLUSTER");
        question.arg("SLOTS");
        let answer = tokio::time::timeout(MAP_TIMEOUT, connection.send(&question, false))
            .await
            .map_err(|_| "no answer".to_owned())?
            .map_err(|error| error.to_string())?;
        let answer =
            ReplyAction::read(answer, Some(address)).into_answer().map_err(|error| error.to_string())?;
        let ranges = slots::read(&answer, address)?;
        if ranges.is_empty() { Err("it knows no master".into()) } else { Ok(ranges) }
    }

    /// Connects to all masters in the map, and drops all other connections.
    fn adopt(&self, ranges: Vec<slots::SlotRange>) -> Result<Vec<OwnedRange>, String> {
        let mut masters: HashMap<HostPort, usize> = HashMap::new();
        for range in &ranges {
            let next = masters.len() + 1;
            masters.entry(range.master.clone()).or_insert(next);
        }
        self.connections().retain(|address, _| masters.contains_key(address));
        ranges
            .into_iter()
            .map(|range| {
                let connection = self.connection_to(&range.master).map_err(|error| error.to_string())?;
                Ok(OwnedRange {
                    first: range.first,
                    last: range.last,
                    shard: masters[&range.master],
                    connection,
                })
            })
            .collect()
    }

    fn connections(&self) -> MutexGuard<'_, HashMap<HostPort, Arc<RedisConnection>>> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn find_range(ranges: &[OwnedRange], slot: u16) -> Option<&OwnedRange> {
    let after = ranges.partition_point(|range| range.first <= slot);
    after.checked_sub(1).map(|index| &ranges[index]).filter(|range| slot <= range.last)
}

fn owner(ranges: &[OwnedRange], slot: u16) -> Result<Arc<RedisConnection>, LinkError> {
    match find_range(ranges, slot) {
        Some(range) => Ok(Arc::clone(&range.connection)),
        None => Err(LinkError::Refused(format!("no node of the Cluster has slot {slot}"))),
    }
}

/// Loads the map now, regularly, and whenever it seems to be wrong; for ever.
async fn keep_map_fresh(shared: Arc<Shared>) {
    for turn in 0.. {
        match shared.load_map(turn).await {
            Ok(ranges) => shared.map.store(Arc::new(Map::Known(ranges))),
            // Keep the old map: it is better than none.
            Err(_) if matches!(**shared.map.load(), Map::Known(_)) => {}
            Err(why) => shared.map.store(Arc::new(Map::Unavailable(why))),
        }
        shared.map_loaded.notify_waiters();
        tokio::time::sleep(MAP_GAP).await;
        let unknown = matches!(**shared.map.load(), Map::Unavailable(_));
        let life = if unknown { MAP_GAP } else { MAP_LIFE };
        // A doubt from before this load may still be stored in the `Notify`: it costs one load more.
        let _ = tokio::time::timeout(life, shared.map_doubtful.notified()).await;
    }
}
