//! The policy-driven limiter, as a program uses it.

use std::sync::Arc;

use tidegate::engine::{
    GateBuilder, Limiter, OverrideRule, OverrideUse, Overrides, Policy, PolicyBuilder, Reason, Request,
    RuleSet, Trust,
};
use tidegate::{Clock, Cost, ManualClock, Memory, MemoryOptions, Nanos, OverrideNumbers};

pub(crate) type Manual = Limiter<Memory<ManualClock>, ManualClock>;

pub(crate) fn limiter(policy: &str) -> (Manual, ManualClock) {
    let clock = ManualClock::default();
    let options = MemoryOptions { max_keys: 10_000, ..MemoryOptions::default() };
    let policy = Policy::parse(policy).unwrap_or_else(|error| panic!("{error}"));
    (Limiter::in_memory(policy, options, clock.clone()).unwrap(), clock)
}

pub(crate) fn user(name: &str) -> Request<'_> {
    Request::new().user(name)
}

/// How many of `tries` are admitted at once.
pub(crate) fn admitted(limiter: &Manual, request: &Request<'_>, tries: u32) -> u32 {
    (0..tries).map(|_| u32::from(limiter.check(request).is_allowed())).sum()
}

const PER_USER: &str = "version: 1\nlimits: [{ name: per-user, key: [user], sustained: { rate: 10 }, burst: { capacity: 5 } }]\n";

#[test]
fn a_peek_charges_and_counts_nothing() {
    let (limiter, _) = limiter(PER_USER);
    for _ in 0..10 {
        let peek = limiter.peek(&user("1"));
        assert_eq!((peek.is_allowed(), peek.tightest().unwrap().decision.remaining), (true, 5));
    }
    assert_eq!(limiter.decided(Reason::Ok), 0);
    assert_eq!(admitted(&limiter, &user("1"), 10), 5);
    assert!(!limiter.peek(&user("1")).is_allowed());
    assert_eq!(limiter.decided(Reason::TokenBucketExceeded), 5);
}

#[test]
fn a_refund_is_capped_and_ignores_costs_of_the_policy() {
    let (limiter, _) = limiter(
        "version: 1\nlimits: [{ name: l, key: [user], cost: 3, sustained: { rate: 1 }, burst: { capacity: 10 } }]\n",
    );
    assert_eq!(admitted(&limiter, &user("1"), 10), 3);
    let after = limiter.refund(&user("1"), Cost::new(2));
    assert_eq!((after.is_allowed(), after.tightest().unwrap().decision.remaining), (true, 3));
    let after = limiter.refund(&user("1"), Cost::new(1_000));
    assert_eq!(after.tightest().unwrap().decision.remaining, 10);
}

#[test]
fn the_kill_switch_admits_everything_and_says_so() {
    let (limiter, _) = limiter("version: 1\nlimits: []\nblock: [{ user: bad }]\n");
    assert_eq!(limiter.check(&user("bad")).reason(), Reason::Blocked);
    limiter.set_kill_switch(true);
    let decision = limiter.check(&user("bad"));
    assert_eq!((decision.is_allowed(), decision.reason()), (true, Reason::KillSwitch));
    limiter.set_kill_switch(false);
    assert!(!limiter.check(&user("bad")).is_allowed());
}

#[test]
fn a_swap_hands_out_nothing_and_keeps_counters() {
    let (limiter, clock) = limiter(PER_USER);
    assert_eq!(admitted(&limiter, &user("1"), 10), 5);
    let reordered = format!("{PER_USER}routes: [{{ path: /x, cost: 2 }}]\n");
    assert_eq!(limiter.swap(Policy::parse(&reordered).unwrap()).unwrap(), 2);
    assert_eq!(admitted(&limiter, &user("1"), 10), 0, "an empty bucket stays empty");
    let raised = PER_USER.replace("capacity: 5", "capacity: 50");
    limiter.swap(Policy::parse(&raised).unwrap()).unwrap();
    assert_eq!(admitted(&limiter, &user("1"), 10), 0, "a larger one starts with what was there");
    assert_eq!(admitted(&limiter, &user("2"), 100), 50);
    clock.advance(Nanos::SECOND);
    assert_eq!(admitted(&limiter, &user("1"), 100), 10);
    let (name, counters) = limiter.limit_counters().remove(0);
    assert_eq!(
        (name.as_str(), counters.get(tidegate::engine::counting::counters::RuleOutcome::Allowed)),
        ("per-user", 65)
    );
}

#[test]
fn another_key_starts_anew() {
    let (limiter, _) = limiter(PER_USER);
    let request = user("1").client("c");
    assert_eq!(admitted(&limiter, &request, 10), 5);
    let by_client = PER_USER.replace("[user]", "[client]");
    limiter.swap(Policy::parse(&by_client).unwrap()).unwrap();
    assert_eq!(admitted(&limiter, &request, 10), 5);
}

#[test]
fn jitter_only_adds_and_is_the_same_for_the_same_caller() {
    let (limiter, _) = limiter(
        "version: 1\nlimits: [{ name: l, key: [user], retry_jitter: 0.5, sustained: { rate: 1, window: minute } }]\n",
    );
    let waits = |name: &'static str| {
        let _ = limiter.check(&user(name));
        let denied = limiter.check(&user(name));
        assert_eq!(denied.wait(), Some(Nanos::MINUTE), "the exact wait has no jitter");
        denied.retry_after_secs().unwrap()
    };
    let all: Vec<u64> = ["a", "b", "c", "d", "e", "f"].into_iter().map(waits).collect();
    assert!(all.iter().all(|secs| (60..=90).contains(secs)), "{all:?}");
    assert!(all.iter().any(|secs| *secs != all[0]), "{all:?}");
    assert_eq!(waits("a"), all[0]);
}

#[test]
fn jitter_goes_by_the_bucket_and_by_nothing_else_of_the_request() {
    let limit = |name: &str, key: &str| {
        format!(
            "version: 1\nlimits: [{{ name: {name}, key: [{key}], retry_jitter: 0.5, \
             sustained: {{ rate: 1, window: hour }} }}]\n"
        )
    };
    let secs = |policy: &str, request: &Request<'_>| {
        let (limiter, _) = limiter(policy);
        let _ = limiter.check(request);
        limiter.check(request).retry_after_secs().unwrap()
    };
    let keyed = |key: &'static str| Request::new().path("/api").header("x-api-key", key);
    let per_key = limit("l", "\"header:x-api-key\"");
    let waits: std::collections::BTreeSet<u64> =
        ["k1", "k2", "k3", "k4", "k5"].into_iter().map(|key| secs(&per_key, &keyed(key))).collect();
    assert_eq!(waits.len(), 5, "each key waits for another time: {waits:?}");
    let elsewhere = keyed("k1").path("/other").user("someone").ip([192, 0, 2, 1]);
    assert_eq!(secs(&per_key, &keyed("k1")), secs(&per_key, &elsewhere), "one bucket, one wait");
    assert_ne!(secs(&per_key, &keyed("k1")), secs(&limit("m", "\"header:x-api-key\""), &keyed("k1")));
    // A bucket for everybody has one wait for everybody.
    let global = limit("all", "");
    assert_eq!(secs(&global, &keyed("k1")), secs(&global, &keyed("k2")));
}

#[test]
fn trust_is_counted_and_only_used_where_it_is_on() {
    let trusted = user("1").trust(Trust::FULL);
    let (off, _) = limiter(PER_USER);
    assert_eq!(admitted(&off, &trusted, 20), 5);
    let (on, _) = limiter(&format!("{PER_USER}adaptive: {{ trust: true }}\n"));
    assert_eq!(admitted(&on, &trusted, 20), 10);
    assert_eq!(on.trust().buckets().iter().sum::<u64>(), 20);
}

#[test]
fn headers_and_bodies_say_what_the_decision_says() {
    let (limiter, _) = limiter(
        "version: 1\ndefaults: { headers: [x-ratelimit, ratelimit-03, ietf] }\n\
         limits: [{ name: l, key: [user], sustained: { rate: 1, window: minute } }]\n",
    );
    let headers = |decision: &tidegate::engine::Decision| {
        let mut all = Vec::new();
        decision.headers(|name, value| all.push(format!("{name}: {value}")));
        all
    };
    let allowed = limiter.check(&user("1"));
    assert_eq!(
        headers(&allowed),
        [
            "x-ratelimit-limit: 1",
            "x-ratelimit-remaining: 0",
            "x-ratelimit-reset: 1800000060",
            "ratelimit-limit: 1",
            "ratelimit-remaining: 0",
            "ratelimit-reset: 60",
            "ratelimit-policy: \"l\";q=1;w=60",
            "ratelimit: \"l\";r=0;t=60",
        ]
    );
    let denied = limiter.check(&user("1"));
    assert_eq!(denied.status(), 429);
    let all = headers(&denied);
    assert!(all.contains(&"retry-after: 60".to_owned()), "{all:?}");
    assert!(all.contains(&"x-ratelimit-rule: l".to_owned()), "{all:?}");
    let body: serde_json::Value = serde_json::from_str(&denied.problem_body(429)).unwrap();
    assert_eq!((&body["violated_rule"], &body["retry_after_ms"]), (&"l".into(), &60_000.into()));
}

#[test]
fn hot_keys_and_reasons_are_known() {
    let (limiter, _) = limiter(PER_USER);
    admitted(&limiter, &user("busy"), 50);
    admitted(&limiter, &user("quiet"), 1);
    let top = limiter.top_denied(1).keys.remove(0);
    assert_eq!((top.limit.as_str(), top.key.as_str(), top.count), ("per-user", "busy", 45));
    assert_eq!(limiter.top_consumers(1).keys.remove(0).count, 5);
    assert_eq!(limiter.decided(Reason::Ok), 6);
}

#[test]
fn a_whole_policy_can_be_only_watched() {
    let (limiter, _) = limiter(&format!(
        "{PER_USER}defaults: {{ mode: shadow, unknown_tenant: deny }}\nblock: [{{ user: bad }}]\ntenants: [{{ id: t }}]\n"
    ));
    let decision = limiter.check(&user("bad").tenant("nobody"));
    assert_eq!((decision.is_allowed(), decision.reason()), (true, Reason::NoLimit));
    assert_eq!(decision.shadow_denied().collect::<Vec<_>>(), ["block", "unknown_tenant"]);
    for _ in 0..5 {
        let _ = limiter.check(&user("1"));
    }
    assert_eq!(limiter.check(&user("1")).shadow_denied().collect::<Vec<_>>(), ["per-user"]);
}

#[test]
fn of_several_blocks_the_longest_counts() {
    let (limiter, clock) = limiter(
        "version: 1\nlimits: []\nblock: [{ user: bad, until: 2027-01-15T08:00:05Z }, { user: bad, until: 2027-01-15T08:01:00Z }]\n",
    );
    let refused = limiter.check(&user("bad"));
    assert_eq!(refused.wait(), Some(Nanos::MINUTE));
    clock.advance(Nanos::from_secs(60));
    assert!(limiter.check(&user("bad")).is_allowed(), "the wait was a promise");
}

#[test]
fn headers_can_be_off_for_refusals_that_no_limit_has_a_part_in() {
    let (limiter, _) =
        limiter("version: 1\ndefaults: { response_headers: false }\nlimits: []\nblock: [{ user: bad }]\n");
    let mut names = Vec::new();
    limiter.check(&user("bad")).headers(|name, _| names.push(name));
    assert_eq!(names, ["cache-control"]);
}

#[test]
fn dates_follow_the_wall_clock_and_waits_the_steady_one() {
    // The clock starts at 2027-01-15T08:00:00Z.
    let (limiter, clock) = limiter(
        "version: 1\nblock: [{ user: bad, until: '2027-01-15T09:00:00Z' }]\n\
         allow: [{ user: good, until: '2027-01-15T09:00:00Z' }]\n\
         limits:\n\
         - { name: bucket, key: [user], match: { path: /bucket }, sustained: { rate: 1, window: hour } }\n\
         - { name: window, key: [user], match: { path: /window }, algorithm: fixed_window, sustained: { rate: 1, window: day } }\n\
         - { name: log, key: [user], match: { path: /log }, algorithm: sliding_log, sustained: { rate: 1, window: hour } }\n\
         bursts: [{ name: burst, key: [client], window: 10s, threshold: 1, penalty: 60s }]\n",
    );
    let by = |secs: i64| {
        let wall = clock.wall().get().saturating_add_signed(secs * Nanos::SECOND.get() as i64);
        clock.set_wall(Nanos::new(wall));
    };
    let reset = |request: &Request<'_>| {
        let mut reset = None;
        limiter.check(request).headers(|name, value| {
            if name == "x-ratelimit-reset" {
                reset = value.parse::<u64>().ok();
            }
        });
        reset
    };
    let hour = 3_600;
    let retry = |request: &Request<'_>| limiter.check(request).retry_after_secs();
    let used = |path: &'static str| user("1").path(path);
    assert_eq!(retry(&user("bad")), Some(hour), "an hour is left");
    assert_eq!(limiter.check(&user("good")).reason(), Reason::Allowlisted);
    assert_eq!(reset(&used("/bucket")), Some(1_800_000_000 + hour));
    assert_eq!(reset(&used("/window")), Some(1_800_000_000 + 16 * hour), "midnight, UTC");
    assert!(limiter.check(&used("/log")).is_allowed());
    let burst = Request::new().client("c");
    assert_eq!(admitted(&limiter, &burst, 2), 2, "the second one warns");

    by(1_800);
    assert_eq!(retry(&user("bad")), Some(hour / 2), "half an hour is left of the block");
    assert_eq!(
        (retry(&used("/bucket")), retry(&used("/log"))),
        (Some(hour), Some(hour)),
        "but no time has passed"
    );
    assert_eq!(retry(&used("/window")), Some(15 * hour + hour / 2));
    by(1_800);
    assert!(limiter.check(&user("bad")).is_allowed(), "it counts before that instant");
    assert_eq!(limiter.check(&user("good")).reason(), Reason::NoLimit);
    assert_eq!(reset(&used("/bucket")), Some(1_800_000_000 + 2 * hour), "in an hour, and then it is ten");
    by(24 * 3_600);
    assert!(limiter.check(&used("/window")).is_allowed(), "another day has begun");
    assert!(!limiter.check(&used("/bucket")).is_allowed() && !limiter.check(&used("/log")).is_allowed());
    clock.advance(Nanos::from_secs(10));
    assert_eq!(admitted(&limiter, &burst, 2), 1, "a minute has not passed since the warning");

    by(-48 * 3_600);
    assert_eq!(limiter.check(&user("bad")).reason(), Reason::Blocked, "again");
    assert_eq!(limiter.check(&user("good")).reason(), Reason::Allowlisted);
    assert!(!limiter.check(&used("/window")).is_allowed(), "a window never goes back");
    clock.advance(Nanos::HOUR);
    assert!(limiter.check(&used("/bucket")).is_allowed() && limiter.check(&used("/log")).is_allowed());
}

#[test]
fn a_place_in_a_queue_for_a_window_is_given_back_whatever_the_wall_clock_shows() {
    let (limiter, clock) = limiter(
        "version: 1\nlimits: [{ name: w, key: [user], algorithm: fixed_window, sustained: { rate: 2, window: minute }, \
         strategy: queue, queue: { max_depth: 9, max_wait: 60s } }]\n",
    );
    let left = || limiter.peek(&user("1")).tightest().unwrap().decision.remaining;
    for step in [0_i64, 3_600, -3_600] {
        assert_eq!(admitted(&limiter, &user("1"), 3), 2);
        let (decision, place) = limiter.take_place(&user("1"));
        assert!(decision.is_allowed() && place.is_some());
        clock.set_wall(Nanos::new(
            clock.wall().get().saturating_add_signed(step * Nanos::SECOND.get() as i64),
        ));
        let before = left();
        drop(place);
        assert!(left() >= before, "nothing is taken by giving back");
        clock.set_wall(clock.wall().saturating_add(Nanos::new(3 * Nanos::HOUR.get())));
        assert_eq!(left(), 2, "a window that nobody has used");
    }
}

/// A database that was restored from a backup gives a number again that another policy had.
#[test]
fn whether_an_override_is_refused_is_found_out_for_each_policy_whatever_its_version() {
    let policy = |rate: u32| {
        let limit = format!("{{ name: a, sustained: {{ rate: {rate}, window: hour }} }}");
        Policy::parse(&format!("version: 1\nlimits: [{limit}]\n")).expect("a policy")
    };
    let limiter =
        Limiter::in_memory(policy(5), MemoryOptions::default(), ManualClock::default()).expect("one limit");
    let who = PolicyBuilder::new().block_gate(GateBuilder::new().when("user", ["42"]).reason("why"));
    let who: RuleSet = who.build().expect("a policy").into();
    let numbers = OverrideNumbers::Times(10_000);
    let used = Arc::new(OverrideUse::default());
    let rule = OverrideRule::new("o1", "a", numbers, who.block().entries()[0].clone(), Arc::clone(&used));
    limiter.set_overrides(Some(Overrides::new([rule])));
    for (rate, is_refused) in [(5, false), (4_000_000_000, true), (5, false)] {
        limiter.swap_to(policy(rate), Some(7)).expect("one limit");
        let _ = limiter.check(&Request::new().user("42"));
        assert_eq!(used.is_refused(), is_refused, "a hundred times {rate}");
    }
}
