//! What is counted beside what the engine counts.

pub(super) mod exposition;
pub mod families;
pub(super) mod page;
pub(super) mod process;
pub(super) mod told_limits;

use std::sync::Arc;

use tidegate::Nanos;
use tidegate::engine::Credential;
use tidegate::engine::counting::counters::Totals;
use tidegate::engine::counting::durations::DurationHistogram;
use tokio::sync::Semaphore;

use super::traces::Protocol;
use crate::identity::Rejection;
use crate::node::lifecycle::ReloadedPart;
use crate::settings::Listener;
use told_limits::LimitSeriesSet;

/// Counters of the server itself. Threads that count do not get into each other's way.
#[derive(Debug)]
pub struct Metrics {
    pub(super) durations: DurationHistogram,
    counts: Totals,
    pub(super) told_limits: LimitSeriesSet,
    /// One page of metrics is written at a time.
    pub(crate) scrapes: Arc<Semaphore>,
}

/// A counter of [`Metrics`].
#[derive(Clone, Copy, Debug)]
pub(super) enum Count {
    Requests(Protocol),
    Opened(Listener),
    Closed(Listener),
    Refused(Listener),
    ProtocolErrors(Listener),
    ReloadFailures(ReloadedPart),
    PolicyReloads,
    Credentials(Credential),
    TokensRejected(Rejection),
    Panics,
    ClockMoves,
}

impl Count {
    const LEN: usize = 48;

    /// Its place; groups of four have room to spare.
    const fn place(self) -> usize {
        match self {
            Count::Requests(protocol) => protocol as usize,
            Count::Opened(listener) => 4 + listener as usize,
            Count::Closed(listener) => 8 + listener as usize,
            Count::Refused(listener) => 12 + listener as usize,
            Count::ProtocolErrors(listener) => 16 + listener as usize,
            Count::ReloadFailures(concern) => 24 + concern as usize,
            Count::PolicyReloads => 28,
            Count::Panics => 31,
            Count::ClockMoves => 30,
            Count::Credentials(credential) => 32 + credential as usize,
            Count::TokensRejected(why) => 36 + why as usize,
        }
    }
}

const _: () = assert!(Credential::ALL.len() <= 4 && 36 + Rejection::ALL.len() <= Count::LEN);
const _: () = assert!(Protocol::ALL.len() <= 4 && Listener::ALL.len() <= 4 && ReloadedPart::ALL.len() <= 4);

impl Default for Metrics {
    fn default() -> Metrics {
        Metrics {
            durations: DurationHistogram::default(),
            counts: Totals::new(Count::LEN),
            told_limits: LimitSeriesSet::default(),
            scrapes: Arc::new(Semaphore::new(1)),
        }
    }
}

impl Metrics {
    /// A decision was made in so long.
    #[inline]
    pub fn decision_took(&self, time: Nanos) {
        self.durations.record(time);
    }

    /// How many decisions were measured.
    #[cfg(test)]
    pub(crate) fn decisions_measured(&self) -> u64 {
        self.durations.snapshot().count()
    }

    /// How many credentials were looked at.
    #[cfg(test)]
    pub(crate) fn credentials_looked_at(&self) -> u64 {
        Credential::ALL.iter().map(|credential| self.get(Count::Credentials(*credential))).sum()
    }

    /// Several decisions were made in so long together.
    pub fn decisions_took(&self, decisions: usize, time: Nanos) {
        self.durations.record_together(decisions as u64, time);
    }

    /// So many questions came by a protocol.
    #[inline]
    pub fn asked(&self, protocol: Protocol, questions: usize) {
        self.counts.add_many(Count::Requests(protocol).place(), questions as u64);
    }

    /// A connection was accepted.
    pub fn connection_opened(&self, listener: Listener) {
        self.add(Count::Opened(listener));
    }

    /// A connection has ended.
    pub fn connection_closed(&self, listener: Listener) {
        self.add(Count::Closed(listener));
    }

    /// A connection was closed at once since there are too many.
    pub fn connection_refused(&self, listener: Listener) {
        self.add(Count::Refused(listener));
    }

    /// Something malformed, too big or too slow came.
    pub fn protocol_error(&self, listener: Listener) {
        self.add(Count::ProtocolErrors(listener));
    }

    /// There was a fault in the server.
    pub fn panicked(&self) {
        self.add(Count::Panics);
    }

    /// The wall clock is not where it was.
    pub fn clock_moved(&self) {
        self.add(Count::ClockMoves);
    }

    /// The credential of a client was looked at; and why it does not hold, if it does not.
    pub fn credential(&self, credential: Credential, rejection: Option<Rejection>) {
        self.add(Count::Credentials(credential));
        if let Some(why) = rejection {
            self.add(Count::TokensRejected(why));
        }
    }

    /// Another policy is in force.
    pub fn policy_reloaded(&self) {
        self.add(Count::PolicyReloads);
    }

    /// What has changed could not be used.
    pub fn reload_failed(&self, concern: ReloadedPart) {
        self.add(Count::ReloadFailures(concern));
    }

    fn add(&self, count: Count) {
        self.counts.add(count.place());
    }

    pub(super) fn get(&self, count: Count) -> u64 {
        self.counts.get(count.place())
    }

    /// How many connections are open. Sums taken while others count may be a little apart.
    pub(super) fn open_connections(&self, listener: Listener) -> u64 {
        let closed = self.get(Count::Closed(listener));
        self.get(Count::Opened(listener)).saturating_sub(closed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_counter_has_a_place_of_its_own() {
        let metrics = Metrics::default();
        let mut counts = vec![Count::PolicyReloads, Count::Panics, Count::ClockMoves];
        counts.extend(Credential::ALL.map(Count::Credentials));
        counts.extend(Rejection::ALL.map(Count::TokensRejected));
        counts.extend(Protocol::ALL.map(Count::Requests));
        counts.extend(ReloadedPart::ALL.map(Count::ReloadFailures));
        for listener in Listener::ALL {
            counts.extend([Count::Opened(listener), Count::Closed(listener)]);
            counts.extend([Count::Refused(listener), Count::ProtocolErrors(listener)]);
        }
        counts.iter().for_each(|count| metrics.add(*count));
        for count in counts {
            assert_eq!(metrics.get(count), 1, "{count:?} shares its place");
        }
    }

    #[test]
    fn closed_connections_are_not_open() {
        let metrics = Metrics::default();
        (0..3).for_each(|_| metrics.connection_opened(Listener::Resp));
        metrics.connection_closed(Listener::Resp);
        metrics.connection_closed(Listener::Http);
        assert_eq!(metrics.open_connections(Listener::Resp), 2);
        assert_eq!(metrics.open_connections(Listener::Http), 0);
    }
}
