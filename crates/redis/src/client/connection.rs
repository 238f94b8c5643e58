//! A connection that is kept open: a task opens it, watches it, and reopens it whenever it is lost.

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
use super::connector::{ConnectTarget, Connector, OpenConnection, error_message};
use crate::calls::LinkError;

/// After this many unanswered calls in a row the connection is checked.
const UNANSWERED_MAX: u32 = 3;

/// How often an idle connection is checked with `PING`.
const PING_EVERY: Duration = Duration::from_millis(500);

/// One connection, shared by all calls. It ends when this is dropped.
#[derive(Debug)]
pub(super) struct RedisConnection {
    shared: Arc<Shared>,
    _task: AbortOnDropHandle<()>,
    /// The address, if it is fixed.
    address: Option<HostPort>,
}

#[derive(Debug)]
struct Shared {
    state: ArcSwap<State>,
    /// Notified when the state changes.
    changed: Notify,
    answers: AtomicU64,
    unanswered: AtomicU32,
    /// Notified when calls are not answered.
    suspect: Notify,
    /// Notified when the server turns out not to be the master.
    demoted: Notify,
}

#[derive(Debug)]
enum State {
    /// The first attempt is under way, or the first attempt at a new master: calls wait for it.
    Connecting,
    Up(MultiplexedConnection),
    Down(String),
}

/// Why a connection ended.
enum End {
    /// It could not be opened.
    ConnectFailed(String),
    Closed,
    Unresponsive,
    Demoted,
    Replaced,
}

impl RedisConnection {
    /// Starts to connect.
    pub(super) fn start(runtime: &Handle, connector: Connector) -> RedisConnection {
        let shared = Arc::new(Shared {
            state: ArcSwap::from_pointee(State::Connecting),
            changed: Notify::new(),
            answers: AtomicU64::new(0),
            unanswered: AtomicU32::new(0),
            suspect: Notify::new(),
            demoted: Notify::new(),
        });
        let address = match &connector.target {
            ConnectTarget::Address(address) => Some(address.clone()),
            ConnectTarget::Master(_) => None,
        };
        let task = runtime.spawn(run(Arc::clone(&shared), connector));
        RedisConnection { shared, _task: AbortOnDropHandle::new(task), address }
    }

    /// The address, if it is fixed.
    pub(super) fn address(&self) -> Option<&HostPort> {
        self.address.as_ref()
    }

    /// Resolves once the first attempt has succeeded or failed.
    pub(super) async fn first_attempt_done(&self) {
        // The calls that follow report the result.
        let _ = self.connection().await;
    }

    /// Sends one command, once. `asking` sends `ASKING` right before it.
    ///
    /// Waits while a first attempt is under way. Dropping the future counts as an unanswered call.
    ///
    /// # Errors
    /// At once if there is no connection, and when the connection is lost.
    pub(super) async fn send(&self, command: &Cmd, asking: bool) -> Result<Value, LinkError> {
        // What is rare is boxed: this future is moved in every decision that waits for the server.
        let mut connection = match self.shared.known() {
            Some(known) => known?,
            None => Box::pin(self.connection()).await?,
        };
        let guard = CallGuard { shared: &self.shared };
        let sent = if asking {
            let mut both = redis::pipe();
            both.cmd("ASKING").add_command(command.clone());
            let answers = Box::pin(connection.send_packed_commands(&both, 1, 1)).await;
            answers.map(|mut answers| answers.pop().unwrap_or_default())
        } else {
            connection.send_packed_command(command).await
        };
        guard.answered();
        sent.map_err(|error| match error.kind() {
            redis::ErrorKind::Parse => LinkError::Garbled(error_message(&error)),
            _ => LinkError::Lost(error_message(&error)),
        })
    }

    /// The server is not the master: finds the master again.
    pub(super) fn find_master_again(&self) {
        self.shared.demoted.notify_one();
    }

    async fn connection(&self) -> Result<MultiplexedConnection, LinkError> {
        loop {
            if let Some(known) = self.shared.known() {
                return known;
            }
            let changed = self.shared.changed.notified();
            tokio::pin!(changed);
            // Registered before checking again, so that no change is missed.
            changed.as_mut().enable();
            if self.shared.known().is_none() {
                changed.await;
            }
        }
    }
}

/// A call that waits for its answer. Dropping it counts an unanswered call.
struct CallGuard<'a> {
    shared: &'a Shared,
}

impl CallGuard<'_> {
    fn answered(self) {
        let shared = self.shared;
        std::mem::forget(self);
        shared.answers.fetch_add(1, Ordering::Relaxed);
        if shared.unanswered.load(Ordering::Relaxed) != 0 {
            shared.unanswered.store(0, Ordering::Relaxed);
        }
    }
}

impl Drop for CallGuard<'_> {
    fn drop(&mut self) {
        let before = self.shared.unanswered.fetch_add(1, Ordering::Relaxed);
        if before.saturating_add(1) >= UNANSWERED_MAX {
            self.shared.suspect.notify_one();
        }
    }
}

impl Shared {
    /// The connection, or why there is none; `None` during a first attempt.
    fn known(&self) -> Option<Result<MultiplexedConnection, LinkError>> {
        match &**self.state.load() {
            State::Connecting => None,
            State::Up(connection) => Some(Ok(connection.clone())),
            State::Down(why) => Some(Err(LinkError::Down(why.clone()))),
        }
    }

    /// Clears the notices about the last connection: they do not apply to the next.
    async fn clear_notices(&self) {
        self.unanswered.store(0, Ordering::Relaxed);
        for notice in [&self.suspect, &self.demoted] {
            let _ = tokio::time::timeout(Duration::ZERO, notice.notified()).await;
        }
    }

    fn set(&self, state: State) {
        self.state.store(Arc::new(state));
        self.changed.notify_waiters();
    }
}

/// Connects, watches the connection, and reconnects, for ever.
async fn run(shared: Arc<Shared>, connector: Connector) {
    let mut backoff = Backoff::new();
    loop {
        let answers = shared.answers.load(Ordering::Relaxed);
        let end = match connector.open(None).await {
            Err(why) => End::ConnectFailed(why),
            Ok(OpenConnection { connection, driver, address }) => {
                shared.clear_notices().await;
                shared.set(State::Up(connection.clone()));
                // However it ends, the server may have executed the calls under way, so they are not sent again.
                tokio::select! {
                    () = driver => End::Closed,
                    end = watch(&shared, connection, connector.connect_options.ping_timeout) => end,
                    () = connector.target.until_moved_from(&address) => End::Replaced,
                }
            }
        };
        let was_useful = shared.answers.load(Ordering::Relaxed) != answers;
        if matches!(end, End::Replaced) && was_useful {
            backoff.reset();
            // The new master is already known: calls wait for its connection, within their deadlines.
            shared.set(State::Connecting);
            continue;
        }
        shared.set(State::Down(match &end {
            End::ConnectFailed(why) => why.clone(),
            End::Closed => "the server closed the connection".into(),
            End::Unresponsive => "the server does not answer".into(),
            End::Demoted => "the server is not the master; looking for the master".into(),
            End::Replaced => "Sentinels name another master; connecting to it".into(),
        }));
        // A server that accepts and closes at once, or that answers but is not the master, may be the only one for
        // a while: back off, so that it is not flooded with connections.
        if matches!(end, End::Closed | End::Unresponsive) && was_useful {
            backoff.reset();
        }
        tokio::time::sleep(backoff.wait()).await;
    }
}

/// Watches a connection until it is useless. A peer that vanished without closing the connection just stops
/// answering, so a connection that is idle, or has unanswered calls, is checked with `PING`.
async fn watch(shared: &Shared, mut connection: MultiplexedConnection, ping_timeout: Duration) -> End {
    let ping = redis::cmd("PING");
    let mut seen = shared.answers.load(Ordering::Relaxed);
    loop {
        tokio::select! {
            () = shared.demoted.notified() => return End::Demoted,
            () = shared.suspect.notified() => {}
            () = tokio::time::sleep(PING_EVERY) => {}
        }
        let answers = shared.answers.load(Ordering::Relaxed);
        if answers == seen {
            let sign = tokio::time::timeout(ping_timeout, connection.send_packed_command(&ping)).await;
            if sign.is_err() && shared.answers.load(Ordering::Relaxed) == seen {
                return End::Unresponsive;
            }
        }
        seen = answers;
    }
}
