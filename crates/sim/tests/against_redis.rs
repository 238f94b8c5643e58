//! The model against a real server: their answers are equal, call by call.

#[path = "../../redis/tests/support/mod.rs"]
mod support;

use std::sync::Arc;

use smallvec::SmallVec;
use support::{PlainLink, Redis, runtime};
use tidegate::BurstAction;
use tidegate_core::{Cost, Limit, LogQuota, Meter, Nanos, Quota, WindowQuota};
use tidegate_redis::{
    BucketEntry, BucketKey, BurstCall, BurstCallEntry, CallAnswer, CallOutcome, CallVerb, FoundState, Link,
    LogState, PenaltyListAnswer, PenaltyListCall, PenaltyListEntry, PenaltyListOperation, ScriptCall, State,
};
use tidegate_sim::{Model, Random, START};

const CALLS: usize = 6_000;

/// A bucket with the numbers it has under two texts.
struct Bucket {
    key: BucketKey,
    numbers: [(Limit, Arc<str>); 2],
    /// May its keys be trusted? Then its state is kept for longer than until it is full.
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
        // The stored log depends on when old entries were removed, so this one keeps its numbers: it is never migrated.
        bucket(5, [10, 10].map(log)),
    ]
}

/// A random call: mostly takes, of one to four buckets, which may repeat.
fn call(random: &mut Random, buckets: &[Bucket], at: Nanos) -> ScriptCall {
    let verb = match random.between(0, 9) {
        0..=5 => CallVerb::Take,
        6 => CallVerb::Peek,
        7 => CallVerb::Refund,
        _ => CallVerb::HandBack,
    };
    let mut entries: Vec<BucketEntry> =
        (0..random.between(1, 4)).map(|_| entry(random, buckets, verb, at)).collect();
    // The model and the server summarise a log that appears twice differently, and no decision depends on it.
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
    // The numbers change rarely, so that each edit causes one migration.
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
        migrated: None,
    }
}

/// Migrates what was found under another text, in some way that is the same for both.
fn migrate(call: &mut ScriptCall, answer: &CallAnswer, at: Nanos) {
    for (entry, found) in call.entries.iter_mut().zip(&answer.found) {
        if let FoundState::Other(raw) = found {
            let state = match &entry.limit {
                Limit::Meter(meter) => {
                    let used = Cost::new(entry.limit.capacity() / 2);
                    State::Word(meter.charge(0, used, at).expect("an untouched limit holds half of it"))
                }
                Limit::Log(_) => State::Log(LogState::default()),
            };
            entry.migrated = Some(Box::new((raw.clone(), state)));
        }
    }
}

/// Without the parts that no caller reads: states beside one that must be migrated are answered again.
fn comparable(answer: &CallAnswer) -> CallAnswer {
    let mut answer = answer.clone();
    if answer.outcome == CallOutcome::Migrate {
        let here = answer.found.iter_mut().filter(|found| matches!(found, FoundState::Here(_)));
        here.for_each(|found| *found = FoundState::Here(State::Word(0)));
    }
    answer
}

#[test]
fn they_answer_alike() {
    let (server, runtime) = (Redis::start(), runtime());
    let link = runtime.block_on(PlainLink::connect(&server));
    let (mut model, mut random, buckets) = (Model::default(), Random::new(42), buckets());
    let mut at = START;
    let mut outcomes = SmallVec::<[usize; 3]>::from_elem(0, 3);
    for number in 0..CALLS {
        // Half an hour in all, in steps of microseconds, and sometimes a step back.
        at = at.saturating_add(Nanos::new(random.wait_about(300_000)));
        let back = if random.chance(20) { Nanos::from_millis(random.between(1, 3_000)) } else { Nanos::ZERO };
        let mut to_model = call(&mut random, &buckets, at.saturating_sub(back));
        let mut to_server = to_model.clone();
        for round in 0.. {
            let real = runtime.block_on(link.call(&to_server)).expect("the server answers");
            let from_model = model.call(&to_model, START).expect("the model has memory");
            assert_eq!(
                comparable(&from_model),
                comparable(&real),
                "the model, and the server, to call {number}.{round}: {to_server:#?}"
            );
            outcomes[from_model.outcome as usize] += 1;
            if from_model.outcome != CallOutcome::Migrate {
                break;
            }
            assert!(round < 2, "a migrated state is accepted");
            migrate(&mut to_model, &from_model, at);
            migrate(&mut to_server, &real, at);
        }
    }
    assert!(outcomes.iter().all(|&times| times > 100), "done, refused, migrate: {outcomes:?}");
}

/// Counts of up to three detectors, some of them late; now and then an edit or a lift.
fn burst_call(random: &mut Random, at: Nanos) -> BurstCall {
    let entry = |random: &mut Random| {
        let ages = (0..random.between(0, 2)).map(|_| (random.between(0, 900), random.between(1, 3)));
        let mut counts: Vec<(u64, u64)> = ages.collect();
        counts.sort_by_key(|&(age, _)| std::cmp::Reverse(age));
        BurstCallEntry {
            key: BucketKey(format!("model:1:{{tag}}:d{}", random.between(0, 2)).into()),
            window: Nanos::from_millis(if at.get() / Nanos::MINUTE.get() % 2 == 1 { 300 } else { 400 }),
            threshold: if random.chance(50) { 3 } else { 5 },
            penalty: Nanos::from_millis(1_500),
            lifts: random.chance(20),
            counts: counts.iter().map(|&(age, n)| (Nanos::from_millis(age), n as u32)).collect(),
        }
    };
    BurstCall { entries: (0..random.between(1, 3)).map(|_| entry(random)).collect(), at: Some(at) }
}

#[test]
fn bursts_are_counted_as_by_the_model() {
    let (server, runtime) = (Redis::start(), runtime());
    let link = runtime.block_on(PlainLink::connect(&server));
    let (mut model, mut random, mut at) = (Model::default(), Random::new(7), START);
    let (mut warned, mut blocked, mut both) = (0, 0, 0);
    for nth in 0..CALLS {
        at = at.saturating_add(Nanos::from_millis(random.between(0, 250)));
        let call = burst_call(&mut random, at);
        let by_server = runtime.block_on(link.count_bursts(&call)).expect("the server answers");
        let by_model = model.count_bursts(&call, at).expect("there is memory");
        assert_eq!(by_server, by_model, "call {nth}: {call:?}");
        let did = |action| by_model.iter().filter(|answer| answer.action == Some(action)).count();
        warned += did(BurstAction::Warned);
        blocked += did(BurstAction::Blocked);
        both += by_model.iter().filter(|answer| answer.warned_before).count();
    }
    assert!(
        warned > 100 && blocked > 100 && both > 5,
        "{warned} warnings, {blocked} blocks, {both} of them after a warning by the same call"
    );
}

#[test]
fn penalties_are_listed_as_by_the_model() {
    let (server, runtime) = (Redis::start(), runtime());
    let link = runtime.block_on(PlainLink::connect(&server));
    let (mut model, mut random, mut at) = (Model::default(), Random::new(11), START);
    let (mut without_room, mut listed) = (0, 0);
    for nth in 0..CALLS / 2 {
        at = at.saturating_add(Nanos::from_millis(random.between(0, 250)));
        // Neighbours in the order of ids, and ids of all lengths.
        let id = |random: &mut Random| 3_u128 << (random.between(0, 11) * 11);
        let entry = |random: &mut Random| PenaltyListEntry {
            id: id(random),
            lasts: Nanos::from_millis(random.between(0, 4_000)),
            text: vec![0, random.between(0, 255) as u8],
        };
        let operation = match random.between(0, 9) {
            0..=5 => {
                let entries = (0..random.between(1, 3)).map(|_| entry(&mut random)).collect();
                PenaltyListOperation::Add { most: 8, entries }
            }
            6 => PenaltyListOperation::Remove(id(&mut random)),
            _ => {
                let after = random.chance(700).then(|| id(&mut random));
                PenaltyListOperation::Page { after, most: random.between(1, 9) as usize }
            }
        };
        let key = BucketKey("model:1:{penalties}".into());
        let call = PenaltyListCall { key, operation, at: Some(at) };
        let by_server = runtime.block_on(link.list_penalties(&call)).expect("the server answers");
        let by_model = model.list_penalties(&call, at).expect("there is memory");
        assert_eq!(by_server, by_model, "call {nth}: {call:?}");
        match by_model {
            PenaltyListAnswer::Changed(number) => without_room += number,
            PenaltyListAnswer::Page(page) => listed += page.len(),
        }
    }
    assert!(without_room > 50 && listed > 500, "{without_room} without room, {listed} listed");
}
