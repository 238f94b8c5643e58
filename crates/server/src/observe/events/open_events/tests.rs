use std::collections::BTreeMap;

use proptest::prelude::*;
use tidegate::engine::{Reason, Request};
use tidegate::{LimitDecision, Outcome};
use tidegate_policy::{Descriptor, Facts};

use super::*;

/// An incident in numbers: its kind, limit, user and path, and when it happens.
type Drawn = (u8, u8, u8, u8, u64);

fn add(
    open: &OpenEvents,
    &(kind, limit, user, path, at): &Drawn,
    hand_over: impl FnOnce(EventTable) -> Result<(), EventTable>,
) -> usize {
    let (limit, user, path) = (format!("limit-{limit}"), format!("user-{user}"), format!("/path/{path}"));
    let request = Request::new().user(&*user).path(&*path);
    let facts = Facts::new(&request);
    let kinds = [IncidentKind::LimitExceeded, IncidentKind::Blocked, IncidentKind::UnknownTenant];
    let kind = kinds[usize::from(kind) % kinds.len()];
    let is_limit = kind == IncidentKind::LimitExceeded;
    let incident = Incident {
        kind,
        reason: Some(if is_limit { Reason::TokenBucketExceeded } else { Reason::Blocked }),
        name: is_limit.then_some(&*limit),
        algorithm: is_limit.then_some(Algorithm::TokenBucket),
        key: if is_limit { user.as_bytes() } else { &[] },
        key_parts: if is_limit { &[Descriptor::User] } else { &[] },
        facts: Some(&facts),
        subject: None,
        remaining: Some(0),
        retry_after: Some(Nanos::from_millis(at)),
        at: Nanos::from_millis(at),
        policy_version: Some(1),
        is_violation: false,
    };
    open.add(&incident, hand_over)
}

/// What makes two incidents equal, and what is told of all of them together: count, first, last, path if all have the
/// same.
type Expected = BTreeMap<(EventName, Option<Box<str>>, Option<Box<str>>), (u64, u64, u64, Option<String>)>;

fn expected(drawn: &[Drawn]) -> Expected {
    let mut all = Expected::new();
    for &(kind, limit, user, path, at) in drawn {
        let (name, limit) = match kind % 3 {
            0 => (EventName::RateLimitExceeded, Some(format!("limit-{limit}").into())),
            1 => (EventName::RequestBlocked, None),
            _ => (EventName::UnknownTenant, None),
        };
        let path = Some(format!("/path/{path}"));
        let entry = all.entry((name, limit, Some(format!("user-{user}").into())));
        let known = entry.or_insert((0, at, at, path.clone()));
        *known = (
            known.0 + 1,
            known.1.min(at),
            known.2.max(at),
            known.3.take().filter(|p| Some(p) == path.as_ref()),
        );
    }
    all
}

/// Room for this many events in each shard.
fn room(per_shard: usize) -> EventRoom {
    EventRoom { per_shard, shared: 0 }
}

fn drawn() -> impl Strategy<Value = Vec<Drawn>> {
    prop::collection::vec((0..3_u8, 0..3_u8, 0..4_u8, 0..2_u8, 0..1_000_u64), 0..200)
}

proptest! {
    #[test]
    fn equal_incidents_are_one_event_and_others_are_not(drawn in drawn()) {
        let open = OpenEvents::new(room(1_000));
        for one in &drawn {
            prop_assert_eq!(add(&open, one, |_| unreachable!("there is enough space")), 0);
        }
        let told = open.take_all().into_iter().map(|event| {
            let millis = |at: Nanos| at.get() / 1_000_000;
            let (first, last) = (millis(event.first), millis(event.last));
            let path = event.endpoint.map(String::from);
            ((event.name, event.limit, event.user), (event.count, first, last, path))
        });
        prop_assert_eq!(told.collect::<Expected>(), expected(&drawn));
        prop_assert_eq!(open.take_all(), vec![], "each is told once");
    }

    #[test]
    fn in_little_memory_no_count_is_lost(
        drawn in drawn(),
        (per_shard, shared) in (1..8_usize, 0..5_usize),
        takes in any::<u64>(),
    ) {
        let open = OpenEvents::new(EventRoom { per_shard, shared });
        // Full tables that were taken and are not written yet: they keep the shared room.
        let mut unwritten: Vec<usize> = Vec::new();
        let mut told: Vec<AuditEvent> = Vec::new();
        let (mut merged, mut refused) = (0, 0);
        for (number, one) in drawn.iter().enumerate() {
            if takes >> (number % 61) & 3 == 3 {
                unwritten.drain(..).for_each(|events| open.release(events));
            }
            merged += add(&open, one, |table| {
                let kept: usize = unwritten.iter().map(|events| events - per_shard).sum();
                assert_eq!(table.len(), per_shard + shared - kept);
                if takes >> (number % 64) & 1 == 1 {
                    unwritten.push(table.len());
                    told.extend(table.into_values().map(|event| *event));
                    return Ok(());
                }
                refused += table.len();
                Err(table)
            });
        }
        told.extend(open.take_all());
        prop_assert_eq!(merged, refused);
        let mut sums: BTreeMap<EventName, u64> = BTreeMap::new();
        told.iter().for_each(|event| *sums.entry(event.name).or_default() += event.count);
        let mut wanted: BTreeMap<EventName, u64> = BTreeMap::new();
        expected(&drawn).iter().for_each(|((name, ..), (count, ..))| *wanted.entry(*name).or_default() += count);
        prop_assert_eq!(sums, wanted);
    }
}

#[test]
fn equal_events_of_several_threads_are_one() {
    let open = OpenEvents::new(room(10));
    std::thread::scope(|scope| {
        for _ in 0..2 * SHARDS {
            scope.spawn(|| add(&open, &(0, 1, 1, 1, 5), |_| unreachable!("there is enough space")));
        }
    });
    let told = open.take_all();
    assert_eq!(told.iter().map(|event| event.count).collect::<Vec<_>>(), [2 * SHARDS as u64]);
}

/// Adds the denial of an ad hoc bucket, as the observer does.
fn add_ad_hoc(open: &OpenEvents, key: &str, at: u64) {
    let decision = LimitDecision {
        outcome: Outcome::Denied { retry_after: Nanos::from_millis(at) },
        limit: 7,
        remaining: at as u32 % 7,
        reset_after: Nanos::ZERO,
    };
    let denial = AdHocDenial { key: key.as_bytes(), decision: &decision, at: Nanos::from_millis(at) };
    if !open.continues(&denial) {
        assert_eq!(open.add(&denial.incident(), |_| unreachable!("there is enough space")), 0);
    }
}

proptest! {
    /// Runs of equal denials are counted as all others are, whenever the events are taken.
    #[test]
    fn runs_are_told_exactly(parts in prop::collection::vec((0..3_u8, 1..30_u64, any::<bool>()), 1..40)) {
        let open = OpenEvents::new(room(1_000));
        let mut expected: BTreeMap<String, (u64, u64, u64)> = BTreeMap::new();
        let mut now = 0;
        for (key, repeats, is_taken) in parts.into_iter().chain([(0, 1, true)]) {
            // The last one is too long for a run, but not too long to be told whole.
            let key = format!("{key}").repeat([1, 50, 200][usize::from(key)]);
            for _ in 0..repeats {
                now += 1;
                add_ad_hoc(&open, &key, now);
                let known = expected.entry(key.clone()).or_insert((0, now, now));
                *known = (known.0 + 1, known.1, now);
            }
            if !is_taken {
                continue;
            }
            let told = open.take_all();
            prop_assert_eq!(told.len(), expected.len());
            for event in told {
                let (key, at) = (event.key.as_deref().unwrap_or_default(), event.last.get() / 1_000_000);
                let told = (event.count, event.first.get() / 1_000_000, at);
                prop_assert_eq!(Some(told), expected.remove(key), "{}", key);
                prop_assert_eq!((event.remaining, event.retry_after_ms), (Some(at % 7), Some(at)));
            }
        }
    }
}

#[test]
fn no_denial_of_a_run_is_lost_while_events_are_taken() {
    const DENIALS: u64 = 50_000;
    let (open, done) = (OpenEvents::new(room(10)), AtomicUsize::new(0));
    let told: u64 = std::thread::scope(|scope| {
        for key in ["a", "b"] {
            let (open, done) = (&open, &done);
            scope.spawn(move || {
                (0..DENIALS).for_each(|at| add_ad_hoc(open, key, at));
                done.fetch_add(1, Ordering::Release);
            });
        }
        let mut told = 0;
        loop {
            let is_done = done.load(Ordering::Acquire) == 2;
            told += open.take_all().iter().map(|event| event.count).sum::<u64>();
            if is_done {
                return told;
            }
        }
    });
    assert_eq!(told, 2 * DENIALS);
}

#[test]
fn a_trace_within_a_run_is_told() {
    let open = OpenEvents::new(room(10));
    (0..20).for_each(|at| add_ad_hoc(&open, "k", at));
    let header = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let scope = crate::observe::traces::TraceScope::enter(Some(header));
    (20..40).for_each(|at| add_ad_hoc(&open, "k", at));
    drop(scope);
    let [event] = &open.take_all()[..] else { panic!("one event") };
    assert_eq!((event.count, event.trace_id.as_deref()), (40, Some("4bf92f3577b34da6a3ce929d0e0e4736")));
    (40..60).for_each(|at| add_ad_hoc(&open, "k", at));
    let [event] = &open.take_all()[..] else { panic!("one event") };
    assert_eq!((event.count, event.trace_id.as_deref()), (20, None), "no request of these was traced");
}

#[test]
fn a_value_that_may_be_a_credential_is_masked_within_the_key() {
    let request = Request::new().user("42").header("X-Api-Key", "secret-key-1");
    let facts = Facts::new(&request);
    let incident = Incident {
        kind: IncidentKind::LimitExceeded,
        reason: Some(Reason::TokenBucketExceeded),
        name: Some("keys"),
        algorithm: Some(Algorithm::SlidingWindow),
        key: b"42\x1fsecret-key-1\x1f",
        key_parts: &[Descriptor::User, Descriptor::Header("x-api-key".into())],
        facts: Some(&facts),
        subject: None,
        remaining: Some(3),
        retry_after: None,
        at: Nanos::SECOND,
        policy_version: None,
        is_violation: false,
    };
    let open = OpenEvents::new(room(10));
    open.add(&incident, |_| unreachable!("there is enough space"));
    let [event] = &open.take_all()[..] else { panic!("one event") };
    let mut line = Vec::new();
    event.write_line(&mut line);
    let line = String::from_utf8(line).unwrap();
    assert!(line.contains(r#""key":"42, secr…#"#) && !line.contains("secret-key"), "{line}");
    assert!(line.contains(r#""event":"sliding_window_limit_exceeded""#), "{line}");
    assert!(
        !line.contains("retry_after_ms") && !line.contains("policy_version"),
        "what is not known is absent"
    );
}

/// A violation counts against its user after a restart, so the event must name the user.
#[test]
fn violations_of_several_users_of_one_key_are_told_apart() {
    let open = OpenEvents::new(room(10));
    let tell = |user: &'static str, is_violation: bool| {
        let request = Request::new().user(user).ip([192, 0, 2, 7]);
        let facts = Facts::new(&request);
        let incident = Incident {
            kind: IncidentKind::LimitExceeded,
            reason: Some(Reason::TokenBucketExceeded),
            name: Some("per-address"),
            algorithm: Some(Algorithm::TokenBucket),
            key: b"192.0.2.7",
            key_parts: &[Descriptor::Ip],
            facts: Some(&facts),
            subject: None,
            remaining: None,
            retry_after: None,
            at: Nanos::SECOND,
            policy_version: None,
            is_violation,
        };
        open.add(&incident, |_| unreachable!("there is enough space"));
    };
    for (user, is_violation) in [("a", true), ("b", true), ("a", true), ("a", false), ("b", false)] {
        tell(user, is_violation);
    }
    let mut told: Vec<_> =
        open.take_all().into_iter().map(|event| (event.user, event.is_violation, event.count)).collect();
    told.sort();
    assert_eq!(told, [(None, false, 2), (Some("a".into()), true, 2), (Some("b".into()), true, 1)]);
}

#[test]
fn tenants_that_are_refused_by_the_limit_of_their_parent_are_told_apart() {
    let open = OpenEvents::new(room(100));
    let limits = ["tenant:parent", "of-all"];
    for (limit, tenant) in limits.into_iter().flat_map(|limit| ["a", "b", "a"].map(|tenant| (limit, tenant)))
    {
        let request = Request::new().tenant(tenant);
        let facts = Facts::new(&request);
        let incident = Incident {
            kind: IncidentKind::LimitExceeded,
            reason: Some(Reason::TokenBucketExceeded),
            name: Some(limit),
            algorithm: Some(Algorithm::TokenBucket),
            key: b"one bucket",
            key_parts: &[],
            facts: Some(&facts),
            subject: None,
            remaining: Some(0),
            retry_after: None,
            at: Nanos::from_millis(1),
            policy_version: Some(1),
            is_violation: false,
        };
        assert_eq!(open.add(&incident, |_| unreachable!("there is enough space")), 0);
    }
    let words = |event: AuditEvent| {
        let (limit, tenant) = (event.limit.unwrap_or_default(), event.tenant.unwrap_or_default());
        format!("{limit} denied {tenant:?} {} times", event.count)
    };
    let mut told: Vec<String> = open.take_all().into_iter().map(words).collect();
    told.sort();
    let wanted = [
        "of-all denied \"\" 3 times",
        "tenant:parent denied \"a\" 2 times",
        "tenant:parent denied \"b\" 1 times",
    ];
    assert_eq!(told, wanted);
}
