//! Golden vectors: the scripts on a real server do exactly what core does, to the last tick.

use std::collections::HashMap;

use crate::server::calls::connect;
use crate::server::together::call_together;
use crate::support::vectors;
use crate::support::{PlainLink, Redis, runtime};
use redis::Commands;
use tidegate::testing::Random;
use tidegate::{Cost, Limit, LimitDecision, Meter, Nanos, Outcome};
use tidegate_core::sliding_log::{Log, LogGrowth};
use tidegate_redis::testing::{kept, kept_log, log_kept, state_kept};
use tidegate_redis::{
    BucketEntry, BucketKey, CallAnswer, CallOutcome, CallVerb, FoundState, Link, ScriptCall, State,
};

/// How much longer keys are kept if the time is given.
const SLACK: u64 = 3_600_000;

/// A state in the form of core.
#[derive(Clone, Debug)]
enum Kept {
    Word(u64),
    Log(Log),
}

/// The state that a call finds.
struct Case {
    call: ScriptCall,
    now: Nanos,
    states: HashMap<BucketKey, Kept>,
}

fn case(random: &mut Random, number: u64) -> Case {
    let now = vectors::now(random);
    case_at(random, number, now)
}

fn case_at(random: &mut Random, number: u64, now: Nanos) -> Case {
    let verb = *random.pick(&[
        CallVerb::Take,
        CallVerb::Take,
        CallVerb::Take,
        CallVerb::Peek,
        CallVerb::Refund,
        CallVerb::HandBack,
    ]);
    let mut call = ScriptCall { verb, entries: Default::default(), at: Some(now) };
    let mut states = HashMap::new();
    for place in 0..1 + random.below(4) {
        let again = (place > 0 && random.once_in(4)).then(|| call.entries[0].clone());
        let limit = again.as_ref().map_or_else(|| vectors::limit(random), |entry: &BucketEntry| entry.limit);
        let cost = vectors::cost(random, &limit);
        let key =
            again.map_or_else(|| BucketKey(format!("g:1:{{t}}:{number}.{place}").into()), |entry| entry.key);
        let delay = vectors::delay(random, &limit);
        let want = if delay == Nanos::ZERO && random.once_in(3) {
            vectors::spread(random, 1 << 32) as u32
        } else {
            0
        };
        states.entry(key.clone()).or_insert_with(|| match &limit {
            Limit::Meter(meter) => Kept::Word(vectors::word(random, meter, cost, now)),
            Limit::Log(quota) => Kept::Log(Log::from_entries(vectors::log_entries(random, quota, now))),
        });
        let charged_at = charged_at(random, &states[&key], now);
        call.entries.push(BucketEntry {
            key,
            limit,
            text: "x 1".into(),
            cost,
            binding: !random.once_in(4),
            delay,
            want: if verb == CallVerb::Take { want } else { 0 },
            // Half of the keys may be trusted.
            spare: limit
                .meter()
                .filter(|_| number.is_multiple_of(2))
                .map_or(Nanos::ZERO, |meter| meter.extra_idle_time(limit.capacity())),
            charged_at,
            migrated: None,
        });
    }
    Case { call, now, states }
}

/// Some instant before now; for a log often that of an entry.
fn charged_at(random: &mut Random, state: &Kept, now: Nanos) -> Nanos {
    let known: Vec<Nanos> = match state {
        Kept::Log(log) => log.entries().map(|(at, _)| at).collect(),
        Kept::Word(_) => Vec::new(),
    };
    if known.is_empty() || random.once_in(3) {
        Nanos::new(now.get() - vectors::spread(random, Nanos::DAY.get() / 1_000) * 1_000)
    } else {
        *random.pick(&known)
    }
}

fn decide(limit: &Limit, state: &Kept, entry: &BucketEntry, now: Nanos) -> LimitDecision {
    match (limit, state) {
        (Limit::Meter(meter), Kept::Word(word)) => meter.peek_ahead(*word, entry.cost, now, entry.delay),
        (Limit::Log(quota), Kept::Log(log)) => {
            let mut log = log.clone();
            log.forget(quota, now);
            log.peek(quota, entry.cost, now.saturating_add(entry.delay))
        }
        _ => unreachable!(),
    }
}

fn charge(entry: &BucketEntry, state: &mut Kept, cost: Cost, now: Nanos) -> bool {
    match (&entry.limit, state) {
        (Limit::Meter(meter), Kept::Word(word)) => {
            let next = meter.charge_ahead(*word, cost, now, entry.delay);
            *word = next.unwrap_or(*word);
            next.is_some()
        }
        (Limit::Log(quota), Kept::Log(log)) => {
            log.take_ahead(quota, cost, now, now.saturating_add(entry.delay), LogGrowth::Grow).is_allowed()
        }
        _ => unreachable!(),
    }
}

/// The result by core: the states after the call, whether it was done, and the leased tokens.
fn by_core(case: &Case) -> (HashMap<BucketKey, Kept>, bool, Vec<u32>) {
    let Case { call, now, states } = case;
    let (entries, mut after) = (&call.entries, states.clone());
    let mut leased = vec![0; entries.len()];
    let refuses = |entry: &BucketEntry| {
        entry.binding && !decide(&entry.limit, &states[&entry.key], entry, *now).is_allowed()
    };
    match call.verb {
        CallVerb::Take | CallVerb::Peek if entries.iter().any(refuses) => return (after, false, leased),
        CallVerb::Peek => return (after, true, leased),
        CallVerb::Take => {
            for binding in [true, false] {
                for entry in entries.iter().filter(|entry| entry.binding == binding) {
                    let state = after.get_mut(&entry.key).expect("every key has a state");
                    if !charge(entry, state, entry.cost, *now) && binding {
                        return (states.clone(), false, leased);
                    }
                }
            }
            let of = |binding| (0..entries.len()).filter(move |&index| entries[index].binding == binding);
            for index in of(true).chain(of(false)) {
                let entry = &entries[index];
                if let (Limit::Meter(Meter::TokenBucket(quota)), Kept::Word(word)) =
                    (&entry.limit, &after[&entry.key])
                {
                    let left = tidegate_core::token_bucket::peek(*word, quota, Cost::ZERO, *now).remaining;
                    leased[index] = entry.want.min(left / 2);
                    let state = after.get_mut(&entry.key).expect("every key has a state");
                    assert!(charge(entry, state, Cost::new(leased[index]), *now));
                }
            }
        }
        CallVerb::Refund => entries.iter().for_each(|entry| refund(entry, &mut after, *now)),
        CallVerb::HandBack => entries.iter().rev().for_each(|entry| hand_back(entry, &mut after, *now)),
    }
    (after, true, leased)
}

fn refund(entry: &BucketEntry, after: &mut HashMap<BucketKey, Kept>, now: Nanos) {
    match (&entry.limit, after.get_mut(&entry.key).expect("every key has a state")) {
        (Limit::Meter(meter), Kept::Word(word)) => *word = meter.refund(*word, entry.cost, now),
        (Limit::Log(quota), Kept::Log(log)) => {
            log.forget(quota, now);
            log.refund(entry.cost);
        }
        _ => unreachable!(),
    }
}

fn hand_back(entry: &BucketEntry, after: &mut HashMap<BucketKey, Kept>, now: Nanos) {
    match (&entry.limit, after.get_mut(&entry.key).expect("every key has a state")) {
        (Limit::Meter(meter), Kept::Word(word)) => {
            *word = meter.hand_back(*word, entry.cost, meter.as_of(entry.charged_at, entry.delay), now);
        }
        (Limit::Log(quota), Kept::Log(log)) => {
            log.forget(quota, now);
            log.hand_back(entry.cost, entry.charged_at.saturating_add(entry.delay));
        }
        _ => unreachable!(),
    }
}

fn put(server: &mut redis::Connection, case: &Case) {
    for (key, state) in &case.states {
        let entry = case.call.entries.iter().find(|entry| entry.key == *key).expect("it is asked for");
        match (&entry.limit, state) {
            (Limit::Meter(_), Kept::Word(0)) => {}
            (Limit::Meter(meter), Kept::Word(word)) => {
                // As of an instant within the stored window.
                let at = read_at(meter, *word, case.now);
                let _: () = server.set(&*key.0, kept(meter, *word, at, &entry.text)).unwrap();
            }
            (Limit::Log(_), Kept::Log(log)) => {
                let entries: Vec<_> = log.entries().collect();
                if !entries.is_empty() {
                    let _: () = server.rpush(&*key.0, entry.text.as_bytes()).unwrap();
                    let _: () = server.rpush(&*key.0, kept_log(&entries)).unwrap();
                }
            }
            _ => unreachable!(),
        }
    }
}

/// The start of the stored window: a window's state changes when it is read later.
fn read_at(meter: &Meter, word: u64, now: Nanos) -> Nanos {
    match meter {
        Meter::TokenBucket(_) => now,
        Meter::SlidingWindow(quota) | Meter::FixedWindow(quota) => {
            let stands = |at: &Nanos| {
                let (number, before, count) = quota.counts(word, *at);
                quota.word(number, before, count) == word
            };
            let length = quota.length().get();
            (0..6).map(|back| now.saturating_sub(Nanos::new(back * length))).find(stands).unwrap_or(now)
        }
    }
}

fn check_states(server: &mut redis::Connection, case: &Case, after: &HashMap<BucketKey, Kept>) {
    for entry in &case.call.entries {
        let context = || format!("{:?} of {:?}\n{:?}", entry.key, case.call, case.states);
        match (&entry.limit, &after[&entry.key]) {
            (Limit::Meter(meter), Kept::Word(word)) => {
                let value: Option<Vec<u8>> = server.get(&*entry.key.0).unwrap();
                let written = value.map_or(Some(0), |value| state_kept(meter, &value, &entry.text));
                let written = written.unwrap_or_else(|| panic!("no state: {}", context()));
                let idle = meter.is_idle(written, case.now) && meter.is_idle(*word, case.now);
                // If a key may get more trust, it matters since when its bucket is full.
                let forgotten = idle && entry.spare == Nanos::ZERO;
                assert!(written == *word || forgotten, "{written} is not {word}: {}", context());
            }
            (Limit::Log(quota), Kept::Log(log)) => {
                let elements: Vec<Vec<u8>> = server.lrange(&*entry.key.0, 0, -1).unwrap();
                let entries = if elements.is_empty() { Vec::new() } else { log_kept(&elements).unwrap() };
                let mut written = Log::from_entries(entries);
                written.forget(quota, case.now);
                let mut log = log.clone();
                log.forget(quota, case.now);
                assert_eq!(
                    written.entries().collect::<Vec<_>>(),
                    log.entries().collect::<Vec<_>>(),
                    "{}",
                    context()
                );
            }
            _ => unreachable!(),
        }
    }
}

/// Every key expires exactly when its state no longer counts.
fn check_lives(server: &mut redis::Connection, case: &Case, after: &HashMap<BucketKey, Kept>) {
    for entry in &case.call.entries {
        let millis: i64 = server.pttl(&*entry.key.0).unwrap();
        let empty_after = match (&entry.limit, &after[&entry.key]) {
            (Limit::Meter(meter), Kept::Word(word)) => meter.peek(*word, Cost::ZERO, case.now).reset_after,
            (Limit::Log(quota), Kept::Log(log)) => log.empty_at(quota, case.now).saturating_sub(case.now),
            _ => unreachable!(),
        };
        let empty_after = empty_after.saturating_add(entry.spare);
        let most = (empty_after.as_millis_ceil() + 3 + SLACK) as i64;
        assert!(millis == -2 || (millis > 0 && millis <= most), "{millis} of {most}: {entry:?}");
        let least = (empty_after.as_millis_ceil() + SLACK) as i64 - 10_000;
        assert!(millis == -2 || millis >= least, "{millis}, at least {least}: {entry:?}");
    }
}

fn check_found(case: &Case, answer: &CallAnswer) {
    assert_eq!(answer.at, case.now);
    for (entry, found) in case.call.entries.iter().zip(&answer.found) {
        let FoundState::Here(state) = found else { panic!("nothing is written under another text") };
        match (state, &case.states[&entry.key], &entry.limit) {
            (State::Word(told), Kept::Word(word), Limit::Meter(_)) => assert_eq!(told, word, "{entry:?}"),
            (State::Log(told), Kept::Log(log), Limit::Log(quota)) if takes(case.call.verb) => {
                let at = case.now.saturating_add(entry.delay);
                let decision = decide(&entry.limit, &Kept::Log(log.clone()), entry, case.now);
                assert_eq!(quota.limit().saturating_sub(told.counted), decision.remaining, "{entry:?}");
                assert_eq!(told.empty_at.saturating_sub(at), decision.reset_after, "{entry:?}");
                if let Outcome::Denied { retry_after } = decision.outcome {
                    assert_eq!(told.fits_at.saturating_sub(at), retry_after, "{entry:?} {log:?}");
                }
            }
            (State::Log(_), ..) => {}
            _ => unreachable!(),
        }
    }
}

fn takes(verb: CallVerb) -> bool {
    matches!(verb, CallVerb::Take | CallVerb::Peek)
}

/// Compares an answer, and the states after it, with core. Returns whether the call was done, and the leased tokens.
fn check(connection: &mut redis::Connection, case: &Case, answer: &CallAnswer) -> (bool, Vec<u32>) {
    let (after, is_done, leased) = by_core(case);
    assert_eq!(answer.outcome == CallOutcome::Done, is_done, "{:?}\n{:?}", case.call, case.states);
    assert_eq!(answer.poisoned, 0, "{:?}", case.call);
    assert_eq!(answer.leased.as_slice(), leased, "{:?}", case.call);
    check_found(case, answer);
    check_states(connection, case, &after);
    let is_written = |entry: &BucketEntry| entry.cost > Cost::ZERO && entry.binding;
    if is_done && case.call.verb == CallVerb::Take && case.call.entries.iter().all(is_written) {
        check_lives(connection, case, &after);
    }
    (is_done, leased)
}

fn run(seed: u64, cases: u64) {
    let (server, runtime) = (Redis::start(), runtime());
    let mut connection = server.connection();
    let link = runtime.block_on(PlainLink::connect(&server));
    let mut random = Random::new(seed);
    let (mut done, mut refused, mut leases) = (0, 0, 0);
    for number in 0..cases {
        let case = case(&mut random, number);
        put(&mut connection, &case);
        let answer = runtime
            .block_on(link.call(&case.call))
            .unwrap_or_else(|error| panic!("{error}: {:?}", case.call));
        let (is_done, leased) = check(&mut connection, &case, &answer);
        done += u64::from(is_done);
        refused += u64::from(!is_done);
        leases += leased.iter().filter(|&&tokens| tokens > 0).count();
    }
    assert!(
        done > cases / 4 && refused > cases / 10 && leases > 50,
        "{done} done, {refused} refused, {leases} leased"
    );
}

#[test]
fn scripts_do_what_core_does() {
    run(20_260_101, 6_000);
}

/// Is it a call that can be sent with others: a take of all or nothing from token buckets with usual rates, each once?
fn is_plain(call: &ScriptCall) -> bool {
    let is_plain = |(index, entry): (usize, &BucketEntry)| {
        let Limit::Meter(Meter::TokenBucket(quota)) = entry.limit else { return false };
        let is_usual = quota.ticks().nanos == 1 && entry.cost.get() <= quota.capacity();
        let is_again = call.entries[..index].iter().any(|before| before.key == entry.key);
        let takes = entry.cost > Cost::ZERO && entry.want == 0 && entry.delay == Nanos::ZERO;
        is_usual && !is_again && takes && entry.binding
    };
    call.verb == CallVerb::Take && call.entries.iter().enumerate().all(is_plain)
}

/// Calls that begin at the same time do each what core does, whether or not they are sent as one.
#[test]
fn scripts_do_what_core_does_for_calls_that_are_sent_together() {
    let (server, runtime) = (Redis::start(), runtime());
    let _inside = runtime.enter();
    let (mut connection, client) = (server.connection(), connect(&server.url()));
    let mut random = Random::new(20_260_102);
    let (mut number, mut calls, mut refused) = (0, 0, 0);
    let before = server.scripts_run();
    for _ in 0..1_200 {
        let now = vectors::now(&mut random);
        let mut cases = Vec::new();
        for _ in 0..2 + random.below(2) {
            let any = random.once_in(8);
            cases.push(loop {
                number += 1;
                let case = case_at(&mut random, number, now);
                if any || is_plain(&case.call) {
                    break case;
                }
            });
        }
        cases.iter().for_each(|case| put(&mut connection, case));
        let sent: Vec<ScriptCall> = cases.iter().map(|case| case.call.clone()).collect();
        for (case, answer) in cases.iter().zip(runtime.block_on(call_together(&client, &sent))) {
            let answer = answer.unwrap_or_else(|error| panic!("{error}: {:?}", case.call));
            refused += u64::from(!check(&mut connection, case, &answer).0);
            calls += 1;
        }
    }
    let scripts = server.scripts_run() - before;
    assert!(scripts * 10 < calls * 7 && refused > calls / 10, "{scripts} for {calls}, {refused} refused");
}
