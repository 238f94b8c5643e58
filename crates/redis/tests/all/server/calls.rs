//! Calls for the tests of the client.

use std::time::Duration;

use tidegate_core::{Cost, Limit, Nanos, Quota};
use tidegate_redis::{
    BucketEntry, BucketKey, CallAnswer, CallVerb, FoundState, Heartbeat, Link, LinkError, RedisClient,
    RedisClientOptions, ScriptCall, State,
};

/// The capacity of the buckets of these calls.
pub(crate) const CAPACITY: u32 = 1_000;

/// A heartbeat of a node of the default store, which counts for `seconds` seconds.
pub(crate) fn heartbeat(node: u128, alive: bool, seconds: u64) -> Heartbeat {
    crate::support::heartbeat("tidegate", node, alive, Nanos::from_secs(seconds))
}

/// A client whose calls miss no deadline, however busy the machine is; those to a server that is gone fail all the same.
pub(crate) fn connect(url: &str) -> RedisClient {
    connect_within(url, Duration::from_secs(5))
}

pub(crate) fn connect_within(url: &str, deadline: Duration) -> RedisClient {
    RedisClient::connect(RedisClientOptions { deadline, ..RedisClientOptions::new(url) })
        .expect("a good address")
}

/// A bucket of 1,000 that does not fill while a test runs.
pub(crate) fn bucket(tag: &str) -> BucketEntry {
    let quota = Quota::new(CAPACITY.into(), Nanos::from_secs(1_000_000), CAPACITY).expect("a quota");
    entry(&format!("tidegate:1:{{{tag}}}:b"), Limit::token_bucket(quota))
}

pub(crate) fn entry(key: &str, limit: Limit) -> BucketEntry {
    BucketEntry {
        key: BucketKey(key.into()),
        limit,
        text: "for-tests".into(),
        cost: Cost::ONE,
        binding: true,
        delay: Nanos::ZERO,
        want: 0,
        spare: Nanos::ZERO,
        charged_at: Nanos::ZERO,
        migrated: None,
    }
}

pub(crate) fn call(verb: CallVerb, entry: BucketEntry) -> ScriptCall {
    ScriptCall { verb, entries: vec![entry], at: None }
}

/// Takes one.
pub(crate) async fn take(server: &RedisClient, tag: &str) -> Result<CallAnswer, LinkError> {
    server.call(&call(CallVerb::Take, bucket(tag))).await
}

/// How many are left.
pub(crate) async fn left(server: &RedisClient, tag: &str) -> u32 {
    let entry = bucket(tag);
    let Limit::Meter(meter) = entry.limit else { panic!("a bucket has a meter") };
    let answer = server.call(&call(CallVerb::Peek, entry)).await.expect("the server answers");
    let FoundState::Here(State::Word(state)) = answer.found[0] else {
        panic!("a bucket has a word: {answer:?}")
    };
    meter.peek(state, Cost::ZERO, answer.at).remaining
}
