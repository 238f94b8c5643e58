//! Calls that begin at the same time as others, and must not hold those up or fail with them.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use tidegate_core::Nanos;
use tidegate_redis::{
    BucketKey, BurstCall, BurstCallEntry, CallOutcome, CallVerb, Link, LinkError, ScriptCall,
};

use super::calls::{CAPACITY, bucket, call, connect, left, take};
use super::process::until;
use super::together::{call_together, of, outcomes, told};
use crate::support::{Redis, runtime};

/// A server in cluster mode that has all slots.
pub(crate) async fn with_slots() -> Redis {
    let server = Redis::start_with(&["--cluster-enabled", "yes"]);
    assert_eq!(server.cli(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]), "OK");
    until(Duration::from_secs(10), "it serves its slots", async || {
        server.cli(&["CLUSTER", "INFO"]).contains("cluster_state:ok")
    })
    .await;
    server
}

#[test]
fn keys_in_different_slots_fail_nobody_that_would_be_answered_alone() {
    let runtime = runtime();
    runtime.block_on(async {
        let server = with_slots().await;
        let client = connect(&server.url());
        take(&client, "x").await.expect("it is there");
        let before = server.scripts_run();
        let calls = [of(&["a"]), of(&["b"]), of(&["c"])];
        let answers = call_together(&client, &calls).await;
        assert_eq!(told(&answers)[0], "Done");
        let refused = |answer: &Result<_, LinkError>| {
            matches!(answer, Err(LinkError::SentWith(why)) if why.to_string().contains("CROSSSLOT"))
        };
        assert!(answers[1..].iter().all(refused), "{answers:?}");
        assert_eq!(server.scripts_run(), before + 1, "the first, by itself");

        let answers = call_together(&client, &calls).await;
        assert_eq!(outcomes(&answers), [CallOutcome::Done; 3], "once it is known, all are sent by themselves");
        assert_eq!(server.scripts_run(), before + 4);
        for (tag, taken) in [("a", 2), ("b", 1), ("c", 1)] {
            assert_eq!(left(&client, tag).await, CAPACITY - taken, "{tag}");
        }
    });
}

#[test]
fn a_call_of_several_slots_is_refused_as_it_would_be_alone() {
    let runtime = runtime();
    runtime.block_on(async {
        let server = with_slots().await;
        let client = connect(&server.url());
        take(&client, "x").await.expect("it is there");
        let answers = call_together(&client, &[of(&["a", "b"]), of(&["c"])]).await;
        assert_eq!(told(&answers)[0], "CROSSSLOT");
        let answers = call_together(&client, &[of(&["a", "b"]), of(&["c"])]).await;
        assert_eq!(told(&answers), ["CROSSSLOT", "Done"]);
    });
}

fn of_many(name: &str, keys: usize) -> ScriptCall {
    let entries = (0..keys).map(|key| bucket(&format!("{name}{key}"))).collect();
    ScriptCall { verb: CallVerb::Take, entries, at: None }
}

#[test]
fn a_call_is_not_held_up_by_others_with_many_keys() {
    let (server, runtime) = (Redis::start(), runtime());
    runtime.block_on(async {
        let client = connect(&server.url());
        take(&client, "x").await.expect("it is there");
        // How many keys the calls have, and how many scripts they are.
        let cases: [(&[usize], u64); 5] =
            [(&[1, 32], 1), (&[1, 33], 2), (&[100, 32], 1), (&[1, 30, 3], 2), (&[1, 30, 300, 2], 2)];
        for (case, (keys, scripts)) in cases.into_iter().enumerate() {
            let name = |index: usize| format!("{case}-{index}-");
            let calls: Vec<ScriptCall> =
                keys.iter().enumerate().map(|(index, &keys)| of_many(&name(index), keys)).collect();
            let before = server.scripts_run();
            let answers = call_together(&client, &calls).await;
            assert_eq!(outcomes(&answers), vec![CallOutcome::Done; keys.len()], "{keys:?}");
            assert_eq!(server.scripts_run(), before + scripts, "{keys:?}");
            for (index, keys) in keys.iter().enumerate() {
                let last = format!("{}{}", name(index), keys - 1);
                assert_eq!(left(&client, &last).await, CAPACITY - 1, "{last}");
            }
        }
    });
}

/// Counts one request of a client.
fn burst(tag: &str) -> BurstCall {
    let entry = BurstCallEntry {
        key: BucketKey(format!("tidegate:1:{{{tag}}}:burst").into()),
        window: Nanos::from_secs(60),
        threshold: 100,
        penalty: Nanos::from_secs(60),
        lifts: false,
        counts: [(Nanos::ZERO, 1)].into_iter().collect(),
    };
    BurstCall { entries: [entry].into_iter().collect(), at: None }
}

#[test]
fn bursts_are_counted_after_the_charge_that_began_before_them() {
    let (server, runtime) = (Redis::start_with(&["--slowlog-log-slower-than", "0"]), runtime());
    runtime.block_on(async {
        let client = connect(&server.url());
        // Now the server knows both scripts, and neither is sent again.
        take(&client, "x").await.expect("it is there");
        client.count_bursts(&burst("x")).await.expect("it is counted");

        let (charge, count) = (call(CallVerb::Take, bucket("first")), burst("second"));
        let (mut charging, mut counting) = (pin!(client.call(&charge)), pin!(client.count_bursts(&count)));
        let (mut charged, mut counted) = (Poll::Pending, Poll::Pending);
        poll_fn(|context| {
            client.send_together(&mut || {
                if charged.is_pending() {
                    charged = charging.as_mut().poll(context);
                }
                if counted.is_pending() {
                    counted = counting.as_mut().poll(context);
                }
            });
            if charged.is_ready() && counted.is_ready() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        assert!(matches!((charged, counted), (Poll::Ready(Ok(_)), Poll::Ready(Ok(_)))));

        // The newest is first.
        let log = server.cli(&["SLOWLOG", "GET", "10"]);
        let place = |tag: &str| log.find(&format!("{{{tag}}}")).expect("it was run");
        assert!(place("second") < place("first"), "{log}");
    });
}
