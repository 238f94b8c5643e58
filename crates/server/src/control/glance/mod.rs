//! The figures of now and of the last hour, on this node and on the whole fleet.
//!
//! Each second the node's counters are read (`reading`), and the difference to the reading before are the figures of that
//! second (`figures`). They are also added up in steps of half a minute, for an hour (`last_hour`). The busiest keys are those
//! of the step that goes on and of the one before (`busy`). With a database each node
//! writes its figures there, else on the Redis that nodes share, and whoever asks gets the sum over all nodes: of now
//! (`fleet`) and of the last hour (`hour`). Without either, those of this node. What is written is bounded (`choosing`);
//! sums say what they do not name. `overview` is what the API shows. No decision waits for any of it, and reading the counters
//! waits neither for the database nor for Redis.

pub(crate) mod busy;
mod choosing;
mod figures;
pub(crate) mod fleet;
mod hour;
pub(super) mod last_hour;
pub(crate) mod overview;
mod reading;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use tidegate::{Clock, Nanos};
use tidegate_database::UnixMillis;
use tokio::sync::{Notify, Semaphore};
use tokio::time::timeout;

use busy::BusyFigures;
use figures::{Figures, LIMITS_TOLD_MAX, NodeFigures, tenant_of};
use fleet::FleetCache;
use hour::HourCache;
use last_hour::{HistoryStep, LastHour, STEPS};
use reading::Reading;

use crate::bounds::OVERVIEW_STREAMS_MAX;
use crate::control::ControlPlane;
use crate::control::startup::unix_millis;
use crate::node::Node;

/// How often the counters are read.
const INTERVAL: Duration = Duration::from_secs(1);
/// Reading the counters of very many limits takes long. The pause after it is at least so many times as long, so that
/// watching never takes more than a small part of a processor.
const PAUSE_FACTOR: u32 = 50;
/// How long what was read of other nodes is used again: all who look at the same time cost one reading.
const FRESH: Nanos = Nanos::from_millis(500);
/// But at most this long: a reading may have taken long because the machine was busy with something else, and the other nodes
/// must not take a node for gone that pauses.
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// The figures of this node, and those of the fleet as they were read last.
#[derive(Debug)]
pub(crate) struct Glance {
    counting: Mutex<Counting>,
    /// The figures of the last second, with all limits.
    latest: ArcSwap<NodeFigures>,
    /// As much of them as other nodes are told.
    told: ArcSwap<NodeFigures>,
    /// Tells that there are new figures.
    counted: Notify,
    last_hour: Mutex<LastHour>,
    /// The steps that have ended and are not written for the other nodes yet, oldest first.
    unwritten: Mutex<VecDeque<HistoryStep>>,
    /// When this node began to count.
    began: OnceLock<UnixMillis>,
    fleet: FleetCache,
    hour: HourCache,
    commands: OnceLock<Vec<String>>,
    /// Permits for streams.
    pub(crate) streams: Arc<Semaphore>,
}

/// What is remembered from one reading of the counters to the next.
#[derive(Debug, Default)]
struct Counting {
    before: Option<Reading>,
    /// When the span of busy keys that goes on was started, and the one before.
    spans: [UnixMillis; 2],
    /// Has the last step ended, because the server does?
    is_over: bool,
}

impl Default for Glance {
    fn default() -> Glance {
        Glance {
            counting: Mutex::default(),
            latest: ArcSwap::default(),
            told: ArcSwap::default(),
            counted: Notify::new(),
            last_hour: Mutex::default(),
            unwritten: Mutex::default(),
            began: OnceLock::new(),
            fleet: FleetCache::default(),
            hour: HourCache::default(),
            commands: OnceLock::new(),
            streams: Arc::new(Semaphore::new(OVERVIEW_STREAMS_MAX)),
        }
    }
}

impl Glance {
    /// The figures of the last second.
    fn latest(&self) -> Arc<NodeFigures> {
        self.latest.load_full()
    }

    /// As much of them as other nodes are told.
    pub(crate) fn told(&self) -> Arc<NodeFigures> {
        self.told.load_full()
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
        locked(&self.last_hour)
    }

    fn unwritten(&self) -> MutexGuard<'_, VecDeque<HistoryStep>> {
        locked(&self.unwritten)
    }

    /// The name under which this process writes its steps. Another process of the same node has another one: what it wrote of
    /// the step in which it ended stays.
    fn writer(&self, node: &Node, id: &str) -> String {
        let began = self.began.get_or_init(|| unix_millis(node.clock().wall()));
        format!("{id} {}", began.get())
    }

    /// Keeps a step until it is written. If none can be written for very long, those that nobody would read any more go.
    fn keep(&self, step: HistoryStep) {
        let mut unwritten = self.unwritten();
        unwritten.push_back(step);
        while unwritten.len() > STEPS {
            unwritten.pop_front();
        }
    }

    /// Reads the counters, and adds what was decided since the last reading to the figures.
    fn count(&self, node: &Node) {
        let mut counting = locked(&self.counting);
        if counting.is_over {
            return;
        }
        let (reading, wall, rules) = (Reading::of(node), node.clock().wall(), node.limiter().rules());
        let latest = match &counting.before {
            None => {
                counting.spans = [unix_millis(wall); 2];
                NodeFigures::of(node, Figures::default(), BusyFigures::default())
            }
            Some(before) => {
                let figures = reading.since(before);
                let busy = BusyFigures::of(node, counting.spans[1]);
                let ended = self.last_hour().add(wall, &figures, |step| {
                    step.cut_limits(LIMITS_TOLD_MAX, |name| tenant_of(&rules, name));
                });
                if let Some(step) = ended {
                    node.limiter().start_busy_span();
                    counting.spans = [unix_millis(wall), counting.spans[0]];
                    self.keep(step);
                }
                NodeFigures::of(node, figures, busy)
            }
        };
        counting.before = Some(reading);
        self.told.store(Arc::new(latest.told(&rules)));
        self.latest.store(Arc::new(latest));
        self.counted.notify_one();
    }

    /// Counts for the last time, and ends the step that goes on.
    fn end(&self, node: &Node) {
        self.count(node);
        locked(&self.counting).is_over = true;
        let rules = node.limiter().rules();
        let cut = |step: &mut Figures| step.cut_limits(LIMITS_TOLD_MAX, |name| tenant_of(&rules, name));
        let last = self.last_hour().finish(cut);
        last.into_iter().for_each(|step| self.keep(step));
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Does something with the figures of a node on a thread for long work, because there may be very many limits.
async fn on_own_thread(node: &Arc<Node>, work: impl FnOnce(&Glance, &Node) + Send + 'static) {
    let node = Arc::clone(node);
    let working = tokio::task::spawn_blocking(move || {
        node.control().map(ControlPlane::glance).inspect(|glance| work(glance, &node));
    });
    // A panic has been logged; the next reading may succeed.
    let _done = working.await;
}

/// Reads the counters of a node once a second, until the runtime ends.
pub(super) async fn watch(node: Arc<Node>) {
    loop {
        let began = node.clock().now();
        on_own_thread(&node, Glance::count).await;
        let took = Duration::from(node.clock().now().saturating_sub(began));
        tokio::time::sleep((took * PAUSE_FACTOR).clamp(INTERVAL, PAUSE_MAX)).await;
    }
}

/// Tells the other nodes the figures of this one whenever there are new ones, until the runtime ends.
pub(super) async fn tell(node: Arc<Node>) {
    let Some(glance) = node.control().map(ControlPlane::glance) else { return };
    let mut told = None;
    loop {
        glance.counted.notified().await;
        told = fleet::tell(&node, told).await;
        hour::write_steps(&node).await;
    }
}

/// Writes what is not written yet, with the step that goes on, when the server ends and within the time that there is.
pub(crate) async fn write_last(node: &Arc<Node>, most: Duration) {
    let Some(control) = node.control() else { return };
    let node = Arc::clone(node);
    let writing = control.runtime().spawn(async move {
        on_own_thread(&node, Glance::end).await;
        hour::write_steps(&node).await;
    });
    if timeout(most, writing).await.is_err() {
        tracing::debug!("the last figures of this node were not written in time");
    }
}
