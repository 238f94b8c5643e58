//! Where events go.

use std::fmt;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use super::event::AuditEvent;

/// A place that events are written to: a file, standard output, or a database.
pub trait EventSink: fmt::Debug + Send {
    /// Its name in metrics and in the log.
    fn name(&self) -> &'static str;

    /// Writes events. It may block: a thread of its own calls it, and decisions never wait for it.
    ///
    /// # Errors
    /// How many of the first events were written, and why the others were not. Those are counted as lost, and the
    /// next ones are tried again.
    fn write(&mut self, events: &[AuditEvent]) -> Result<(), EventsUnwritten>;

    /// The counts of a sink that only takes events over and writes them later: it counts by itself what it has written
    /// and lost. `None` if a written event is written.
    fn counts(&self) -> Option<Arc<SinkCounts>> {
        None
    }
}

/// How many events a sink has written and lost.
#[derive(Debug)]
pub struct SinkCounts {
    /// The name of the sink.
    pub name: &'static str,
    /// How many it has written.
    pub written: AtomicU64,
    /// How many it could not write.
    pub lost: AtomicU64,
    /// How many have lost their details, because too many were waiting.
    pub merged: AtomicU64,
}

impl SinkCounts {
    /// The counts of a new sink.
    pub fn new(name: &'static str) -> SinkCounts {
        let zero = || AtomicU64::new(0);
        SinkCounts { name, written: zero(), lost: zero(), merged: zero() }
    }
}

/// Why a sink could not write some events.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct EventsUnwritten {
    /// How many of the first events were written.
    pub written: usize,
    /// Why the next one was not.
    #[source]
    pub error: io::Error,
}

/// Writes events to standard output, a line each.
#[derive(Debug, Default)]
pub(super) struct StdoutSink {
    lines: Vec<u8>,
}

impl EventSink for StdoutSink {
    fn name(&self) -> &'static str {
        "stdout"
    }

    fn write(&mut self, events: &[AuditEvent]) -> Result<(), EventsUnwritten> {
        self.lines.clear();
        events.iter().for_each(|event| event.write_line(&mut self.lines));
        let mut out = io::stdout().lock();
        let written = out.write_all(&self.lines).and_then(|()| out.flush());
        written.map_err(|error| EventsUnwritten { written: 0, error })
    }
}
