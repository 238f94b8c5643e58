//! The model and the real server, asked the same: their answers are equal, call by call.

#[path = "../../redis/tests/support/mod.rs"]
mod support;

use std::sync::Arc;

use smallvec::SmallVec;
use support::{PlainLink, Redis, runtime};
use tidegate_core::{Cost, Limit, LogQuota, Meter, Nanos, Quota, WindowQuota};
use tidegate_redis::{
    BucketEntry, BucketKey, CallAnswer, CallOutcome, CallVerb, FoundState, Link, LogState, ScriptCall, State,
};
use tidegate_sim::{Model, Random, START};

const CALLS: usize = 6_000;

/// A bucket with the numbers it has under two texts.
struct Bucket {
    key: BucketKey,
    numbers: [(Limit, Arc<str>); 2],
    /// May its keys be trusted? Then it is kept for longer than until it is full.
    is_trusted: bool,
}

fn bucket(index: usize, limits: [Limit; 2]) -> Bucket {
    let numbers = limits.map(|limit| (limit, Arc::from(limit.to_string())));
    let key = BucketKey(format!("model:1:{{tag}}:{index}").into());
    Bucket { key, numbers, is_trusted: index.is_multiple_of(2) }
}

fn buckets() -> Vec<Bucket> {
    let quota = |rate, window, capacity| Limit::from(Quota::new(rate, window, capacity).expect("in range"));
    let windows = |limit| WindowQuota::new(limit, Nanos::SECOND).expect("in range");
    let log = |limit| Limit::from(LogQuota::new(limit, Nanos::SECOND).expect("in range"));
    vec![
        bucket(0, [quota(10, Nanos::SECOND, 20), quota(100, Nanos::MINUTE, 7)]),
        bucket(1, [quota(3, Nanos::SECOND, 5), quota(999_983, Nanos::SECOND, 1_000)]),
        bucket(2, [quota(11, Nanos::DAY, 9), quota(1_000_000_000, Nanos::SECOND, 4_000_000_000)]),
        bucket(3, [10, 25].map(|limit| Limit::sliding_window(windows(limit)))),
        bucket(4, [10, 25].map(|limit| Limit::fixed_window(windows(limit)))),
        // How a log looks under another text depends on when it was tidied up, so this one keeps its numbers.
        bucket(5, [10, 10].map(log)),
    ]
}

/// A call by chance: mostly takes, of one to four of the buckets, which may be the same one twice.
fn call(random: &mut Random, buckets: &[Bucket], at: Nanos) -> ScriptCall {
    let verb = match random.between(0, 9) {
        0..=5 => CallVerb::Take,
        6 => CallVerb::Peek,
        7 => CallVerb::Refund,
        _ => CallVerb::HandBack,
    };
    let mut entries: SmallVec<[BucketEntry; 8]> =
        (0..random.between(1, 4)).map(|_| entry(random, buckets, verb, at)).collect();
    // What a log that is named twice says to the second is told apart by nobody: once is enough.
    let is_log = |entry: &BucketEntry| matches!(entry.limit, Limit::Log(_));
    let first = entries.iter().position(is_log);
    let mut index = 0;
    entries.retain(|entry| {
        index += 1;
        !is_log(entry) || Some(index - 1) == first
    });
    ScriptCall { verb, entries, at: Some(at) }
}

fn entry(random: &mut Random, buckets: &[Bucket], verb: CallVerb, at: Nanos) -> BucketEntry {
    let bucket = random.pick(buckets);
    // The numbers change seldom: an edit is brought up once.
    let (limit, text) = &bucket.numbers[usize::from(at.get() / Nanos::MINUTE.get() % 2 == 1)];
    let is_bucket = matches!(limit, Limit::Meter(Meter::TokenBucket(_)));
    let most = u64::from(limit.capacity()) + 1;
    let cost = if random.chance(200) { random.between(0, most) } else { random.between(0, 3) };
    let ago = if random.chance(500) { 0 } else { random.between(0, 900) };
    let delay = if matches!(verb, CallVerb::Take | CallVerb::Peek) && random.chance(100) {
        random.between(1, 400)
    } else {
        0
    };
    BucketEntry {
        key: bucket.key.clone(),
        limit: *limit,
        text: Arc::clone(text),
        cost: Cost::new(cost as u32),
        binding: random.chance(800),
        delay: Nanos::from_millis(delay),
        want: if is_bucket && delay == 0 && random.chance(300) { random.between(1, most) as u32 } else { 0 },
        spare: if is_bucket && bucket.is_trusted { Nanos::from_secs(30) } else { Nanos::ZERO },
        charged_at: at.saturating_sub(Nanos::from_millis(ago)),
        brought: None,
    }
}

/// Carries what was found under another text over, somehow: the same for both.
fn bring_up(call: &mut ScriptCall, answer: &CallAnswer, at: Nanos) {
    for (entry, found) in call.entries.iter_mut().zip(&answer.found) {
        if let FoundState::Other(raw) = found {
            let state = match &entry.limit {
                Limit::Meter(meter) => {
                    let used = Cost::new(entry.limit.capacity() / 2);
                    State::Word(meter.charge(0, used, at).expect("an untouched limit holds half of it"))
                }
                Limit::Log(_) => State::Log(LogState::default()),
            };
            entry.brought = Some((raw.clone(), state));
        }
    }
}

/// Without what nobody looks at: what is said beside something to be brought up is said again.
fn comparable(answer: &CallAnswer) -> CallAnswer {
    let mut answer = answer.clone();
    if answer.said == CallOutcome::BringUp {
        let here = answer.found.iter_mut().filter(|found| matches!(found, FoundState::Here(_)));
        here.for_each(|found| *found = FoundState::Here(State::Word(0)));
    }
    answer
}

#[test]
fn they_answer_alike() {
    let (server, runtime) = (Redis::start(), runtime());
    let link = runtime.block_on(PlainLink::connect(&server, "model"));
    let (mut model, mut random, buckets) = (Model::default(), Random::new(42), buckets());
    let mut at = START;
    let mut said = SmallVec::<[usize; 3]>::from_elem(0, 3);
    for number in 0..CALLS {
        // Half an hour in all, in steps of microseconds, and now and then a step back.
        at = at.saturating_add(Nanos::new(random.wait_about(300_000)));
        let back = if random.chance(20) { Nanos::from_millis(random.between(1, 3_000)) } else { Nanos::ZERO };
        let mut to_model = call(&mut random, &buckets, at.saturating_sub(back));
        let mut to_server = to_model.clone();
        for round in 0.. {
            let real = runtime.block_on(link.call(&to_server)).expect("the server answers");
            let told = model.call(&to_model, START).expect("the model has memory");
            assert_eq!(
                comparable(&told),
                comparable(&real),
                "the model, and the server, to call {number}.{round}: {to_server:#?}"
            );
            said[told.said as usize] += 1;
            if told.said != CallOutcome::BringUp {
                break;
            }
            assert!(round < 2, "what was brought up is taken");
            bring_up(&mut to_model, &told, at);
            bring_up(&mut to_server, &real, at);
        }
    }
    assert!(said.iter().all(|&times| times > 100), "done, refused, brought up: {said:?}");
}
