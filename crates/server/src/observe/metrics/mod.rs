//! The metrics of a node: counters of the server itself, and the page `/metrics`, which adds those of the engine.
//!
//! `families` is the table of all metrics, `page` fills it, `exposition` writes the text format.

pub(super) mod exposition;
pub mod families;
pub(super) mod limit_series;
pub(super) mod page;
pub(super) mod process;

use std::sync::Arc;

use tidegate::Nanos;
use tidegate::engine::Credential;
use tidegate::measure::{DurationHistogram, DurationSnapshot, Totals};
use tokio::sync::Semaphore;

use super::traces::Protocol;
use crate::identity::{KeyStatus, Rejection};
use crate::node::lifecycle::ReloadedPart;
use crate::settings::Listener;
use limit_series::LimitSeriesSet;

/// Counters of the server itself, sharded so that threads do not contend for cache lines.
#[derive(Debug)]
pub struct Metrics {
    pub(super) durations: DurationHistogram,
    counts: Totals,
    pub(super) limit_series: LimitSeriesSet,
    /// Allows one page of metrics to be written at a time.
    pub(crate) scrapes: Arc<Semaphore>,
}

/// The range in which decisions are told apart: a decision in memory takes some hundred nanoseconds, one that waits for
/// Redis at most a few times the deadline of a call, which is 20 ms by default.
const DECISION_TIMES: (Nanos, Nanos) = (Nanos::new(100), Nanos::SECOND);

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
    ApiKeys(KeyStatus),
    IdentityFaults,
    Panics,
    ClockMoves,
    WakeUps,
}

impl Count {
    const LEN: usize = 52;

    /// Its index. Each group has at least four indices, of which some are unused.
    const fn index(self) -> usize {
        match self {
            Count::Requests(protocol) => protocol as usize,
            Count::Opened(listener) => 4 + listener as usize,
            Count::Closed(listener) => 8 + listener as usize,
            Count::Refused(listener) => 12 + listener as usize,
            Count::ProtocolErrors(listener) => 16 + listener as usize,
            Count::ReloadFailures(part) => 20 + part as usize,
            Count::PolicyReloads => 28,
            Count::IdentityFaults => 29,
            Count::Panics => 31,
            Count::ClockMoves => 30,
            Count::Credentials(credential) => 32 + credential as usize,
            Count::TokensRejected(why) => 36 + why as usize,
            Count::ApiKeys(status) => 44 + status as usize,
            Count::WakeUps => 48,
        }
    }
}

const _: () = assert!(Credential::ALL.len() <= 4 && 36 + Rejection::ALL.len() <= 44);
const _: () = assert!(44 + KeyStatus::ALL.len() <= 48 && 48 < Count::LEN);
const _: () = assert!(Protocol::ALL.len() <= 4 && Listener::ALL.len() <= 4 && ReloadedPart::ALL.len() <= 8);

impl Default for Metrics {
    fn default() -> Metrics {
        Metrics {
            durations: DurationHistogram::between(DECISION_TIMES.0, DECISION_TIMES.1),
            counts: Totals::new(Count::LEN),
            limit_series: LimitSeriesSet::default(),
            scrapes: Arc::new(Semaphore::new(1)),
        }
    }
}

impl Metrics {
    /// Records the duration of a decision.
    #[inline]
    pub fn decision_took(&self, time: Nanos) {
        self.durations.record(time);
    }

    /// How long decisions took so far.
    pub(crate) fn decision_times(&self) -> DurationSnapshot {
        self.durations.snapshot()
    }

    /// How many decisions were measured.
    #[cfg(test)]
    pub(crate) fn decisions_measured(&self) -> u64 {
        self.durations.snapshot().count()
    }

    /// How many credentials were checked.
    #[cfg(test)]
    pub(crate) fn credentials_checked(&self) -> u64 {
        Credential::ALL.iter().map(|credential| self.get(Count::Credentials(*credential))).sum()
    }

    /// Records the duration of several decisions together.
    pub fn decisions_took(&self, decisions: usize, time: Nanos) {
        self.durations.record_together(decisions as u64, time);
    }

    /// Counts requests of a protocol.
    #[inline]
    pub fn requests_decided(&self, protocol: Protocol, requests: usize) {
        self.counts.add_many(Count::Requests(protocol).index(), requests as u64);
    }

    /// A connection was accepted.
    pub fn connection_opened(&self, listener: Listener) {
        self.add(Count::Opened(listener));
    }

    /// A connection has ended.
    pub fn connection_closed(&self, listener: Listener) {
        self.add(Count::Closed(listener));
    }

    /// A connection was closed at once because too many are open.
    pub fn connection_refused(&self, listener: Listener) {
        self.add(Count::Refused(listener));
    }

    /// A request or connection was malformed, too large or too slow.
    pub fn protocol_error(&self, listener: Listener) {
        self.add(Count::ProtocolErrors(listener));
    }

    /// The server panicked somewhere.
    pub fn panicked(&self) {
        self.add(Count::Panics);
    }

    /// The wall clock has jumped.
    pub fn clock_moved(&self) {
        self.add(Count::ClockMoves);
    }

    /// The credentials of a client were checked: its token was rejected for this reason if there is one, and its API key,
    /// if it sent one, has this status.
    pub fn credential(&self, credential: Credential, rejection: Option<Rejection>, key: Option<KeyStatus>) {
        self.add(Count::Credentials(credential));
        if let Some(why) = rejection {
            self.add(Count::TokensRejected(why));
        }
        if let Some(status) = key {
            self.add(Count::ApiKeys(status));
        }
    }

    /// A source of an identity had a value that cannot be used.
    pub fn identity_fault(&self) {
        self.add(Count::IdentityFaults);
    }

    /// A new policy is in force.
    pub fn policy_reloaded(&self) {
        self.add(Count::PolicyReloads);
    }

    /// The store has woken this node.
    pub(crate) fn woken(&self) {
        self.add(Count::WakeUps);
    }

    /// A changed file could not be loaded.
    pub fn reload_failed(&self, part: ReloadedPart) {
        self.add(Count::ReloadFailures(part));
    }

    fn add(&self, count: Count) {
        self.counts.add(count.index());
    }

    pub(super) fn get(&self, count: Count) -> u64 {
        self.counts.get(count.index())
    }

    /// How many connections are open; approximate while other threads count.
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
        let mut counts = vec![Count::PolicyReloads, Count::Panics, Count::ClockMoves, Count::IdentityFaults];
        counts.push(Count::WakeUps);
        counts.extend(KeyStatus::ALL.map(Count::ApiKeys));
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
