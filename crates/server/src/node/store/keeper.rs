//! The thread that keeps the connection to a shared store, and what has to be done beside deciding.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tidegate::{Clock, MonotonicClock};
use tidegate_redis::{RedisClient, RedisClientError, RedisClientOptions, RedisStore, StoreOptions};
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::SharedRedisStore;
use super::telling::StoreStateLog;
use crate::bounds::{STORE_ATTEMPT_MAX, STORE_LEAVE_MAX};
use crate::settings::SharedStoreSettings;

/// How often a store that has never answered is tried, and how long it is until chores that failed go on.
const AGAIN: Duration = Duration::from_millis(250);
/// How often it is looked whether the store's health has changed.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Why a shared store cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreThreadError {
    /// Its address or the certificates to trust make no sense.
    #[error("store.redis: {0}")]
    RedisClient(#[from] RedisClientError),
    /// There is no thread for it.
    #[error("the thread of the store cannot start: {0}")]
    Thread(#[from] io::Error),
}

/// How far the thread is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Attempting,
    Tending,
    Gone,
}

/// The thread. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct StoreThread {
    stage: watch::Receiver<Stage>,
    leaving: watch::Sender<bool>,
}

impl StoreThread {
    /// Begins to connect. That nobody answers is no error: the store is used as soon as it does.
    ///
    /// # Errors
    /// When the address makes no sense, or there is no thread to be had.
    pub(crate) fn start(
        settings: &SharedStoreSettings,
        clock: MonotonicClock,
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
        let begun = clock.now();
        let shared = Arc::new(SharedRedisStore {
            store: RedisStore::new(server, clock, options),
            place: settings.shown(),
            begun,
            answered: AtomicBool::new(false),
        });
        let (stage, stages) = watch::channel(Stage::Attempting);
        let (leaving, asked) = watch::channel(false);
        let kept = Arc::clone(&shared);
        std::thread::Builder::new()
            .name("store".into())
            .spawn(move || keep(&runtime, kept, &stage, asked))?;
        Ok((shared, StoreThread { stage: stages, leaving }))
    }

    /// Resolves when the first attempt to reach the store has succeeded or failed.
    pub(crate) async fn attempted(&self) {
        let mut stage = self.stage.clone();
        // A thread that is gone attempts nothing any more.
        let _seen = stage.wait_for(|stage| *stage >= Stage::Tending).await;
    }

    /// Gives back what is leased, and tells the others that this node goes.
    pub(crate) async fn leave(&self) {
        self.leaving.send_replace(true);
        let mut stage = self.stage.clone();
        let _seen = stage.wait_for(|stage| *stage == Stage::Gone).await;
    }
}

fn keep(
    runtime: &Runtime,
    shared: Arc<SharedRedisStore>,
    stage: &watch::Sender<Stage>,
    mut leaving: watch::Receiver<bool>,
) {
    runtime.block_on(async {
        attempt(&shared).await;
        let mut teller = StoreStateLog::new(&shared);
        stage.send_replace(Stage::Tending);
        tokio::select! {
            () = tend(&shared) => {}
            () = until_answered(&shared) => {}
            () = tell(&shared, &mut teller) => {}
            // Whoever has started this may be gone too.
            _ = leaving.wait_for(|leaving| *leaving) => {}
        }
        // Where the store does not answer, what is leased there runs out by itself.
        let _left = timeout(STORE_LEAVE_MAX, shared.store.leave()).await;
        stage.send_replace(Stage::Gone);
    });
}

/// Asks the store once, and remembers an answer.
async fn attempt(shared: &SharedRedisStore) -> bool {
    let answered = matches!(timeout(STORE_ATTEMPT_MAX, shared.store.first_attempt()).await, Ok(Ok(())));
    if answered {
        shared.answered.store(true, Ordering::Relaxed);
    }
    answered
}

/// Tries until the store has answered once; from then on it knows by itself how it is.
async fn until_answered(shared: &SharedRedisStore) {
    while !shared.answered.load(Ordering::Relaxed) && !attempt(shared).await {
        sleep(AGAIN).await;
    }
    std::future::pending().await
}

/// Does the store's chores. Should there be a fault in them, which is told where faults are told, they begin
/// anew: without them nothing heals.
async fn tend(shared: &Arc<SharedRedisStore>) {
    loop {
        let kept = Arc::clone(shared);
        let tending = tokio::spawn(async move { kept.store.run_maintenance().await });
        let stop = StopOnDrop(tending.abort_handle());
        let _fault = tending.await;
        drop(stop);
        sleep(AGAIN).await;
    }
}

struct StopOnDrop(tokio::task::AbortHandle);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn tell(shared: &SharedRedisStore, teller: &mut StoreStateLog) {
    loop {
        sleep(LOOK_EVERY).await;
        teller.look(shared);
    }
}
