//! The thread of a shared store: it runs the connections and the store's maintenance, and logs changes of its health.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tidegate::{Clock, MonotonicClock};
use tidegate_redis::{RedisClient, RedisClientError, RedisClientOptions, RedisStore, StoreOptions};
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_util::task::AbortOnDropHandle;

use super::SharedRedisStore;
use super::state_log::StoreStateLog;
use crate::bounds::{STORE_ATTEMPT_MAX, STORE_LEAVE_MAX};
use crate::observe::Events;
use crate::settings::SharedStoreSettings;

/// Pause between attempts to reach a store that has never answered, and before maintenance restarts after a panic.
const RETRY_PAUSE: Duration = Duration::from_millis(250);
/// How often the store's health is compared with what was logged last.
const LOG_INTERVAL: Duration = Duration::from_millis(100);

/// Why a shared store cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreThreadError {
    /// Its URL or the certificates to trust are invalid.
    #[error("store.redis: {0}")]
    RedisClient(#[from] RedisClientError),
    /// Its thread cannot be started.
    #[error("cannot start the thread of the store: {0}")]
    Thread(#[from] io::Error),
}

/// The stage of the thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Attempting,
    Running,
    Gone,
}

/// The handle to the thread, which ends when this is dropped.
#[derive(Debug)]
pub(crate) struct StoreThread {
    stage: watch::Receiver<Stage>,
    leaving: watch::Sender<bool>,
}

impl StoreThread {
    /// Starts the thread, which begins to connect. A server that does not answer is not an error: the store is used as
    /// soon as it does.
    ///
    /// # Errors
    /// When the URL or the certificates are invalid, or the thread cannot start.
    pub(crate) fn start(
        settings: &SharedStoreSettings,
        clock: MonotonicClock,
        events: Events,
    ) -> Result<(Arc<SharedRedisStore>, StoreThread), StoreThreadError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let server = {
            let _context = runtime.enter();
            RedisClient::connect(RedisClientOptions {
                url: settings.url.clone(),
                deadline: settings.deadline.into(),
                ca: settings.ca.clone(),
            })?
        };
        let options = StoreOptions {
            prefix: settings.prefix.clone(),
            retry_for: settings.deadline.into(),
            ..StoreOptions::new(settings.mode)
        };
        let started = clock.now();
        let shared = Arc::new_cyclic(|this| SharedRedisStore {
            store: RedisStore::new(server, clock, options),
            address: settings.display_url(),
            started,
            answered: AtomicBool::new(false),
            this: Weak::clone(this),
        });
        let (stage, stages) = watch::channel(Stage::Attempting);
        let (leaving, left) = watch::channel(false);
        let store = Arc::clone(&shared);
        std::thread::Builder::new()
            .name("store".into())
            .spawn(move || run(&runtime, store, events, &stage, left))?;
        Ok((shared, StoreThread { stage: stages, leaving }))
    }

    /// Resolves when the first attempt to reach the store has succeeded or failed.
    pub(crate) async fn first_attempt_done(&self) {
        let mut stage = self.stage.clone();
        // An error means that the thread has ended, and there is nothing to wait for.
        let _seen = stage.wait_for(|stage| *stage >= Stage::Running).await;
    }

    /// Gives back this node's leases, removes the node from the store, and waits until that is done.
    pub(crate) async fn leave(&self) {
        self.leaving.send_replace(true);
        let mut stage = self.stage.clone();
        let _seen = stage.wait_for(|stage| *stage == Stage::Gone).await;
    }
}

fn run(
    runtime: &Runtime,
    shared: Arc<SharedRedisStore>,
    events: Events,
    stage: &watch::Sender<Stage>,
    mut leaving: watch::Receiver<bool>,
) {
    runtime.block_on(async {
        attempt(&shared).await;
        let mut state_log = StoreStateLog::new(&shared, events);
        stage.send_replace(Stage::Running);
        tokio::select! {
            () = run_maintenance(&shared) => {}
            () = until_answered(&shared) => {}
            () = log_changes(&shared, &mut state_log) => {}
            // Also ends when the `StoreThread` is dropped.
            _ = leaving.wait_for(|leaving| *leaving) => {}
        }
        // If the store does not answer, the leases expire by themselves.
        let _left = timeout(STORE_LEAVE_MAX, shared.store.leave()).await;
        stage.send_replace(Stage::Gone);
    });
}

/// Calls the store once, and remembers if it answered.
async fn attempt(shared: &SharedRedisStore) -> bool {
    let answered = matches!(timeout(STORE_ATTEMPT_MAX, shared.store.first_attempt()).await, Ok(Ok(())));
    if answered {
        shared.answered.store(true, Ordering::Relaxed);
    }
    answered
}

/// Tries until the store has answered once; from then on the store tracks its own health. Never returns.
async fn until_answered(shared: &SharedRedisStore) {
    while !shared.answered.load(Ordering::Relaxed) && !attempt(shared).await {
        sleep(RETRY_PAUSE).await;
    }
    std::future::pending().await
}

/// Runs the store's maintenance, and restarts it if it panics (the panic hook logs that): without maintenance, a broken
/// connection would never recover.
async fn run_maintenance(shared: &Arc<SharedRedisStore>) {
    loop {
        let kept = Arc::clone(shared);
        let maintenance = tokio::spawn(async move { kept.store.run_maintenance().await });
        let _panicked = AbortOnDropHandle::new(maintenance).await;
        sleep(RETRY_PAUSE).await;
    }
}

async fn log_changes(shared: &SharedRedisStore, state_log: &mut StoreStateLog) {
    loop {
        sleep(LOG_INTERVAL).await;
        state_log.log_changes(shared);
    }
}
