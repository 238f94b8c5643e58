//! The policy-driven limiter, as a program uses it.

use tidegate::policy::{Limiter, Policy, Reason, Request, Trust};
use tidegate::{Cost, ManualClock, Memory, MemoryOptions, Nanos};

type Manual = Limiter<Memory<ManualClock>, ManualClock>;

fn limiter(policy: &str) -> (Manual, ManualClock) {
    let clock = ManualClock::default();
    let options = MemoryOptions { max_keys: 10_000, ..MemoryOptions::default() };
    let policy = Policy::parse(policy).unwrap_or_else(|error| panic!("{error}"));
    (Limiter::in_memory(policy, options, clock.clone()).unwrap(), clock)
}

fn user(name: &str) -> Request<'_> {
    Request::new().user(name)
}

/// How many of `tries` are admitted at once.
fn admitted(limiter: &Manual, request: &Request<'_>, tries: u32) -> u32 {
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
        (name.as_str(), counters.get(tidegate::policy::counters::RuleOutcome::Allowed)),
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
        limiter.check(&user(name));
        let denied = limiter.check(&user(name));
        assert_eq!(denied.retry_after(), Some(Nanos::MINUTE), "the exact wait has no jitter");
        denied.retry_after_secs().unwrap()
    };
    let all: Vec<u64> = ["a", "b", "c", "d", "e", "f"].into_iter().map(waits).collect();
    assert!(all.iter().all(|secs| (60..=90).contains(secs)), "{all:?}");
    assert!(all.iter().any(|secs| *secs != all[0]), "{all:?}");
    assert_eq!(waits("a"), all[0]);
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
    let headers = |decision: &tidegate::policy::Decision| {
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
    let top = limiter.top_denied(1).remove(0);
    assert_eq!((top.limit.as_str(), top.key.as_str(), top.count), ("per-user", "busy", 45));
    assert_eq!(limiter.top_consumers(1).remove(0).count, 5);
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
        limiter.check(&user("1"));
    }
    assert_eq!(limiter.check(&user("1")).shadow_denied().collect::<Vec<_>>(), ["per-user"]);
}

#[test]
fn of_several_blocks_the_longest_counts() {
    let (limiter, clock) = limiter(
        "version: 1\nlimits: []\nblock: [{ user: bad, until: 2027-01-15T08:00:05Z }, { user: bad, until: 2027-01-15T08:01:00Z }]\n",
    );
    let refused = limiter.check(&user("bad"));
    assert_eq!(refused.retry_after(), Some(Nanos::MINUTE));
    clock.advance(Nanos::from_secs(60));
    assert!(limiter.check(&user("bad")).is_allowed(), "the wait was a promise");
}

#[test]
fn a_tightened_detector_sees_who_is_already_there() {
    let detector = |window: &str, key: &str| {
        format!(
            "version: 1\nlimits: []\nbursts: [{{ name: b, key: [{key}], window: {window}, threshold: 3, penalty: 60s }}]\n"
        )
    };
    let (limiter, clock) = limiter(&detector("1h", "user"));
    let request = user("1").client("1");
    admitted(&limiter, &request, 4);
    assert_eq!(limiter.burst_actions(), (1, 0));
    limiter.swap(Policy::parse(&detector("10s", "user")).unwrap()).unwrap();
    clock.advance(Nanos::from_secs(10));
    assert_eq!(admitted(&limiter, &request, 5), 3, "the fourth is the second offence");
    assert_eq!(limiter.burst_actions(), (1, 1));
    limiter.swap(Policy::parse(&detector("10s", "client")).unwrap()).unwrap();
    assert!(limiter.check(&request).is_allowed(), "another key is another detector");
}

#[test]
fn headers_can_be_off_for_refusals_that_no_limit_has_a_part_in() {
    let (limiter, _) =
        limiter("version: 1\ndefaults: { response_headers: false }\nlimits: []\nblock: [{ user: bad }]\n");
    let mut names = Vec::new();
    limiter.check(&user("bad")).headers(|name, _| names.push(name));
    assert_eq!(names, ["cache-control"]);
}
