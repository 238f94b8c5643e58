//! A Cluster: a line to each master, and the map that says which has what.
//!
//! A redirected call was not executed where it came from, so it may be sent on. Nothing else is sent twice.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use redis::Cmd;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio_util::task::AbortOnDropHandle;

use super::address::HostPort;
use super::connection::RedisConnection;
use super::connector::{ConnectOptions, ConnectTarget, Connector};
use super::reply::ReplyAction;
use super::slots;
use crate::link::LinkError;

/// How often a call is sent on.
const HOPS_MAX: usize = 4;

/// How old the map grows where nothing is wrong, and how soon after another it is drawn anew where something is.
const MAP_LIFE: Duration = Duration::from_secs(30);
const MAP_GAP: Duration = Duration::from_millis(100);

/// How long one node may take to tell the map.
const MAP_WITHIN: Duration = Duration::from_millis(500);

/// How many nodes there are lines to, at most.
const LINES_MAX: usize = 1_024;

/// All masters of a Cluster. Ends when it is dropped.
#[derive(Debug)]
pub(super) struct Cluster {
    shared: Arc<Shared>,
    _keeper: AbortOnDropHandle<()>,
}

#[derive(Debug)]
struct Shared {
    runtime: Handle,
    manners: Arc<ConnectOptions>,
    seeds: Vec<HostPort>,
    map: ArcSwap<Map>,
    /// Told when a map was drawn, or could not be.
    drawn: Notify,
    /// Told when the map seems to be wrong.
    stale: Notify,
    lines: Mutex<HashMap<HostPort, Arc<RedisConnection>>>,
}

#[derive(Debug)]
enum Map {
    /// Nobody knows yet: the first attempt is under way.
    Unread,
    Unknown(String),
    Known(Vec<Owned>),
}

/// Slots that one master has.
#[derive(Clone, Debug)]
struct Owned {
    first: u16,
    last: u16,
    /// Which of the masters that is, from one on, by the slots that they have.
    part: usize,
    line: Arc<RedisConnection>,
}

impl Cluster {
    /// Begins to look around.
    pub(super) fn start(runtime: &Handle, manners: Arc<ConnectOptions>, seeds: Vec<HostPort>) -> Cluster {
        let shared = Arc::new(Shared {
            runtime: runtime.clone(),
            manners,
            seeds,
            map: ArcSwap::from_pointee(Map::Unread),
            drawn: Notify::new(),
            stale: Notify::new(),
            lines: Mutex::new(HashMap::new()),
        });
        let keeper = runtime.spawn(keep_map(Arc::clone(&shared)));
        Cluster { shared, _keeper: AbortOnDropHandle::new(keeper) }
    }

    /// Resolves once the first attempt to draw the map has succeeded or failed, and the masters it shows have been
    /// called at.
    pub(super) async fn settled(&self) {
        if self.shared.owner(0).await.is_ok() {
            let lines: Vec<Arc<RedisConnection>> = self.shared.lines().values().cloned().collect();
            for line in lines {
                line.settled().await;
            }
        }
    }

    /// Which master has the key: counted from one on, by the slots that they have, so that one that takes over
    /// from another is the same. Zero if nobody knows.
    pub(super) fn part(&self, key: &[u8]) -> usize {
        match &**self.shared.map.load() {
            Map::Known(ranges) => owned(ranges, slots::slot(key)).map_or(0, |owned| owned.part),
            Map::Unread | Map::Unknown(_) => 0,
        }
    }

    /// Sends a command to the master that has the key, and on to wherever it says.
    ///
    /// # Errors
    /// When nobody has it, or who has it cannot be reached.
    pub(super) async fn send(&self, key: &[u8], command: &Cmd) -> Result<ReplyAction, LinkError> {
        // Whoever gives up waiting, too, makes the map suspect: the master may have changed.
        let mut doubt = Doubt { shared: &self.shared, founded: true };
        let mut line = self.shared.owner(slots::slot(key)).await?;
        let mut asking = false;
        let mut hops = 0;
        loop {
            let reply = ReplyAction::read(line.send(command, asking).await?, line.place());
            hops += 1;
            (line, asking) = match &reply {
                ReplyAction::Moved(place) if hops < HOPS_MAX => {
                    self.shared.stale.notify_one();
                    (self.shared.line_to(place)?, false)
                }
                ReplyAction::Ask(place) if hops < HOPS_MAX => (self.shared.line_to(place)?, true),
                ReplyAction::Answer(_) | ReplyAction::NoScript => {
                    doubt.founded = false;
                    return Ok(reply);
                }
                _ => return Ok(reply),
            };
        }
    }
}

/// Has the map drawn anew, unless it turns out to be unfounded.
struct Doubt<'a> {
    shared: &'a Shared,
    founded: bool,
}

impl Drop for Doubt<'_> {
    fn drop(&mut self) {
        if self.founded {
            self.shared.stale.notify_one();
        }
    }
}

impl Shared {
    async fn owner(&self, slot: u16) -> Result<Arc<RedisConnection>, LinkError> {
        loop {
            if let Some(known) = self.known(slot) {
                return known;
            }
            let drawn = self.drawn.notified();
            tokio::pin!(drawn);
            // Enlisted before looking again, so that no map is missed.
            drawn.as_mut().enable();
            if self.known(slot).is_none() {
                drawn.await;
            }
        }
    }

    /// Who has the slot or why that is not known, unless nobody has looked yet.
    fn known(&self, slot: u16) -> Option<Result<Arc<RedisConnection>, LinkError>> {
        match &**self.map.load() {
            Map::Unread => None,
            Map::Unknown(why) => Some(Err(LinkError::Down(why.clone()))),
            Map::Known(ranges) => Some(owner(ranges, slot)),
        }
    }

    fn line_to(&self, place: &HostPort) -> Result<Arc<RedisConnection>, LinkError> {
        let mut lines = self.lines();
        if let Some(line) = lines.get(place) {
            return Ok(Arc::clone(line));
        }
        if lines.len() >= LINES_MAX {
            return Err(LinkError::Refused(format!("the Cluster has more than {LINES_MAX} masters")));
        }
        let door =
            Connector { manners: Arc::clone(&self.manners), goal: ConnectTarget::Place(place.clone()) };
        let line = Arc::new(RedisConnection::start(&self.runtime, door));
        lines.insert(place.clone(), Arc::clone(&line));
        Ok(line)
    }

    /// Asks whoever is known, and then the seeds, until one tells the map.
    async fn draw(&self, turn: usize) -> Result<Vec<Owned>, String> {
        let mut places: Vec<HostPort> = self.lines().keys().cloned().collect();
        if !places.is_empty() {
            // Not always the same one first: it may be the one that is cut off.
            let first = turn % places.len();
            places.rotate_left(first);
        }
        places.extend(self.seeds.iter().filter(|seed| !places.contains(seed)).cloned().collect::<Vec<_>>());
        let mut troubles = Vec::new();
        for place in places {
            match self.ask_map(&place).await {
                Ok(ranges) => return self.adopt(ranges),
                Err(why) => troubles.push(format!("{place}: {why}")),
            }
        }
        Err(troubles.join("; "))
    }

    async fn ask_map(&self, place: &HostPort) -> Result<Vec<slots::SlotRange>, String> {
        let line = self.line_to(place).map_err(|error| error.to_string())?;
        let mut question = redis::cmd("CLUSTER");
        question.arg("SLOTS");
        let answer = tokio::time::timeout(MAP_WITHIN, line.send(&question, false))
            .await
            .map_err(|_| "no answer".to_owned())?
            .map_err(|error| error.to_string())?;
        let answer =
            ReplyAction::read(answer, Some(place)).into_answer().map_err(|error| error.to_string())?;
        let ranges = slots::read(&answer, place)?;
        if ranges.is_empty() { Err("it knows of no master".into()) } else { Ok(ranges) }
    }

    /// Lines for all that the map shows, and for nobody else.
    fn adopt(&self, ranges: Vec<slots::SlotRange>) -> Result<Vec<Owned>, String> {
        let mut masters: HashMap<HostPort, usize> = HashMap::new();
        for range in &ranges {
            let next = masters.len() + 1;
            masters.entry(range.master.clone()).or_insert(next);
        }
        self.lines().retain(|place, _| masters.contains_key(place));
        ranges
            .into_iter()
            .map(|range| {
                let line = self.line_to(&range.master).map_err(|error| error.to_string())?;
                Ok(Owned { first: range.first, last: range.last, part: masters[&range.master], line })
            })
            .collect()
    }

    fn lines(&self) -> MutexGuard<'_, HashMap<HostPort, Arc<RedisConnection>>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn owned(ranges: &[Owned], slot: u16) -> Option<&Owned> {
    let after = ranges.partition_point(|owned| owned.first <= slot);
    after.checked_sub(1).map(|index| &ranges[index]).filter(|owned| slot <= owned.last)
}

fn owner(ranges: &[Owned], slot: u16) -> Result<Arc<RedisConnection>, LinkError> {
    match owned(ranges, slot) {
        Some(owned) => Ok(Arc::clone(&owned.line)),
        None => Err(LinkError::Refused(format!("no node of the Cluster has slot {slot}"))),
    }
}

/// Draws the map, now and whenever it seems to be wrong, for ever.
async fn keep_map(shared: Arc<Shared>) {
    for turn in 0.. {
        match shared.draw(turn).await {
            Ok(ranges) => shared.map.store(Arc::new(Map::Known(ranges))),
            // An old map is better than none.
            Err(_) if matches!(**shared.map.load(), Map::Known(_)) => {}
            Err(why) => shared.map.store(Arc::new(Map::Unknown(why))),
        }
        shared.drawn.notify_waiters();
        tokio::time::sleep(MAP_GAP).await;
        let unknown = matches!(**shared.map.load(), Map::Unknown(_));
        let life = if unknown { MAP_GAP } else { MAP_LIFE };
        // Whoever was told off by the old map has nothing to say of the new one; there is no harm in looking.
        let _ = tokio::time::timeout(life, shared.stale.notified()).await;
    }
}
