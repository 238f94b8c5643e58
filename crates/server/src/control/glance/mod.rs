//! The figures of now and of the last hour, on this node and on the whole fleet.
//!
//! Each second the node's counters are read (`reading`), and the difference to the reading before are the figures of that
//! second (`figures`). They are also added up in steps of half a minute, for an hour (`last_hour`). The busiest keys are those
//! of the step that goes on and of the one before (`busy`). With a database each node
//! writes its figures there, else on the Redis that nodes share, and whoever asks gets the sum over all nodes (`fleet`);
//! without either, those of this node.
//! `overview` is what the API shows. No decision waits for any of it.

pub(crate) mod busy;
mod figures;
pub(crate) mod fleet;
pub(super) mod last_hour;
pub(crate) mod overview;
mod reading;

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use tidegate::Clock;
use tidegate_database::UnixMillis;
use tokio::sync::Semaphore;

use busy::BusyFigures;
use figures::{Figures, NodeFigures};
use fleet::FleetCache;
use last_hour::LastHour;
use reading::Reading;

use crate::bounds::OVERVIEW_STREAMS_MAX;
use crate::control::startup::unix_millis;
use crate::node::Node;

/// How often the counters are read.
const INTERVAL: Duration = Duration::from_secs(1);
/// Reading the counters of very many limits takes long. The pause after it is at least so many times as long, so that
/// watching never takes more than a small part of a processor.
const PAUSE_FACTOR: u32 = 50;
/// But at most this long: a reading may have taken long because the machine was busy with something else, and the other nodes
/// must not take a node for gone that pauses.
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// The figures of this node.
#[derive(Debug)]
pub(crate) struct Glance {
    latest: ArcSwap<NodeFigures>,
    last_hour: Mutex<LastHour>,
    fleet: FleetCache,
    commands: OnceLock<Vec<String>>,
    /// Permits for streams.
    pub(crate) streams: Arc<Semaphore>,
}

impl Default for Glance {
    fn default() -> Glance {
        Glance {
            latest: ArcSwap::default(),
            last_hour: Mutex::default(),
            fleet: FleetCache::default(),
            commands: OnceLock::new(),
            streams: Arc::new(Semaphore::new(OVERVIEW_STREAMS_MAX)),
        }
    }
}

impl Glance {
    /// The figures of the last second.
    pub(crate) fn latest(&self) -> Arc<NodeFigures> {
        self.latest.load_full()
    }

    /// Commands that ask this node for a decision, as its start prints them.
    pub(crate) fn commands(&self) -> &[String] {
        self.commands.get().map(Vec::as_slice).unwrap_or_default()
    }

    /// Sets the commands, once.
    pub(crate) fn set_commands(&self, commands: Vec<String>) {
        _ = self.commands.set(commands);
    }

    fn last_hour(&self) -> MutexGuard<'_, LastHour> {
        self.last_hour.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads the counters of a node once a second, until the runtime ends.
pub(super) async fn watch(node: Arc<Node>) {
    // When the span of busy keys that goes on was started, and the one before.
    let mut spans = [unix_millis(node.clock().wall()); 2];
    let mut before = read(&node, spans[1]).await.map(|(reading, _)| reading);
    if let Some(control) = node.control() {
        let nothing = NodeFigures::of(&node, Figures::default(), BusyFigures::default());
        control.glance().latest.store(Arc::new(nothing));
    }
    let mut told = None;
    loop {
        tokio::time::sleep(INTERVAL).await;
        let began = node.clock().now();
        let reading = read(&node, spans[1]).await;
        let took = Duration::from(node.clock().now().saturating_sub(began));
        let (reading, busy) = reading.unzip();
        if let (Some(glance), Some(reading), Some(busy), Some(before)) =
            (node.control().map(|control| control.glance()), &reading, busy, &before)
        {
            let figures = reading.since(before);
            let step = glance.last_hour().add(node.clock().wall(), &figures);
            glance.latest.store(Arc::new(NodeFigures::of(&node, figures, busy)));
            told = fleet::tell(&node, told).await;
            if let Some(finished) = step {
                node.limiter().start_busy_span();
                spans = [unix_millis(node.clock().wall()), spans[0]];
                fleet::keep(&node, &finished).await;
            }
        }
        before = reading.or(before);
        tokio::time::sleep((took * PAUSE_FACTOR).min(PAUSE_MAX).saturating_sub(INTERVAL)).await;
    }
}

/// The counters now, and the busiest keys since a time. They are read on a thread for long work, because there may be very
/// many.
async fn read(node: &Arc<Node>, since: UnixMillis) -> Option<(Reading, BusyFigures)> {
    let node = Arc::clone(node);
    tokio::task::spawn_blocking(move || (Reading::of(&node), BusyFigures::of(&node, since))).await.ok()
}
