//! Calls to make.

use std::time::Duration;

use smallvec::smallvec;
use tidegate_core::{Cost, Limit, Nanos, Quota};
use tidegate_redis::{
    Answer, BucketKey, Call, Entry, Found, Link, LinkError, Server, ServerOptions, State, Verb,
};

/// What the buckets of these calls hold.
pub(crate) const CAPACITY: u32 = 1_000;

/// A link that waits long enough for a busy machine.
pub(crate) fn connect(url: &str) -> Server {
    connect_within(url, Duration::from_millis(250))
}

pub(crate) fn connect_within(url: &str, deadline: Duration) -> Server {
    Server::connect(ServerOptions { deadline: deadline.into(), ..ServerOptions::new(url) })
        .expect("a good address")
}

/// A bucket of 1,000 that does not fill while a test runs.
pub(crate) fn bucket(tag: &str) -> Entry {
    let quota = Quota::new(CAPACITY.into(), Nanos::from_secs(1_000_000), CAPACITY).expect("a quota");
    entry(&format!("tidegate:1:{{{tag}}}:b"), Limit::token_bucket(quota))
}

pub(crate) fn entry(key: &str, limit: Limit) -> Entry {
    Entry {
        key: BucketKey(key.into()),
        limit,
        text: "for-tests".into(),
        cost: Cost::ONE,
        binding: true,
        delay: Nanos::ZERO,
        want: 0,
        spare: Nanos::ZERO,
        charged_at: Nanos::ZERO,
        brought: None,
    }
}

pub(crate) fn call(verb: Verb, entry: Entry) -> Call {
    Call { verb, entries: smallvec![entry], at: None }
}

/// Takes one.
pub(crate) async fn take(server: &Server, tag: &str) -> Result<Answer, LinkError> {
    server.call(&call(Verb::Take, bucket(tag))).await
}

/// How many are left.
pub(crate) async fn left(server: &Server, tag: &str) -> u32 {
    let entry = bucket(tag);
    let Limit::Meter(meter) = entry.limit else { panic!("a bucket has a meter") };
    let answer = server.call(&call(Verb::Peek, entry)).await.expect("the server answers");
    let Found::Here(State::Word(state)) = answer.found[0] else { panic!("a bucket has a word: {answer:?}") };
    meter.peek(state, Cost::ZERO, answer.at).remaining
}
