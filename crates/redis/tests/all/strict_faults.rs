//! Servers that lost data or hold invalid values; and how long keys are kept.

use std::time::Duration;

use crate::support::{PlainLink, Redis, fresh_prefix, heartbeat, runtime};
use redis::Commands;
use tidegate::{
    Carry, Charge, Cost, Intent, Limit, LimitDecision, LimitVariant, LogQuota, Meter, Nanos, Quota, Store,
    WindowQuota,
};
use tidegate_redis::testing::{ServerOnlyStore, kept, kept_log};
use tidegate_redis::{BucketEntry, BucketKey, CallAnswer, CallOutcome, CallVerb, Link, ScriptCall};

const NOW: Nanos = Nanos::from_secs(1_800_000_000);
const TEXT: &str = "x 1";

fn limits() -> [Limit; 4] {
    let quota = WindowQuota::new(10, Nanos::HOUR).unwrap();
    [
        Quota::new(10, Nanos::HOUR, 10).unwrap().into(),
        Limit::sliding_window(quota),
        Limit::fixed_window(quota),
        LogQuota::new(10, Nanos::HOUR).unwrap().into(),
    ]
}

fn take(limit: Limit, key: &str, cost: u32, at: Option<Nanos>) -> ScriptCall {
    let entry = BucketEntry {
        key: BucketKey(key.into()),
        limit,
        text: TEXT.into(),
        cost: Cost::new(cost),
        binding: true,
        delay: Nanos::ZERO,
        want: 0,
        spare: Nanos::ZERO,
        charged_at: Nanos::ZERO,
        migrated: None,
    };
    ScriptCall { verb: CallVerb::Take, entries: [entry].into_iter().collect(), at }
}

/// A server, a connection to inspect it, and a runtime with a link.
struct Bench {
    server: Redis,
    connection: redis::Connection,
    runtime: tokio::runtime::Runtime,
    link: PlainLink,
}

impl Bench {
    fn new() -> Bench {
        let (server, runtime) = (Redis::start(), runtime());
        let link = runtime.block_on(PlainLink::connect(&server));
        Bench { connection: server.connection(), server, runtime, link }
    }

    fn call(&self, call: &ScriptCall) -> CallAnswer {
        self.runtime.block_on(self.link.call(call)).unwrap()
    }

    fn store(&self, prefix: &str) -> ServerOnlyStore<PlainLink> {
        ServerOnlyStore::new(self.runtime.block_on(PlainLink::connect(&self.server)), prefix)
    }

    fn charge(
        &self,
        store: &ServerOnlyStore<PlainLink>,
        intent: Intent,
        charge: Charge<'_>,
        now: Nanos,
    ) -> LimitDecision {
        self.runtime.block_on(store.charge(intent, &[charge], now)).unwrap().decisions[0]
    }
}

#[test]
fn values_that_are_no_states_count_as_untouched() {
    let mut bench = Bench::new();
    let pair = |a: f64, b: f64| [&a.to_le_bytes(), &b.to_le_bytes(), TEXT.as_bytes()].concat();
    let wrong = [
        pair(f64::NAN, 0.0),
        pair(0.5, 0.0),
        pair(-1.0, 0.0),
        pair(1e300, 0.0),
        pair(500_000.0, 1e15),
        pair(500_000.0, -1.0),
        vec![b'x'; 10_000],
    ];
    for (index, limit) in limits().into_iter().take(3).enumerate() {
        for (place, value) in wrong.iter().enumerate() {
            let key = format!("{index}.{place}");
            let _: () = bench.connection.set(&key, value).unwrap();
            let answer = bench.call(&take(limit, &key, 10, Some(NOW)));
            assert_eq!((answer.outcome, answer.poisoned), (CallOutcome::Done, 1), "{limit:?}: {place}");
            let answer = bench.call(&take(limit, &key, 1, Some(NOW)));
            assert_eq!(
                (answer.outcome, answer.poisoned),
                (CallOutcome::Refused, 0),
                "{limit:?}: {place} stays"
            );
        }
    }
}

#[test]
fn logs_of_entries_that_are_none_count_as_untouched() {
    let mut bench = Bench::new();
    let now = (NOW.get() / 1_000) as f64;
    let wrong: [&[[f64; 3]]; 12] = [
        &[[f64::NAN, 1.0, 1.0]],
        &[[now - 0.5, 1.0, 1.0]],
        &[[now, 0.5, 1.0]],
        &[[now, 1.0, 0.5]],
        &[[now, f64::NAN, 1.0]],
        &[[now, 1.0, f64::NAN]],
        &[[now, -1.0, 1.0]],
        &[[now, 1e9, 1e9]],
        &[[now, 1.0, 1e12]],
        // The first is later than the last, or has a sum that is greater.
        &[[9e15, 1.0, 1.0], [now, 1.0, 2.0]],
        &[[now - 1.0, 1.0, 5.0], [now, 1.0, 1.0]],
        // Only the search for the wait reads the entry in the middle.
        &[[now - 2.0, 1.0, 1.0], [now - 1.0, 0.5, 1.5], [now, 8.0, 10.0]],
    ];
    for (place, entries) in wrong.iter().enumerate() {
        for (verb, said) in [
            (CallVerb::Take, CallOutcome::Done),
            (CallVerb::Refund, CallOutcome::Done),
            (CallVerb::HandBack, CallOutcome::Done),
        ] {
            let key = format!("{place}.{verb:?}");
            let _: () = bench.connection.rpush(&key, TEXT).unwrap();
            for entry in *entries {
                let _: () = bench.connection.rpush(&key, entry.map(f64::to_le_bytes).concat()).unwrap();
            }
            let answer = bench.call(&ScriptCall { verb, ..take(limits()[3], &key, 10, Some(NOW)) });
            assert_eq!(answer.outcome, said, "{verb:?}: {place}");
            if verb == CallVerb::Take {
                assert_eq!(answer.poisoned, 1, "{place}");
                let answer = bench.call(&take(limits()[3], &key, 1, Some(NOW)));
                assert_eq!((answer.outcome, answer.poisoned), (CallOutcome::Refused, 0), "{place} stays");
            }
        }
    }
}

#[test]
fn states_too_far_ahead_are_used_up_as_of_now_and_heal() {
    let mut bench = Bench::new();
    let far = NOW.saturating_add(Nanos::new(40 * Nanos::DAY.get()));
    for (index, limit) in limits().into_iter().enumerate() {
        let key = index.to_string();
        match &limit {
            Limit::Meter(meter) => {
                let word = meter.charge(0, Cost::ONE, far).unwrap();
                let _: () = bench.connection.set(&key, kept(meter, word, far, TEXT)).unwrap();
            }
            Limit::Log(_) => {
                let _: () = bench.connection.rpush(&key, TEXT).unwrap();
                let _: () = bench.connection.rpush(&key, kept_log(&[(far, 1)])).unwrap();
            }
        }
        let answer = bench.call(&take(limit, &key, 1, Some(NOW)));
        assert_eq!((answer.outcome, answer.poisoned), (CallOutcome::Refused, 1), "{limit:?}");
        assert!(bench.connection.pttl::<_, i64>(&key).unwrap() > 0, "{limit:?}: kept for ever");
        let answer = bench.call(&take(limit, &key, 1, Some(NOW)));
        assert_eq!((answer.outcome, answer.poisoned), (CallOutcome::Refused, 0), "{limit:?}: replaced");
        let later = NOW.saturating_add(Nanos::new(2 * Nanos::HOUR.get()));
        assert_eq!(
            bench.call(&take(limit, &key, 10, Some(later))).outcome,
            CallOutcome::Done,
            "{limit:?}: healed"
        );
    }
}

#[test]
fn keys_of_another_type_are_overwritten() {
    let mut bench = Bench::new();
    for (index, limit) in limits().into_iter().enumerate() {
        let key = index.to_string();
        if matches!(limit, Limit::Log(_)) {
            let _: () = bench.connection.set(&key, "text").unwrap();
        } else {
            let _: () = bench.connection.rpush(&key, "list").unwrap();
        }
        for (verb, cost, said) in [
            (CallVerb::Peek, 10, CallOutcome::Done),
            (CallVerb::Take, 9, CallOutcome::Done),
            (CallVerb::Take, 2, CallOutcome::Refused),
        ] {
            let call = ScriptCall { verb, ..take(limit, &key, cost, Some(NOW)) };
            assert_eq!(bench.call(&call).outcome, said, "{limit:?}: {verb:?} of {cost}");
        }
    }
    // Invalid entries of a log.
    let log = limits()[3];
    for (key, element) in [("short", b"short".as_slice()), ("long", &[0xff; 24])] {
        let _: () = bench.connection.rpush(key, &[TEXT.as_bytes(), element]).unwrap();
        let answer = bench.call(&take(log, key, 10, Some(NOW)));
        assert_eq!((answer.outcome, answer.poisoned), (CallOutcome::Done, 1), "{key}");
        assert_eq!(bench.call(&take(log, key, 1, Some(NOW))).outcome, CallOutcome::Refused, "{key}");
    }
}

#[test]
fn garbage_under_a_limits_key_counts_as_untouched() {
    let mut bench = Bench::new();
    let long = "x".repeat(300);
    for limit in limits() {
        let is_log = matches!(limit, Limit::Log(_));
        for garbage in ["0123456789abcdefb 1 nonsense", "", "x", &long] {
            let prefix = fresh_prefix();
            let store = bench.store(&prefix);
            let limit = store.limit("a", limit, Carry::AsIs, NOW).unwrap();
            let charge = Charge::new(&limit, b"key", Cost::new(9));
            assert_eq!(bench.charge(&store, Intent::Take, charge, NOW).remaining, 1);
            let key = bench.connection.keys::<_, Vec<String>>(format!("{prefix}:*")).unwrap().remove(0);
            let _: () = bench.connection.del(&key).unwrap();
            if is_log {
                let _: () = bench.connection.rpush(&key, &["l 5 nonsense", garbage]).unwrap();
            } else {
                let _: () = bench.connection.set(&key, garbage).unwrap();
            }
            let remaining = bench.charge(&store, Intent::Take, charge, NOW).remaining;
            assert_eq!(remaining, 1, "{limit:?}: {garbage}");
            assert!(!bench.charge(&store, Intent::Take, charge, NOW).is_allowed(), "{limit:?}: {garbage}");
        }
    }
}

#[test]
fn nothing_stays_for_longer_than_it_counts() {
    let mut bench = Bench::new();
    // By the server's own clock.
    for (index, limit) in limits().into_iter().enumerate() {
        let key = index.to_string();
        let answer = bench.call(&take(limit, &key, 3, None));
        let full_after = match &limit {
            Limit::Meter(meter) => {
                let word = meter.charge(0, Cost::new(3), answer.at).unwrap();
                meter.peek(word, Cost::ZERO, answer.at).reset_after
            }
            Limit::Log(quota) => quota.window(),
        };
        let millis: u64 = bench.connection.pttl(&key).unwrap();
        let most = full_after.as_millis_ceil() + 2;
        assert!(millis <= most && millis + 2_000 > most, "{limit:?}: {millis} of {most}");
        let all = ScriptCall { verb: CallVerb::Refund, ..take(limit, &key, 10, None) };
        bench.call(&all);
        assert!(!bench.connection.exists::<_, bool>(&key).unwrap(), "{limit:?}: full, and still there");
    }
}

/// A full bucket of a key that may get more trust holds less than a new one would: it is kept until it would not.
#[test]
fn what_may_be_trusted_more_stays_until_it_would_be_full_at_any_trust() {
    let mut bench = Bench::new();
    let store = bench.store("t");
    let limit = store.limit("a", Quota::new(10, Nanos::HOUR, 10).unwrap().into(), Carry::AsIs, NOW).unwrap();
    let trusted = store.variant(&limit, LimitVariant::at_trust(100)).unwrap();
    let (hour, slack) = (3_600_000, 3_600_000);
    let mut life = |intent, limit, cost, expected: u64| {
        let _ = bench.charge(&store, intent, Charge::new(limit, b"key", Cost::new(cost)), NOW);
        let keys: Vec<String> = bench.connection.keys("*").unwrap();
        assert_eq!(keys.len(), 1, "{keys:?}");
        let millis: u64 = bench.connection.pttl(&keys[0]).unwrap();
        let most = expected + slack + 3;
        assert!(millis <= most && millis + 10_000 > most, "{millis} of {most}");
    };
    // Half an hour to full, and an hour to twice as much.
    life(Intent::Take, &limit, 5, hour / 2 + hour);
    life(Intent::Refund, &limit, 5, hour);
    // Ten are left of twenty at 15 an hour; of twenty there is nothing beyond.
    life(Intent::Take, &trusted, 1, 11 * hour / 15);
}

#[test]
fn every_key_has_a_time_to_live_and_begins_with_the_prefix() {
    let mut bench = Bench::new();
    let store = bench.store("mine");
    for (index, limit) in limits().into_iter().enumerate() {
        let limit = store.limit(&format!("limit {index}"), limit, Carry::AsIs, NOW).unwrap();
        let trusted = store.variant(&limit, LimitVariant::at_trust(50)).unwrap();
        for key in [b"{x}".as_slice(), b"", b"\xff\0\r\n", b"key"] {
            for (intent, limit, cost) in [
                (Intent::Take, &limit, 4),
                (Intent::Take, &limit, 50),
                (Intent::Refund, &limit, 1),
                (Intent::Take, &trusted, 2),
                (Intent::HandBack, &trusted, 2),
                (Intent::Peek, &limit, 1),
            ] {
                let _ = bench.charge(&store, intent, Charge::new(limit, key, Cost::new(cost)), NOW);
            }
        }
    }
    let keys: Vec<String> = bench.connection.keys("*").unwrap();
    assert_eq!(keys.len(), 16, "{keys:?}");
    for key in keys {
        assert!(key.starts_with("mine:1:{") && key.is_ascii(), "{key}");
        assert!(bench.connection.pttl::<_, i64>(&key).unwrap() > 0, "{key} stays for ever");
    }
}

#[test]
fn a_server_that_forgot_its_scripts_is_told_again() {
    let mut bench = Bench::new();
    let limit = limits()[0];
    assert_eq!(bench.call(&take(limit, "key", 6, Some(NOW))).outcome, CallOutcome::Done);
    let _: () = redis::cmd("SCRIPT").arg("FLUSH").query(&mut bench.connection).unwrap();
    assert_eq!(
        bench.call(&take(limit, "key", 6, Some(NOW))).outcome,
        CallOutcome::Refused,
        "the state is still there"
    );
    assert_eq!(bench.call(&take(limit, "key", 4, Some(NOW))).outcome, CallOutcome::Done);
}

#[test]
fn nodes_of_two_policies_carry_each_others_states() {
    let bench = Bench::new();
    let bucket = |capacity| Limit::from(Quota::new(1, Nanos::HOUR, capacity).unwrap());
    let (old, new) = (bench.store("shared"), bench.store("shared"));
    let ten = old.limit("a", bucket(10), Carry::AsIs, NOW).unwrap();
    let twenty = new.limit("a", bucket(20), Carry::AsIs, NOW).unwrap();
    let remaining = |store, limit, cost| {
        bench.charge(store, Intent::Take, Charge::new(limit, b"key", Cost::new(cost)), NOW).remaining
    };
    assert_eq!(remaining(&old, &ten, 4), 6);
    assert_eq!(remaining(&new, &twenty, 1), 5, "as many tokens as before");
    assert_eq!(remaining(&old, &ten, 1), 4);
    // Editing away and back is a new edition, which the other node adopts.
    new.limit("a", bucket(10), Carry::AsIs, NOW).unwrap();
    new.limit("a", bucket(20), Carry::AsIs, NOW).unwrap();
    let back = new.limit("a", bucket(10), Carry::AsIs, NOW).unwrap();
    assert_eq!(remaining(&new, &back, 1), 3);
    assert_eq!(remaining(&old, &ten, 1), 2);
    assert_eq!(remaining(&new, &back, 1), 1);
}

#[test]
fn weights_are_compared_to_the_last_unit() {
    let mut bench = Bench::new();
    let (limit, before) = (1_000_000_u64, 999_983_u64);
    let length = Nanos::new(366 * Nanos::DAY.get());
    let micros = length.get() / 1_000;
    let quota = WindowQuota::new(limit as u32, length).unwrap();
    let meter = Meter::SlidingWindow(quota);
    for over in [-2_i128, -1, 1, 2] {
        // before · left = room · length + over: products far beyond what a double holds.
        let weight = |room: u64| i128::from(room) * i128::from(micros) + over;
        let room = (1..before).find(|&room| weight(room) % i128::from(before) == 0);
        let room = room.expect("the numbers have no common divisor");
        let left = (weight(room) / i128::from(before)) as u64;
        let now = Nanos::new(length.get() * 58 + (micros - left) * 1_000);
        let word = quota.word(58, before as u32, (limit - room - 1) as u32);
        let key = over.to_string();
        let _: () = bench.connection.set(&key, kept(&meter, word, now, TEXT)).unwrap();
        let answer = bench.call(&take(Limit::Meter(meter), &key, 1, Some(now)));
        assert_eq!(answer.outcome == CallOutcome::Done, over < 0, "{over} too much");
        assert_eq!(meter.charge(word, Cost::ONE, now).is_some(), over < 0);
    }
}

#[test]
fn nodes_are_counted_while_they_are_heard_of() {
    let mut bench = Bench::new();
    let alive_nodes = |node, alive, within| {
        let heartbeat = heartbeat("t", node, alive, within);
        bench.runtime.block_on(bench.link.heartbeat(&heartbeat)).unwrap()
    };
    let minute = Nanos::MINUTE;
    assert_eq!(alive_nodes(1, true, minute), 1);
    assert_eq!(alive_nodes(2, true, minute), 2);
    assert_eq!(alive_nodes(2, true, minute), 2, "the same once more");
    assert_eq!(alive_nodes(u128::MAX, true, minute), 3);
    assert_eq!(alive_nodes(2, false, minute), 2, "it has left");
    // The subject is the server's clock.
    bench.runtime.block_on(async { tokio::time::sleep(Duration::from_millis(30)).await });
    assert_eq!(alive_nodes(3, true, Nanos::from_millis(10)), 1, "the others are silent");
    let millis: i64 = bench.connection.pttl("t:1:{nodes}").unwrap();
    assert!((0..=11).contains(&millis) || millis == -2, "{millis}");
}
