//! Events: denials, blocks, penalties and changes, as lines of JSON for people and other programs.
//!
//! The engine tells this module of every incident, on the thread that decides. [`open_events`] counts equal ones
//! together; [`thread`] writes them to the sinks. [`describe`] puts an incident into words, [`changes`] the difference
//! between two policies. [`past_violations`] reads back what lowers trust scores.

mod changes;
mod describe;
mod event;
pub(crate) mod file;
mod open_events;
mod past_violations;
mod sink;
mod thread;

use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tidegate::engine::{AdHocDenial, Incident, IncidentKind, Observer};
use tidegate::{Algorithm, MonotonicClock, Nanos};

pub use event::{AuditEvent, EventName, EventSeverity};
pub use sink::{EventSink, EventsUnwritten, SinkCounts};

pub(crate) use changes::{new_exemptions, policy_changes};
pub(crate) use describe::cut;
use file::EventFile;
use open_events::{EventRoom, OpenEvents};
pub(crate) use open_events::{OPEN_EVENTS_PER_SHARD, OPEN_EVENTS_SHARED};
pub(crate) use past_violations::PastViolations;
use sink::StdoutSink;
use thread::EventQueue;

use crate::settings::{EventSettings, host_name};

/// The events of a node. By default there are none.
#[derive(Clone, Debug, Default)]
pub struct Events {
    queue: Option<Arc<EventQueue>>,
}

/// How many events had one fate, for metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventFate {
    /// `file`, `stdout` or the name of another sink; `queue` for events that did not get that far.
    pub place: &'static str,
    /// How many.
    pub count: u64,
}

/// Why events cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum EventsError {
    /// The file cannot be opened.
    #[error("events.file: cannot open {0}: {1}")]
    File(PathBuf, io::Error),
    /// The thread cannot be started.
    #[error("cannot start the thread that writes events: {0}")]
    Thread(io::Error),
}

impl Events {
    /// Starts writing events to these sinks, and where the settings say. If that is nowhere, there are no events.
    ///
    /// # Errors
    /// When the file cannot be opened, or the thread cannot be started.
    pub fn start(
        settings: Option<&EventSettings>,
        mut sinks: Vec<Box<dyn EventSink>>,
        clock: MonotonicClock,
    ) -> Result<Events, EventsError> {
        if let Some(settings) = settings
            && let Some(path) = &settings.file
        {
            let file = EventFile::open(path.clone(), settings.max_bytes, settings.keep);
            sinks.push(Box::new(file.map_err(|error| EventsError::File(path.clone(), error))?));
        }
        if settings.is_some_and(|settings| settings.stdout) {
            sinks.push(Box::new(StdoutSink::default()));
        }
        let node = settings.map_or_else(host_name, |settings| settings.node.clone());
        Events::to(sinks, node.as_deref(), clock)
    }

    /// Starts writing events to these sinks, in the name of this node.
    ///
    /// # Errors
    /// When the thread cannot be started.
    pub fn to(
        sinks: Vec<Box<dyn EventSink>>,
        node: Option<&str>,
        clock: MonotonicClock,
    ) -> Result<Events, EventsError> {
        if sinks.is_empty() {
            return Ok(Events::default());
        }
        let room = EventRoom { per_shard: OPEN_EVENTS_PER_SHARD, shared: OPEN_EVENTS_SHARED };
        let (node, open) = (node.map(Arc::from), OpenEvents::new(room));
        let queue = EventQueue::start(sinks, open, node, clock).map_err(EventsError::Thread)?;
        Ok(Events { queue: Some(queue) })
    }

    /// Are events written?
    #[inline]
    pub fn is_on(&self) -> bool {
        self.queue.is_some()
    }

    /// What the engine tells of incidents.
    pub fn observer(&self) -> Option<Arc<dyn Observer>> {
        self.queue.clone().map(|queue| -> Arc<dyn Observer> { queue })
    }

    /// Writes a single event soon. Its times are of the wall clock.
    pub fn push(&self, event: AuditEvent) {
        if let Some(queue) = &self.queue {
            queue.push(event);
        }
    }

    /// The kill switch of this node was switched on or off; `why` is `None` where another record says it.
    pub fn kill_switch_changed(&self, is_on: bool, why: Option<&str>, wall: Nanos) {
        let kind = Some(if is_on { "on" } else { "off" });
        let reason = why.map(Box::from);
        self.push(AuditEvent { kind, reason, ..AuditEvent::new(EventName::KillSwitchChanged, wall) });
    }

    /// The shared store has stopped answering, or answers again.
    pub fn store_fallback(&self, began: bool, wall: Nanos) {
        let name = if began { EventName::StoreFallbackBegan } else { EventName::StoreFallbackEnded };
        self.push(AuditEvent::new(name, wall));
    }

    /// Somebody has lifted the penalty of a burst detector. The key must be masked already.
    /// `by` is who has done it through the admin API, and why.
    pub fn penalty_lifted(&self, detector: &str, key: &str, by: Option<(&str, Option<&str>)>, wall: Nanos) {
        self.push(AuditEvent {
            actor: by.map(|(actor, _)| actor.into()),
            reason: by.and_then(|(_, reason)| reason).map(Box::from),
            limit: Some(detector.into()),
            key: Some(describe::cut(key)),
            kind: Some("burst"),
            ..AuditEvent::new(EventName::PenaltyLifted, wall)
        });
    }

    /// Somebody has sent a wrong token to the admin API.
    pub fn login_failed(&self, address: IpAddr, wall: Nanos) {
        let name = EventName::InvalidCredentials;
        self.push(AuditEvent { kind: Some("admin_api"), ip: Some(address), ..AuditEvent::new(name, wall) });
    }

    /// Writes everything that happened so far. Blocks, for a short time at most; called when the server ends.
    pub fn flush(&self) {
        if let Some(queue) = &self.queue
            && !queue.flush()
        {
            tracing::error!("the last events could not be written in time and are lost");
        }
    }

    /// How many events each sink has written.
    pub fn written(&self) -> Vec<EventFate> {
        self.fates(|sink| sink.written.load(Ordering::Relaxed))
    }

    /// How many events each sink could not write, and how many did not fit into the queue.
    pub fn dropped(&self) -> Vec<EventFate> {
        let mut dropped = self.fates(|sink| sink.lost.load(Ordering::Relaxed));
        let queue = |queue: &Arc<EventQueue>| queue.waiting.counts.overflowed.load(Ordering::Relaxed);
        dropped.push(EventFate { place: "queue", count: self.queue.as_ref().map_or(0, queue) });
        dropped
    }

    /// How many events have lost their details because they came faster than they could be written.
    pub fn merged(&self) -> u64 {
        let Some(queue) = &self.queue else { return 0 };
        let by_sinks = queue.waiting.counts.sinks.iter().map(|sink| sink.merged.load(Ordering::Relaxed));
        queue.waiting.counts.merged.load(Ordering::Relaxed) + by_sinks.sum::<u64>()
    }

    fn fates(&self, count: impl Fn(&SinkCounts) -> u64) -> Vec<EventFate> {
        let sinks = self.queue.iter().flat_map(|queue| &queue.waiting.counts.sinks);
        sinks.map(|sink| EventFate { place: sink.name, count: count(sink) }).collect()
    }
}

impl Observer for EventQueue {
    #[inline]
    fn observe(&self, incident: &Incident<'_, '_>) {
        let mut merged = self.waiting.open.add(incident, |table| self.hand_over(table));
        // Too many penalties at once: nobody knows any more whom this one is about.
        let is_burst = matches!(incident.kind, IncidentKind::BurstWarned | IncidentKind::BurstBlocked);
        merged += usize::from(is_burst && incident.name.is_none());
        if merged > 0 {
            self.waiting.counts.merged.fetch_add(merged as u64, Ordering::Relaxed);
        }
    }

    #[inline]
    fn observe_ad_hoc(&self, denial: &AdHocDenial<'_>) {
        if !self.waiting.open.continues(denial) {
            self.observe(&denial.incident());
        }
    }
}

/// The name of an algorithm, as policies write it.
fn algorithm_name(algorithm: Algorithm) -> &'static str {
    match algorithm {
        Algorithm::TokenBucket => "token_bucket",
        Algorithm::SlidingWindow => "sliding_window",
        Algorithm::SlidingLog => "sliding_log",
        Algorithm::FixedWindow => "fixed_window",
    }
}

#[cfg(test)]
mod tests;
