//! A connection that is kept: made, watched, and made again whenever it is lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use redis::aio::MultiplexedConnection;
use redis::{Cmd, Value};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio_util::task::AbortOnDropHandle;

use super::address::HostPort;
use super::backoff::Backoff;
use super::connector::{ConnectTarget, Connector, OpenConnection, plain};
use crate::link::LinkError;

/// So many calls in a row that nobody answers make a connection suspect.
const UNANSWERED_MAX: u32 = 3;

/// How often an idle connection is asked for a sign of life.
const QUIET: Duration = Duration::from_millis(500);

/// How long a sign of life may take.
const SIGN_OF_LIFE: Duration = Duration::from_millis(250);

/// One connection, shared by everybody who asks. It ends when this is dropped.
#[derive(Debug)]
pub(super) struct RedisConnection {
    shared: Arc<Shared>,
    _keeper: AbortOnDropHandle<()>,
    /// Where it leads, if that is fixed.
    place: Option<HostPort>,
}

#[derive(Debug)]
struct Shared {
    state: ArcSwap<State>,
    /// Told whenever the state changes.
    changed: Notify,
    answers: AtomicU64,
    unanswered: AtomicU32,
    /// Told when calls are not answered.
    suspect: Notify,
    /// Told when this is not the master.
    demoted: Notify,
}

#[derive(Debug)]
enum State {
    /// Nobody knows yet: the first attempt is under way, or the first at another master.
    Connecting,
    Up(MultiplexedConnection),
    Down(String),
}

/// How a connection came to its end.
enum End {
    /// There was none.
    NoWay(String),
    HungUp,
    Silent,
    Demoted,
    Replaced,
}

impl RedisConnection {
    /// Begins to connect.
    pub(super) fn start(runtime: &Handle, door: Connector) -> RedisConnection {
        let shared = Arc::new(Shared {
            state: ArcSwap::from_pointee(State::Connecting),
            changed: Notify::new(),
            answers: AtomicU64::new(0),
            unanswered: AtomicU32::new(0),
            suspect: Notify::new(),
            demoted: Notify::new(),
        });
        let place = match &door.goal {
            ConnectTarget::Place(place) => Some(place.clone()),
            ConnectTarget::Master(_) => None,
        };
        let keeper = runtime.spawn(keep(Arc::clone(&shared), door));
        RedisConnection { shared, _keeper: AbortOnDropHandle::new(keeper), place }
    }

    /// Where it leads, if that is fixed.
    pub(super) fn place(&self) -> Option<&HostPort> {
        self.place.as_ref()
    }

    /// Resolves once the first attempt has succeeded or failed.
    pub(super) async fn settled(&self) {
        // How it came out is for those who ask.
        let _ = self.connection().await;
    }

    /// Sends one command, once. `asking` sends `ASKING` right before it.
    ///
    /// While a first attempt is under way this waits for it. Who drops it has not been answered.
    ///
    /// # Errors
    /// Without a connection, at once; and when the connection is lost.
    pub(super) async fn send(&self, command: &Cmd, asking: bool) -> Result<Value, LinkError> {
        let mut connection = self.connection().await?;
        let waiting = Waiting { shared: &self.shared };
        let sent = if asking {
            let mut both = redis::pipe();
            both.cmd("ASKING").add_command(command.clone());
            let answers = connection.send_packed_commands(&both, 1, 1).await;
            answers.map(|mut answers| answers.pop().unwrap_or_default())
        } else {
            connection.send_packed_command(command).await
        };
        waiting.answered();
        sent.map_err(|error| match error.kind() {
            redis::ErrorKind::Parse => LinkError::Garbled(plain(&error)),
            _ => LinkError::Lost(plain(&error)),
        })
    }

    /// Whoever is there is not the master: looks for it again.
    pub(super) fn look_again(&self) {
        self.shared.demoted.notify_one();
    }

    async fn connection(&self) -> Result<MultiplexedConnection, LinkError> {
        loop {
            if let Some(known) = self.shared.known() {
                return known;
            }
            let changed = self.shared.changed.notified();
            tokio::pin!(changed);
            // Enlisted before looking again, so that no change is missed.
            changed.as_mut().enable();
            if self.shared.known().is_none() {
                changed.await;
            }
        }
    }
}

/// A call that waits for its answer. If it is dropped while it does, nobody answered.
struct Waiting<'a> {
    shared: &'a Shared,
}

impl Waiting<'_> {
    fn answered(self) {
        let shared = self.shared;
        std::mem::forget(self);
        shared.answers.fetch_add(1, Ordering::Relaxed);
        if shared.unanswered.load(Ordering::Relaxed) != 0 {
            shared.unanswered.store(0, Ordering::Relaxed);
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let before = self.shared.unanswered.fetch_add(1, Ordering::Relaxed);
        if before.saturating_add(1) >= UNANSWERED_MAX {
            self.shared.suspect.notify_one();
        }
    }
}

impl Shared {
    /// The connection or why there is none, unless nobody knows yet.
    fn known(&self) -> Option<Result<MultiplexedConnection, LinkError>> {
        match &**self.state.load() {
            State::Connecting => None,
            State::Up(connection) => Some(Ok(connection.clone())),
            State::Down(why) => Some(Err(LinkError::Down(why.clone()))),
        }
    }

    /// What was said of the last connection says nothing of the next.
    async fn forget(&self) {
        self.unanswered.store(0, Ordering::Relaxed);
        for told in [&self.suspect, &self.demoted] {
            let _ = tokio::time::timeout(Duration::ZERO, told.notified()).await;
        }
    }

    fn set(&self, state: State) {
        self.state.store(Arc::new(state));
        self.changed.notify_waiters();
    }
}

/// Connects, watches, and connects again, for ever.
async fn keep(shared: Arc<Shared>, door: Connector) {
    let mut backoff = Backoff::new();
    loop {
        let answers = shared.answers.load(Ordering::Relaxed);
        let end = match door.open().await {
            Err(why) => End::NoWay(why),
            Ok(OpenConnection { connection, driver, place }) => {
                shared.forget().await;
                shared.set(State::Up(connection.clone()));
                // Whatever it ends by, what is under way on it may have been done, and is not sent anew.
                tokio::select! {
                    () = driver => End::HungUp,
                    end = watch(&shared, connection) => end,
                    () = door.goal.elsewhere(&place) => End::Replaced,
                }
            }
        };
        let was_of_use = shared.answers.load(Ordering::Relaxed) != answers;
        if matches!(end, End::Replaced) && was_of_use {
            backoff.reset();
            // Another is there already: whoever asks waits for it, within its deadline.
            shared.set(State::Connecting);
            continue;
        }
        shared.set(State::Down(match &end {
            End::NoWay(why) => why.clone(),
            End::HungUp => "the server hung up".into(),
            End::Silent => "the server gives no sign of life".into(),
            End::Demoted => "the server is not the master; looking for it".into(),
            End::Replaced => "Sentinels name another master; connecting to it".into(),
        }));
        // One that lets us in and hangs up, or is well but not the master, may be all there is: it is not to be
        // bothered without end.
        if matches!(end, End::HungUp | End::Silent) && was_of_use {
            backoff.reset();
        }
        tokio::time::sleep(backoff.wait()).await;
    }
}

/// Looks after a connection until it is of no more use. A peer that is gone without a word is known only by not
/// answering: so whoever is quiet, or has left calls unanswered, is asked for a sign of life.
async fn watch(shared: &Shared, mut connection: MultiplexedConnection) -> End {
    let ping = redis::cmd("PING");
    let mut seen = shared.answers.load(Ordering::Relaxed);
    loop {
        tokio::select! {
            () = shared.demoted.notified() => return End::Demoted,
            () = shared.suspect.notified() => {}
            () = tokio::time::sleep(QUIET) => {}
        }
        let answers = shared.answers.load(Ordering::Relaxed);
        if answers == seen {
            let sign = tokio::time::timeout(SIGN_OF_LIFE, connection.send_packed_command(&ping)).await;
            if sign.is_err() && shared.answers.load(Ordering::Relaxed) == seen {
                return End::Silent;
            }
        }
        seen = answers;
    }
}
