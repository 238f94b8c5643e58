//! The thread that writes events: every ten seconds all open ones, full shards and single events at once.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender, TrySendError};
use std::sync::{Arc, Mutex, PoisonError};

use tidegate::{Clock, MonotonicClock, Nanos};

use super::event::AuditEvent;
use super::open_events::{EventTable, OpenEvents};
use super::sink::{EventSink, SinkCounts};
use crate::bounds::{EVENT_FLUSH_INTERVAL, EVENT_FLUSH_TIMEOUT, EVENT_TABLES_QUEUED_MAX, EVENTS_QUEUED_MAX};

/// How often a flush is tried if the queue is full.
const FLUSH_ATTEMPTS: u32 = 100;

/// A job for the thread.
#[derive(Debug)]
enum Job {
    /// The events of a full shard.
    Table(EventTable),
    /// There are single events to write.
    Wake,
    /// Write everything, then answer.
    Flush(SyncSender<()>),
}

/// The way of events to the thread, which ends when this is dropped.
#[derive(Debug)]
pub(super) struct EventQueue {
    pub(super) waiting: Arc<WaitingEvents>,
    jobs: SyncSender<Job>,
}

/// The events that are not written yet, and how many were.
#[derive(Debug)]
pub(super) struct WaitingEvents {
    pub(super) open: OpenEvents,
    /// Single events, which are not counted together with others. They have a queue of their own, so that no flood of
    /// denials can push them out.
    single: Mutex<VecDeque<AuditEvent>>,
    pub(super) counts: EventCounts,
}

/// How many events were written and lost.
#[derive(Debug, Default)]
pub(super) struct EventCounts {
    /// Of each sink.
    pub(super) sinks: Box<[Arc<SinkCounts>]>,
    pub(super) merged: AtomicU64,
    pub(super) overflowed: AtomicU64,
}

impl EventQueue {
    /// Starts the thread.
    pub(super) fn start(
        sinks: Vec<Box<dyn EventSink>>,
        open: OpenEvents,
        node: Option<Arc<str>>,
        clock: MonotonicClock,
    ) -> io::Result<Arc<EventQueue>> {
        let (jobs, received) = mpsc::sync_channel(EVENT_TABLES_QUEUED_MAX);
        let count =
            |sink: &dyn EventSink| sink.counts().unwrap_or_else(|| Arc::new(SinkCounts::new(sink.name())));
        let sink_counts = sinks.iter().map(|sink| count(&**sink)).collect();
        let counts = EventCounts { sinks: sink_counts, ..EventCounts::default() };
        let waiting = Arc::new(WaitingEvents { open, single: Mutex::default(), counts });
        let writer = EventWriter {
            waiting: Arc::clone(&waiting),
            sinks: sinks.into_iter().map(|sink| (sink, false)).collect(),
            node,
            clock,
            logged: (0, 0),
        };
        std::thread::Builder::new().name("events".into()).spawn(move || writer.run(&received))?;
        Ok(Arc::new(EventQueue { waiting, jobs }))
    }

    /// Queues the events of a full shard, or gives them back if the thread is behind.
    pub(super) fn hand_over(&self, table: EventTable) -> Result<(), EventTable> {
        self.jobs.try_send(Job::Table(table)).map_err(|refused| match refused {
            TrySendError::Full(Job::Table(table)) | TrySendError::Disconnected(Job::Table(table)) => table,
            _ => EventTable::default(),
        })
    }

    /// Queues a single event; its time is of the wall clock.
    pub(super) fn push(&self, event: AuditEvent) {
        let mut single = self.waiting.single.lock().unwrap_or_else(PoisonError::into_inner);
        if single.len() >= EVENTS_QUEUED_MAX {
            self.waiting.counts.overflowed.fetch_add(1, Ordering::Relaxed);
            return;
        }
        single.push_back(event);
        drop(single);
        // If this queue is full, the thread is awake, and looks for single events before it waits again.
        let _full = self.jobs.try_send(Job::Wake);
    }

    /// Waits until everything so far is written, at most twice [`EVENT_FLUSH_TIMEOUT`]. Returns whether it was.
    pub(super) fn flush(&self) -> bool {
        let (done, is_done) = mpsc::sync_channel(1);
        let mut flush = Job::Flush(done);
        for _ in 0..FLUSH_ATTEMPTS {
            match self.jobs.try_send(flush) {
                Ok(()) => return is_done.recv_timeout(EVENT_FLUSH_TIMEOUT).is_ok(),
                // The queue is full; while the sinks write, it empties soon.
                Err(TrySendError::Full(job)) => flush = job,
                Err(TrySendError::Disconnected(_)) => return false,
            }
            // The job is not queued yet, so nothing can arrive here: this only sleeps.
            let _not_yet = is_done.recv_timeout(EVENT_FLUSH_TIMEOUT / FLUSH_ATTEMPTS);
        }
        false
    }
}

struct EventWriter {
    waiting: Arc<WaitingEvents>,
    /// The sinks, and whether the last write to each has failed.
    sinks: Vec<(Box<dyn EventSink>, bool)>,
    node: Option<Arc<str>>,
    clock: MonotonicClock,
    /// How many events without details, and how many that did not fit, were logged so far.
    logged: (u64, u64),
}

impl EventWriter {
    fn run(mut self, received: &Receiver<Job>) {
        let mut next = self.clock.now().saturating_add(EVENT_FLUSH_INTERVAL.into());
        loop {
            let job = received.recv_timeout(next.saturating_sub(self.clock.now()).into());
            self.write_single();
            match job {
                Ok(Job::Table(table)) => {
                    let events = table.len();
                    self.write_open(table.into_values().map(|event| *event).collect());
                    self.waiting.open.release(events);
                }
                Ok(Job::Wake) => {}
                Ok(Job::Flush(done)) => {
                    self.write_all();
                    let _nobody_waits = done.try_send(());
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return self.write_all(),
            }
            // A flood of full shards must not delay this.
            if self.clock.now() >= next {
                self.write_all();
                next = self.clock.now().saturating_add(EVENT_FLUSH_INTERVAL.into());
            }
        }
    }

    fn write_all(&mut self) {
        self.write_open(self.waiting.open.take_all());
        self.log_losses();
    }

    fn write_single(&mut self) {
        let events = {
            let mut single = self.waiting.single.lock().unwrap_or_else(PoisonError::into_inner);
            Vec::from(std::mem::take(&mut *single))
        };
        self.write(events);
    }

    /// Writes events whose times are of the monotonic clock.
    fn write_open(&mut self, mut events: Vec<AuditEvent>) {
        for event in &mut events {
            let wall = |at: Nanos| self.clock.wall_at(at);
            (event.first, event.last) = (wall(event.first), wall(event.last));
        }
        events.sort_by_key(|event| (event.last, event.first));
        self.write(events);
    }

    fn write(&mut self, mut events: Vec<AuditEvent>) {
        if events.is_empty() {
            return;
        }
        events.iter_mut().for_each(|event| event.node.clone_from(&self.node));
        for ((sink, is_failing), counts) in self.sinks.iter_mut().zip(&self.waiting.counts.sinks) {
            let result = sink.write(&events);
            if sink.counts().is_none() {
                let written = result.as_ref().map_or_else(|failed| failed.written, |()| events.len());
                counts.written.fetch_add(written as u64, Ordering::Relaxed);
                counts.lost.fetch_add((events.len() - written) as u64, Ordering::Relaxed);
            }
            match result {
                Err(failed) if !*is_failing => {
                    *is_failing = true;
                    tracing::error!(sink = counts.name, error = %failed.error, "events cannot be written and are lost");
                }
                Ok(()) if *is_failing => {
                    *is_failing = false;
                    let lost = counts.lost.load(Ordering::Relaxed);
                    tracing::warn!(sink = counts.name, lost, "events are written again; some were lost");
                }
                _ => {}
            }
        }
    }

    /// Logs what was lost because the sinks are slow.
    fn log_losses(&mut self) {
        let counts = &self.waiting.counts;
        let now = (counts.merged.load(Ordering::Relaxed), counts.overflowed.load(Ordering::Relaxed));
        let (merged, dropped) = (now.0 - self.logged.0, now.1 - self.logged.1);
        if merged > 0 || dropped > 0 {
            self.logged = now;
            tracing::warn!(
                merged,
                dropped,
                "events come faster than they are written: some were merged into one for each name, without limit, key \
                 and client, or dropped"
            );
        }
    }
}
