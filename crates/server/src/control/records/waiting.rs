//! The records that wait for the database: a bounded queue that loses details before it loses counts, and denials
//! before changes and security events.
//!
//! Denials and the rest have room of their own, so that no flood of denials pushes a security event out. A denial that is
//! equal to a waiting one is added to it. What finds no room is merged into one record for each name, which keeps the
//! count; only changes, which are told apart by their details, are dropped then, and counted.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};

use tidegate::Nanos;

use super::rows::{is_denial, is_suspicion};
use crate::bounds::{
    EVENT_FLUSH_INTERVAL, RECORDS_BATCH_MAX, RECORDS_DENIALS_MAX, RECORDS_OTHERS_MAX, RECORDS_SECURITY_MAX,
};
use crate::observe::{AuditEvent, EventName};

/// The records that wait.
#[derive(Debug, Default)]
pub(super) struct WaitingRecords {
    denials: DenialQueue,
    /// Changes and security events.
    others: VecDeque<AuditEvent>,
    /// Records without details, one for each name.
    merged: [Option<Box<AuditEvent>>; EventName::ALL.len()],
    /// How many records the writer has taken and not written yet.
    in_flight: usize,
    /// When the current interval for security events began, and how many there were since.
    security: (Nanos, usize),
    /// How many records were merged without details, and how many dropped, since they were last taken.
    losses: (u64, u64),
}

/// Denials in the order in which they came.
#[derive(Debug, Default)]
struct DenialQueue {
    events: VecDeque<(u64, AuditEvent)>,
    /// How many were taken from the front so far.
    taken: usize,
    /// Where the denial with a hash is, counted from the first that ever came.
    places: HashMap<u64, usize>,
    /// Random, so that a client cannot construct two denials with the same hash.
    hash_keys: RandomState,
}

impl WaitingRecords {
    /// How many records wait, those included that are being written.
    pub(super) fn len(&self) -> usize {
        let merged = self.merged.iter().flatten().count();
        self.denials.events.len() + self.others.len() + merged + self.in_flight
    }

    /// Adds a record.
    pub(super) fn add(&mut self, event: AuditEvent) {
        if is_denial(event.name) {
            if let Some(beyond) = self.denials.add(event) {
                self.merge(beyond);
            }
            return;
        }
        let has_room = self.others.len() < RECORDS_OTHERS_MAX;
        match is_suspicion(event.name) {
            true if has_room && self.is_within_interval(event.last) => self.others.push_back(event),
            true => self.merge(event),
            false if has_room => self.others.push_back(event),
            false => self.losses.1 += event.count,
        }
    }

    /// Takes the next batch: changes and security events first. `None` if there is nothing.
    pub(super) fn take_batch(&mut self) -> Option<Vec<AuditEvent>> {
        let mut batch: Vec<AuditEvent> =
            self.merged.iter_mut().filter_map(|slot| slot.take().map(|event| *event)).collect();
        let others = self.others.len().min(RECORDS_BATCH_MAX);
        batch.extend(self.others.drain(..others));
        while batch.len() < RECORDS_BATCH_MAX
            && let Some(denial) = self.denials.pop()
        {
            batch.push(denial);
        }
        self.in_flight = batch.len();
        (!batch.is_empty()).then_some(batch)
    }

    /// The batch that was taken is written, or given up.
    pub(super) fn batch_done(&mut self) {
        self.in_flight = 0;
    }

    /// How many records were merged without details, and how many dropped, since the last call.
    pub(super) fn take_losses(&mut self) -> (u64, u64) {
        std::mem::take(&mut self.losses)
    }

    /// May one more security event be an entry of its own? Clients cause them, and the audit must not fill with them.
    fn is_within_interval(&mut self, at: Nanos) -> bool {
        if at >= self.security.0.saturating_add(EVENT_FLUSH_INTERVAL.into()) {
            self.security = (at, 0);
        }
        self.security.1 += 1;
        self.security.1 <= RECORDS_SECURITY_MAX
    }

    fn merge(&mut self, event: AuditEvent) {
        self.losses.0 += 1;
        match &mut self.merged[event.name as usize] {
            Some(merged) => merged.absorb(&event),
            empty => *empty = Some(Box::new(event)),
        }
    }
}

impl DenialQueue {
    /// Adds a denial to an equal one, or behind the last. Gives it back if there is no room.
    fn add(&mut self, event: AuditEvent) -> Option<AuditEvent> {
        let hash = self.hash_keys.hash_one(identity(&event));
        if let Some(place) = self.places.get(&hash)
            && let Some((_, known)) = self.events.get_mut(place - self.taken)
            && identity(known) == identity(&event)
        {
            known.absorb(&event);
            return None;
        }
        if self.events.len() >= RECORDS_DENIALS_MAX {
            return Some(event);
        }
        self.places.insert(hash, self.taken + self.events.len());
        self.events.push_back((hash, event));
        None
    }

    fn pop(&mut self) -> Option<AuditEvent> {
        let (hash, event) = self.events.pop_front()?;
        if self.places.get(&hash) == Some(&self.taken) {
            self.places.remove(&hash);
        }
        self.taken += 1;
        Some(event)
    }
}

/// What is the same in equal denials: everything but when, how often, and what was left.
fn identity(event: &AuditEvent) -> impl std::hash::Hash + PartialEq + '_ {
    (
        (event.name, &event.user, &event.client, event.ip, &event.tenant, &event.key),
        (&event.limit, event.kind, &event.reason, &event.endpoint, &event.node, event.policy_version),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(name: EventName, user: usize, at: u64) -> AuditEvent {
        let user = Some(user.to_string().into());
        AuditEvent { user, ..AuditEvent::new(name, Nanos::from_secs(at)) }
    }

    fn taken(waiting: &mut WaitingRecords) -> Vec<AuditEvent> {
        std::iter::from_fn(|| waiting.take_batch()).flatten().collect()
    }

    fn total(events: &[AuditEvent], name: EventName) -> u64 {
        events.iter().filter(|event| event.name == name).map(|event| event.count).sum()
    }

    #[test]
    fn equal_denials_are_one_record_until_it_is_taken() {
        let mut waiting = WaitingRecords::default();
        let denied = EventName::RateLimitExceeded;
        for at in 1..=3 {
            waiting.add(event(denied, 1, at));
            waiting.add(event(denied, 2, at));
        }
        let first = waiting.take_batch().expect("two records");
        assert_eq!(first.iter().map(|event| event.count).collect::<Vec<_>>(), [3, 3]);
        waiting.add(event(denied, 2, 9));
        assert_eq!(waiting.len(), 3, "two are being written, one waits");
        waiting.batch_done();
        assert_eq!(taken(&mut waiting), [event(denied, 2, 9)]);
        assert_eq!(waiting.take_losses(), (0, 0));
    }

    #[test]
    fn memory_is_bounded_and_no_count_of_a_denial_is_lost() {
        let mut waiting = WaitingRecords::default();
        let beyond = 1_000;
        for user in 0..RECORDS_DENIALS_MAX + beyond {
            waiting.add(event(EventName::RateLimitExceeded, user, 1));
        }
        assert_eq!(waiting.len(), RECORDS_DENIALS_MAX + 1);
        waiting.add(event(EventName::KillSwitchChanged, 0, 1));
        assert_eq!(waiting.take_losses(), (beyond as u64, 0));
        let batch = waiting.take_batch().expect("there is something");
        assert!(batch.len() <= RECORDS_BATCH_MAX + EventName::ALL.len());
        assert!(batch.iter().any(|event| event.name == EventName::KillSwitchChanged), "it comes first");
        let events = [batch, taken(&mut waiting)].concat();
        assert_eq!(total(&events, EventName::RateLimitExceeded), (RECORDS_DENIALS_MAX + beyond) as u64);
        waiting.batch_done();
        assert_eq!(waiting.len(), 0);
    }

    #[test]
    fn security_events_are_bounded_by_interval_and_changes_are_dropped_last() {
        let mut waiting = WaitingRecords::default();
        let security = EventName::InvalidCredentials;
        for user in 0..RECORDS_SECURITY_MAX + 50 {
            waiting.add(event(security, user, 100));
        }
        assert_eq!((waiting.others.len(), waiting.take_losses()), (RECORDS_SECURITY_MAX, (50, 0)));
        waiting.add(event(security, 0, 110));
        assert_eq!(waiting.others.len(), RECORDS_SECURITY_MAX + 1, "a new interval");
        for user in 0..RECORDS_OTHERS_MAX {
            waiting.add(event(EventName::KillSwitchChanged, user, 111));
        }
        let dropped = RECORDS_SECURITY_MAX as u64 + 1;
        assert_eq!((waiting.others.len(), waiting.take_losses()), (RECORDS_OTHERS_MAX, (0, dropped)));
        let events = taken(&mut waiting);
        assert_eq!(total(&events, security), RECORDS_SECURITY_MAX as u64 + 51);
    }
}
