//! Calls that begin at the same time and are sent as one.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use redis::Commands;
use rustix::process::Signal;
use tidegate_core::Cost;
use tidegate_redis::{
    CallAnswer, CallOutcome, CallVerb, FoundState, Link, LinkError, RedisClient, ScriptCall,
};

use super::calls::{CAPACITY, bucket, call, connect, connect_within, left, take};
use super::process::{free_port, signal, until};
use crate::support::{Redis, runtime};

type Answer = Result<CallAnswer, LinkError>;
type Calling<'c> = Pin<Box<dyn Future<Output = Answer> + Send + 'c>>;

/// Calls that begin at the same time. They have to be polled until they are answered.
struct Together<'c> {
    callings: Vec<Calling<'c>>,
    answers: Vec<Option<Answer>>,
}

impl<'c> Together<'c> {
    fn new(client: &'c RedisClient, calls: &'c [ScriptCall]) -> Together<'c> {
        let callings = calls.iter().map(|call| Box::pin(client.call(call)) as Calling<'c>).collect();
        Together { callings, answers: calls.iter().map(|_| None).collect() }
    }

    async fn begin(client: &'c RedisClient, calls: &'c [ScriptCall]) -> Together<'c> {
        let mut all = Together::new(client, calls);
        poll_fn(|context| {
            client.send_together(&mut || all.poll(context));
            Poll::Ready(())
        })
        .await;
        all
    }

    fn poll(&mut self, context: &mut Context<'_>) {
        for (calling, answer) in self.callings.iter_mut().zip(&mut self.answers) {
            if answer.is_none()
                && let Poll::Ready(ready) = calling.as_mut().poll(context)
            {
                *answer = Some(ready);
            }
        }
    }

    async fn answers(mut self) -> Vec<Answer> {
        poll_fn(|context| {
            self.poll(context);
            if self.answers.iter().all(Option::is_some) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        self.answers.into_iter().flatten().collect()
    }
}

/// The answers to calls that begin at the same time.
pub(crate) async fn call_together(client: &RedisClient, calls: &[ScriptCall]) -> Vec<Answer> {
    Together::begin(client, calls).await.answers().await
}

pub(crate) fn of(tags: &[&str]) -> ScriptCall {
    let entries = tags.iter().map(|tag| bucket(tag)).collect();
    ScriptCall { verb: CallVerb::Take, entries, at: None }
}

pub(crate) fn outcomes(answers: &[Answer]) -> Vec<CallOutcome> {
    answers.iter().map(|answer| answer.as_ref().expect("the server answers").outcome).collect()
}

#[test]
fn calls_of_different_buckets_are_one_and_each_is_all_or_nothing() {
    let (server, runtime) = (Redis::start(), runtime());
    runtime.block_on(async {
        let client = connect(&server.url());
        let mut too_much = of(&["a", "b"]);
        too_much.entries[1].cost = Cost::new(CAPACITY);
        call_together(&client, &[of(&["b"])]).await;
        let before = server.scripts_run();
        let answers = call_together(&client, &[too_much, of(&["c", "d"]), of(&["e"])]).await;
        assert_eq!(outcomes(&answers), [CallOutcome::Refused, CallOutcome::Done, CallOutcome::Done]);
        assert_eq!(server.scripts_run(), before + 1);
        let at = |index: usize| answers[index].as_ref().expect("the server answers").at;
        assert!(at(0) == at(1) && at(1) == at(2), "they happened at one instant");
        for (tag, taken) in [("a", 0), ("b", 1), ("c", 1), ("d", 1), ("e", 1)] {
            assert_eq!(left(&client, tag).await, CAPACITY - taken, "{tag}");
        }
    });
}

#[test]
fn calls_that_cannot_be_one_are_sent_apart_and_all_are_charged() {
    let (server, runtime) = (Redis::start(), runtime());
    runtime.block_on(async {
        let client = connect(&server.url());
        let before = server.scripts_run();
        let mut twice = of(&["a"]);
        twice.entries.push(bucket("a"));
        // The first two share a bucket; the third has one twice, and the last takes nothing.
        let calls = [of(&["a", "b"]), of(&["b"]), twice, call(CallVerb::Peek, bucket("a"))];
        let answers = call_together(&client, &calls).await;
        assert_eq!(outcomes(&answers), [CallOutcome::Done; 4]);
        assert_eq!(server.scripts_run(), before + 4);
        assert_eq!((left(&client, "a").await, left(&client, "b").await), (CAPACITY - 3, CAPACITY - 2));
    });
}

#[test]
fn a_state_in_other_numbers_holds_up_only_its_own_call() {
    let (server, runtime) = (Redis::start(), runtime());
    runtime.block_on(async {
        let client = connect(&server.url());
        let mut edited = of(&["a"]);
        edited.entries[0].text = "other numbers".into();
        call_together(&client, &[edited]).await;
        let answers = call_together(&client, &[of(&["a"]), of(&["b"])]).await;
        assert_eq!(outcomes(&answers), [CallOutcome::Migrate, CallOutcome::Done]);
        let found = &answers[0].as_ref().expect("the server answers").found[0];
        assert!(
            matches!(found, FoundState::Other(stored) if stored.ends_with(b"other numbers")),
            "{found:?}"
        );
        assert_eq!(left(&client, "b").await, CAPACITY - 1);
        let value: Vec<u8> = server.connection().get("tidegate:1:{b}:b").expect("it is there");
        assert!(value.ends_with(b"for-tests"));
    });
}

// On one thread, so that no reply arrives before the call is cancelled.
#[tokio::test]
async fn whoever_is_sent_by_a_call_that_is_cancelled_is_told() {
    let server = Redis::start();
    let client = connect(&server.url());
    call_together(&client, &[of(&["x"])]).await;
    let calls = [of(&["a"]), of(&["b"])];
    let mut begun = Together::begin(&client, &calls).await;
    drop((begun.callings.remove(0), begun.answers.remove(0)));
    let answers = begun.answers().await;
    assert!(matches!(&answers[..], [Err(LinkError::Cancelled)]), "{answers:?}");
    // Whether they were sent before that is open, but all of them were, or none.
    assert_eq!(left(&client, "a").await, left(&client, "b").await);
}

#[test]
fn a_server_that_does_not_answer_fails_all_of_them() {
    let runtime = runtime();
    runtime.block_on(async {
        let nobody = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = nobody.local_addr().expect("it is bound");
        drop(nobody);
        let client = connect(&format!("redis://{address}"));
        let answers = call_together(&client, &[of(&["a"]), of(&["b"])]).await;
        assert!(answers.len() == 2 && answers.iter().all(Result::is_err), "{answers:?}");
    });
}

/// Empties a bucket, so that the server denies without writing.
async fn empty(client: &RedisClient, tag: &str) {
    let mut all = of(&[tag]);
    all.entries[0].cost = Cost::new(CAPACITY);
    assert_eq!(outcomes(&call_together(client, &[all]).await), [CallOutcome::Done]);
}

/// What became of each call: its outcome, or the first word of the server's refusal.
pub(crate) fn told(answers: &[Answer]) -> Vec<String> {
    let word = |answer: &Answer| match answer {
        Ok(answer) => format!("{:?}", answer.outcome),
        Err(LinkError::Refused(why)) => why.split(' ').next().unwrap_or_default().to_owned(),
        Err(other) => other.to_string(),
    };
    answers.iter().map(word).collect()
}

#[test]
fn a_server_that_refuses_to_write_still_denies() {
    let (server, runtime) = (Redis::start_with(&["--maxmemory-policy", "noeviction"]), runtime());
    runtime.block_on(async {
        let client = connect(&server.url());
        empty(&client, "used").await;
        // A state too far in the future, which is replaced even if the call is denied.
        let far = [1e12_f64.to_le_bytes().as_slice(), &0_f64.to_le_bytes(), b"for-tests"].concat();
        let () = server.connection().set("tidegate:1:{far}:b", &far).expect("there is room");
        server.cli(&["SETRANGE", "filler", "3000000", "x"]);
        server.cli(&["CONFIG", "SET", "maxmemory", "1mb"]);

        let answers = call_together(&client, &[of(&["used"]), of(&["a"])]).await;
        assert_eq!(told(&answers), ["Refused", "OOM"]);
        let answers = call_together(&client, &[of(&["a", "b"]), of(&["used"]), of(&["c"])]).await;
        assert_eq!(told(&answers), ["OOM", "Refused", "OOM"]);
        let answers = call_together(&client, &[of(&["far", "a"]), of(&["used", "b"])]).await;
        assert_eq!(told(&answers), ["OOM", "Refused"]);
        assert_eq!(told(&call_together(&client, &[of(&["far"])]).await), ["OOM"], "alone, as ever");

        let kept: Vec<u8> = server.connection().get("tidegate:1:{far}:b").expect("it is there");
        assert_eq!(kept, far, "nothing was written");
        server.cli(&["CONFIG", "SET", "maxmemory", "0"]);
        let answers = call_together(&client, &[of(&["used"]), of(&["a"])]).await;
        assert_eq!(told(&answers), ["Refused", "Done"]);
        for (tag, taken) in [("a", 1), ("b", 0), ("c", 0)] {
            assert_eq!(left(&client, tag).await, CAPACITY - taken, "{tag}");
        }
    });
}

#[test]
fn a_replica_that_only_one_of_them_would_write_to_is_left() {
    let (server, runtime) = (Redis::start(), runtime());
    runtime.block_on(async {
        let client = connect(&server.url());
        empty(&client, "used").await;
        server.cli(&["REPLICAOF", "127.0.0.1", &free_port().to_string()]);
        let answers = call_together(&client, &[of(&["used"]), of(&["a"])]).await;
        assert_eq!(told(&answers), ["Refused", "READONLY"]);
        // Each time the client waits longer before it connects again, so that this is seen sooner or later. The denial
        // alone writes nothing, and would not lead away from a replica.
        until(Duration::from_secs(20), "the master is looked for", async || {
            call_together(&client, &[of(&["used"]), of(&["a"])]).await;
            tokio::time::sleep(Duration::from_millis(5)).await;
            matches!(take(&client, "used").await, Err(LinkError::Down(why)) if why.contains("not the master"))
        })
        .await;
    });
}

#[test]
fn a_server_that_is_stopped_keeps_none_of_them_waiting() {
    let (server, runtime) = (Redis::start(), runtime());
    runtime.block_on(async {
        let client = connect_within(&server.url(), Duration::from_millis(250));
        until(Duration::from_secs(10), "it is there", async || take(&client, "x").await.is_ok()).await;
        signal(&server, Signal::STOP);
        let answers = call_together(&client, &[of(&["a"]), of(&["b"])]).await;
        signal(&server, Signal::CONT);
        let late = |error: &LinkError| matches!(error, LinkError::Timeout(_));
        let [Err(first), Err(LinkError::SentWith(other))] = &answers[..] else {
            panic!("it is one failure, and the first call reports it: {answers:?}")
        };
        assert!(late(first) && late(other), "{answers:?}");
    });
}

/// Counts how often it is woken.
#[derive(Default)]
struct WakeCount(AtomicU32);

impl WakeCount {
    fn get(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Wake for WakeCount {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

// On one thread, so that no reply arrives while the wakes are counted.
#[tokio::test]
async fn a_call_that_is_polled_only_when_it_begins_is_woken_to_be_sent() {
    let server = Redis::start();
    let client = connect(&server.url());
    take(&client, "x").await.expect("it is there");
    let calls = [of(&["a"]), of(&["b"]), call(CallVerb::Peek, bucket("c"))];
    for polled_twice in [true, false] {
        let mut all: Vec<Calling<'_>> =
            calls.iter().map(|call| Box::pin(client.call(call)) as Calling<'_>).collect();
        let wakes: [Arc<WakeCount>; 3] = Default::default();
        let mut is_begun = false;
        client.send_together(&mut || {
            for (calling, wakes) in all.iter_mut().zip(&wakes) {
                if polled_twice || !is_begun {
                    let waker = Waker::from(Arc::clone(wakes));
                    assert!(calling.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
                }
            }
            is_begun = true;
        });
        let expected = if polled_twice { [0, 0, 0] } else { [1, 0, 1] };
        assert_eq!(wakes.each_ref().map(|wakes| wakes.get()), expected, "{polled_twice}");
        for calling in all {
            calling.await.expect("it is sent");
        }
    }
    assert_eq!((left(&client, "a").await, left(&client, "b").await), (CAPACITY - 2, CAPACITY - 2));
}

#[test]
fn whoever_would_be_sent_by_a_call_that_is_dropped_first_is_told() {
    let (server, runtime) = (Redis::start(), runtime());
    runtime.block_on(async {
        let client = connect(&server.url());
        take(&client, "x").await.expect("it is there");
        let before = server.scripts_run();
        let calls = [of(&["a"]), of(&["b"]), call(CallVerb::Peek, bucket("c"))];
        let mut all = Together::new(&client, &calls);
        let mut is_begun = false;
        poll_fn(|context| {
            client.send_together(&mut || {
                if std::mem::replace(&mut is_begun, true) {
                    drop((all.callings.remove(0), all.answers.remove(0)));
                }
                all.poll(context);
            });
            Poll::Ready(())
        })
        .await;
        let answers = all.answers().await;
        assert!(matches!(&answers[..], [Err(LinkError::Cancelled), Ok(_)]), "{answers:?}");
        assert_eq!(server.scripts_run(), before + 1, "only the last was sent");
    });
}

#[test]
fn calls_that_began_before_a_panic_are_sent_when_they_are_polled_again() {
    let (server, runtime) = (Redis::start(), runtime());
    runtime.block_on(async {
        let client = connect(&server.url());
        take(&client, "x").await.expect("it is there");
        let before = server.scripts_run();
        let calls = [of(&["a"]), of(&["b"])];
        let mut all = Together::new(&client, &calls);
        let wakes = Arc::new(WakeCount::default());
        let waker = Waker::from(Arc::clone(&wakes));
        let panics = || {
            client.send_together(&mut || {
                all.poll(&mut Context::from_waker(&waker));
                panic!("on purpose");
            });
        };
        assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
        assert_eq!(wakes.get(), 1, "the one that sends both");
        assert_eq!(outcomes(&all.answers().await), [CallOutcome::Done; 2]);
        assert_eq!(server.scripts_run(), before + 1);
        // Nothing is gathered any more.
        take(&client, "a").await.expect("it is sent at once");
    });
}

#[test]
fn calls_that_begin_within_others_are_gathered_apart() {
    let (server, runtime) = (Redis::start(), runtime());
    runtime.block_on(async {
        let client = connect(&server.url());
        take(&client, "x").await.expect("it is there");
        let before = server.scripts_run();
        let calls = [["a", "b"], ["c", "d"], ["e", "f"]].map(|tags| tags.map(|tag| of(&[tag])));
        let [mut earlier, mut within, mut later] =
            calls.each_ref().map(|calls| Together::new(&client, calls));
        poll_fn(|context| {
            client.send_together(&mut || {
                earlier.poll(context);
                client.send_together(&mut || within.poll(context));
                later.poll(context);
            });
            Poll::Ready(())
        })
        .await;
        for all in [earlier, within, later] {
            assert_eq!(outcomes(&all.answers().await), [CallOutcome::Done; 2]);
        }
        assert_eq!(server.scripts_run(), before + 2);
        for tag in ["a", "b", "c", "d", "e", "f"] {
            assert_eq!(left(&client, tag).await, CAPACITY - 1, "{tag}");
        }
    });
}
