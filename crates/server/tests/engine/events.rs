//! The events of a run add up to its counters.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use tidegate::engine::trust::TrustOptions;
use tidegate::engine::{Limiter, Policy, Reason};
use tidegate::{Clock, ManualClock, MemoryOptions, MonotonicClock, Nanos};
use tidegate_server::observe::{AuditEvent, EventName, EventSink, Events, EventsUnwritten};
use tidegate_server::wire::trace_line;

use crate::engine::Case;
use crate::properties::{cases, check};

/// A sink that keeps everything.
#[derive(Clone, Debug, Default)]
struct Kept(Arc<Mutex<Vec<AuditEvent>>>);

impl EventSink for Kept {
    fn name(&self) -> &'static str {
        "kept"
    }

    fn write(&mut self, events: &[AuditEvent]) -> Result<(), EventsUnwritten> {
        self.0.lock().unwrap().extend_from_slice(events);
        Ok(())
    }
}

type MemoryLimiter = Limiter<tidegate::Memory<ManualClock>, ManualClock>;

/// Runs a case through the real engine, and returns the limiter and the events.
fn run(case: &Case) -> Result<(MemoryLimiter, Vec<AuditEvent>), String> {
    let policy = Policy::parse(&case.policy.to_string()).map_err(|error| error.to_string())?;
    let (kept, clock) = (Kept::default(), ManualClock::new(Nanos::ZERO));
    let events = Events::to(vec![Box::new(kept.clone())], None, MonotonicClock::new())
        .map_err(|error| error.to_string())?;
    let options = MemoryOptions { max_keys: 1_000, ..MemoryOptions::default() };
    let limiter = Limiter::in_memory(policy, options, clock.clone()).map_err(|error| error.to_string())?;
    let limiter = limiter.with_observer(events.observer().expect("there is a sink"));
    // Nobody is known, so no limit is scaled; but violations are counted.
    let limiter = limiter.with_trust(TrustOptions::default());
    limiter.set_invalid_credentials(case.invalid());
    for (number, line) in case.trace.iter().enumerate() {
        let text = line.to_string();
        let asked = trace_line(&text).map_err(|error| error.to_string())?;
        clock.set(asked.at);
        // A peek leads to no event, and a request that is decided in two steps to the same as in one.
        let _peeked = limiter.peek(&asked.request);
        let _decided = match number % 3 {
            0 => limiter.check_entered(limiter.enter(&asked.request), &asked.request),
            1 => limiter.take_place_at(&asked.request, asked.at),
            _ => limiter.check_at(&asked.request, asked.at),
        };
    }
    events.flush();
    let told = std::mem::take(&mut *kept.0.lock().unwrap());
    Ok((limiter, told))
}

#[test]
fn the_events_of_a_run_add_up_to_its_counters() {
    check(cases() / 4, |case| {
        let (limiter, told) = run(case)?;
        let sum = |counts: &dyn Fn(&AuditEvent) -> bool| -> u64 {
            told.iter().filter(|event| counts(event)).map(|event| event.count).sum()
        };
        let exceeded = [EventName::RateLimitExceeded, EventName::SlidingWindowLimitExceeded];
        let mut by_limit: BTreeMap<&str, u64> = BTreeMap::new();
        for event in told.iter().filter(|event| exceeded.contains(&event.name)) {
            *by_limit.entry(event.limit.as_deref().unwrap_or_default()).or_default() += event.count;
        }
        let counters = limiter.limit_counters();
        let denied: BTreeMap<&str, u64> = counters
            .iter()
            .map(|(name, counted)| (&**name, counted.denied))
            .filter(|(_, denied)| *denied > 0)
            .collect();
        let named = |name: EventName| sum(&|event| event.name == name);
        let blocked =
            |kind: &str| sum(&|event| event.name == EventName::RequestBlocked && event.kind == Some(kind));
        let found = (
            by_limit,
            [blocked("block"), blocked("burst"), named(EventName::InvalidCredentials)],
            named(EventName::UnknownTenant),
            (named(EventName::BurstDetectedWarning), named(EventName::BurstDetectedBlocked)),
        );
        let reasons = [
            &[Reason::Blocked][..],
            &[Reason::BurstBlocked],
            &[Reason::InvalidCredentials, Reason::UnknownKey],
        ];
        let expected = (
            denied,
            reasons.map(|of| of.iter().map(|&reason| limiter.decided(reason)).sum::<u64>()),
            limiter.unknown_tenants(),
            limiter.burst_actions(),
        );
        if found != expected {
            return Err(format!("{case:?}\nevents:   {found:?}\ncounters: {expected:?}"));
        }
        check_violations(case, &limiter, &told)
    });
}

/// What trust scores count, a node can read back from its events: more than four make no difference.
fn check_violations(case: &Case, limiter: &MemoryLimiter, told: &[AuditEvent]) -> Result<(), String> {
    let mut by_user: BTreeMap<&str, u64> = BTreeMap::new();
    for event in told.iter().filter(|event| event.is_violation) {
        let user = event.user.as_deref().ok_or_else(|| format!("{case:?}\n{event:?} names no user"))?;
        *by_user.entry(user).or_default() += event.count;
    }
    let (now, book) = (limiter.clock().wall(), limiter.trust_book().expect("it has one"));
    // Where months pass, some no longer count.
    if case.trust.is_some() {
        return Ok(());
    }
    for user in ["u1", "u2", "7"] {
        let told = by_user.get(user).copied().unwrap_or(0).min(4);
        let counted = book.report(user, now.saturating_add(Nanos::HOUR)).inputs.violations_30d;
        if told != counted {
            return Err(format!("{case:?}\nviolations of {user}: {told} in events, {counted} counted"));
        }
    }
    Ok(())
}
