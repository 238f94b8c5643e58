//! The Sentinels that watch over a master, watched in turn: each is asked again and again, and listened to, so that a
//! master that was replaced is left although it still answers.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redis::Value;
use redis::aio::MultiplexedConnection;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio_util::task::AbortOnDropHandle;

use super::address::HostPort;
use super::backoff::Backoff;
use super::connector::{ConnectOptions, ConnectionTask, Handshake, no_answer, plain};
use super::master_choice::{MasterClaim, choose};
use super::reply::words;

/// How often a Sentinel is asked, at least; up to twice as often, so that nodes do not ask all at once.
const ASK_EVERY: Duration = Duration::from_secs(1);

/// What Sentinels publish when another server has become the master.
const SWITCHED: &str = "+switch-master";

/// What is known of a master that Sentinels watch over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MasterWatch {
    /// Where it is, if anybody has said so.
    pub master: Option<String>,
    /// How often the link went from one master to another.
    pub moves: u64,
    /// How many Sentinels the address names.
    pub sentinels: usize,
    /// How many of them answer.
    pub answering: usize,
}

/// Asks Sentinels until it is dropped.
#[derive(Debug)]
pub(super) struct Sentinels {
    shared: Arc<Shared>,
    _watchers: Vec<AbortOnDropHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    manners: Arc<ConnectOptions>,
    places: Vec<HostPort>,
    name: String,
    board: Mutex<Board>,
    /// Told whenever something was heard.
    changed: Notify,
    /// One for each Sentinel: told when it is to be asked now.
    wanted: Vec<Notify>,
    moves: AtomicU64,
}

/// What was heard.
#[derive(Debug)]
struct Board {
    /// Whom to go by.
    present: Option<MasterClaim>,
    /// Where the link led last.
    connected: Option<HostPort>,
    /// By Sentinel: what it said last, or why it said nothing.
    heard: Vec<Heard>,
    /// How often somebody wanted to know at once.
    round: u64,
}

#[derive(Clone, Debug)]
struct Heard {
    said: Result<MasterClaim, String>,
    /// The round in which it was asked.
    round: u64,
}

impl Sentinels {
    /// Begins to ask.
    pub(super) fn start(
        runtime: &Handle,
        manners: Arc<ConnectOptions>,
        places: Vec<HostPort>,
        name: String,
    ) -> Sentinels {
        let nothing = Heard { said: Err("it was not asked yet".into()), round: 0 };
        let board = Board { present: None, connected: None, heard: vec![nothing; places.len()], round: 0 };
        let shared = Arc::new(Shared {
            manners,
            wanted: places.iter().map(|_| Notify::new()).collect(),
            places,
            name,
            board: Mutex::new(board),
            changed: Notify::new(),
            moves: AtomicU64::new(0),
        });
        let watch = |index| AbortOnDropHandle::new(runtime.spawn(watch(Arc::clone(&shared), index)));
        let _watchers = (0..shared.places.len()).map(watch).collect();
        Sentinels { shared, _watchers }
    }

    /// Where the master is: asks all at once, and waits for most of them, or as long as one may take.
    ///
    /// # Errors
    /// When nobody has ever said it, in words.
    pub(super) async fn find(&self) -> Result<HostPort, String> {
        let round = {
            let mut board = self.shared.board();
            board.round += 1;
            board.round
        };
        self.shared.wanted.iter().for_each(Notify::notify_one);
        let heard = self.shared.until(|board| board.has_heard_enough(round).then_some(()));
        // Who is late is heard later.
        let _ = tokio::time::timeout(self.shared.manners.within, heard).await;
        let place = self.shared.board().place().cloned();
        place.ok_or_else(|| self.troubles())
    }

    /// Resolves when another master is to be gone by than that one.
    pub(super) async fn elsewhere(&self, than: &HostPort) {
        self.shared.until(|board| board.place().filter(|place| *place != than).map(|_| ())).await;
    }

    /// The link leads there now.
    pub(super) fn connected(&self, place: &HostPort) {
        let before = self.shared.board().connected.replace(place.clone());
        if before.is_some_and(|before| before != *place) {
            self.shared.moves.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// What is known.
    pub(super) fn known(&self) -> MasterWatch {
        let board = self.shared.board();
        MasterWatch {
            master: board.place().map(ToString::to_string),
            moves: self.shared.moves.load(Ordering::Relaxed),
            sentinels: board.heard.len(),
            answering: board.said().len(),
        }
    }

    fn troubles(&self) -> String {
        let board = self.shared.board();
        let all = self.shared.places.iter().zip(&board.heard);
        let troubles = all.filter_map(|(place, heard)| {
            heard.said.as_ref().err().map(|why| format!("Sentinel {place}: {why}"))
        });
        troubles.collect::<Vec<_>>().join("; ")
    }
}

impl Board {
    fn place(&self) -> Option<&HostPort> {
        self.present.as_ref().map(|present| &present.place)
    }

    fn said(&self) -> Vec<&MasterClaim> {
        self.heard.iter().filter_map(|heard| heard.said.as_ref().ok()).collect()
    }

    fn hear(&mut self, index: usize, heard: Heard) {
        self.heard[index] = heard;
        self.present = choose(&self.said(), self.heard.len(), self.present.as_ref());
    }

    /// Has a majority answered since, or everybody answered or failed?
    fn has_heard_enough(&self, round: u64) -> bool {
        let since = || self.heard.iter().filter(|heard| heard.round >= round);
        let answered = since().filter(|heard| heard.said.is_ok()).count();
        answered * 2 > self.heard.len() || since().count() == self.heard.len()
    }
}

impl Shared {
    fn board(&self) -> MutexGuard<'_, Board> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the board tells something.
    async fn until<T>(&self, look: impl Fn(&Board) -> Option<T>) -> T {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // Enlisted before looking, so that no change is missed.
            changed.as_mut().enable();
            let seen = look(&self.board());
            match seen {
                Some(seen) => return seen,
                None => changed.await,
            }
        }
    }

    fn hear(&self, index: usize, round: u64, said: Result<MasterClaim, String>) {
        self.board().hear(index, Heard { said, round });
        self.changed.notify_waiters();
    }

    /// Asks one Sentinel as long as it answers; says why it does no more.
    async fn ask_on(&self, index: usize, backoff: &mut Backoff) -> String {
        let news = Arc::new(Notify::new());
        let (mut connection, driver) = match self.open(&self.places[index], &news).await {
            Ok(opened) => opened,
            Err(why) => return why,
        };
        let asking = async {
            // One that may not be listened to is asked all the same.
            let _ = tokio::time::timeout(self.manners.within, connection.subscribe(SWITCHED)).await;
            loop {
                let round = self.board().round;
                match self.ask(&mut connection).await {
                    // It may be told the name yet, so the connection is kept.
                    Err(Unanswered::Unknown(why)) => self.hear(index, round, Err(why)),
                    Err(Unanswered::Failed(why)) => return why,
                    Ok(named) => {
                        backoff.reset();
                        self.hear(index, round, Ok(named));
                    }
                }
                tokio::select! {
                    () = tokio::time::sleep(backoff.cut(ASK_EVERY)) => {}
                    () = self.wanted[index].notified() => {}
                    () = news.notified() => {}
                }
            }
        };
        tokio::select! {
            why = asking => why,
            () = driver => "it hung up".into(),
        }
    }

    async fn open(
        &self,
        place: &HostPort,
        news: &Arc<Notify>,
    ) -> Result<(MultiplexedConnection, ConnectionTask), String> {
        match self.introduce(place, Some(news)).await {
            // Only RESP3, which HELLO begins, lets one connection both ask and listen.
            Err(why) if why.to_lowercase().contains("hello") => self.introduce(place, None).await,
            other => other,
        }
    }

    async fn introduce(
        &self,
        place: &HostPort,
        news: Option<&Arc<Notify>>,
    ) -> Result<(MultiplexedConnection, ConnectionTask), String> {
        // Most Sentinels want no password; one that does usually has the servers'.
        match self.manners.open(place, Handshake::None, news).await {
            Err(why) if why.contains("NOAUTH") => self.manners.open(place, Handshake::Login, news).await,
            other => other,
        }
    }

    /// One question. The epoch is asked for first: if a failover comes between the two, a new place with an old epoch
    /// does no harm, and an old place with a new epoch would.
    async fn ask(&self, connection: &mut MultiplexedConnection) -> Result<MasterClaim, Unanswered> {
        let mut questions = redis::pipe();
        questions.cmd("SENTINEL").arg("MASTER").arg(&self.name);
        questions.cmd("SENTINEL").arg("GET-MASTER-ADDR-BY-NAME").arg(&self.name);
        let within = self.manners.within;
        let answers = tokio::time::timeout(within, connection.send_packed_commands(&questions, 0, 2))
            .await
            .map_err(|_| Unanswered::Failed(no_answer(within)))?
            .map_err(|error| Unanswered::Failed(plain(&error)))?;
        let [about, place] = answers.as_slice() else { return Err(Unanswered::senseless()) };
        let place = match place {
            Value::Array(parts) => match parts.as_slice() {
                [Value::BulkString(host), Value::BulkString(port)] => {
                    read_place(host, port).map_err(Unanswered::Failed)?
                }
                _ => return Err(Unanswered::senseless()),
            },
            Value::Nil => {
                return Err(Unanswered::Unknown(format!("it knows no master named {:?}", self.name)));
            }
            Value::ServerError(error) => return Err(Unanswered::Failed(words(error))),
            _ => return Err(Unanswered::senseless()),
        };
        Ok(MasterClaim { place, epoch: epoch_in(about) })
    }
}

/// Why a Sentinel does not say where the master is.
enum Unanswered {
    /// It does not know.
    Unknown(String),
    /// It did not answer, or not with sense.
    Failed(String),
}

impl Unanswered {
    fn senseless() -> Unanswered {
        Unanswered::Failed("an answer that makes no sense".into())
    }
}

/// Watches one Sentinel, for ever.
async fn watch(shared: Arc<Shared>, index: usize) {
    let mut backoff = Backoff::new();
    loop {
        let round = shared.board().round;
        let why = shared.ask_on(index, &mut backoff).await;
        shared.hear(index, round, Err(why));
        tokio::select! {
            () = tokio::time::sleep(backoff.wait()) => {}
            () = shared.wanted[index].notified() => {}
        }
    }
}

fn read_place(host: &[u8], port: &[u8]) -> Result<HostPort, String> {
    let text = |bytes| std::str::from_utf8(bytes).map_err(|_| "a master that is no place".to_owned());
    let port = text(port)?.parse().map_err(|_| "a master without a port".to_owned())?;
    Ok(HostPort { host: text(host)?.to_owned(), port })
}

/// The epoch among what a Sentinel tells of a master; zero if it is not to be had, as where only asking for the place
/// is permitted.
fn epoch_in(about: &Value) -> u64 {
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
