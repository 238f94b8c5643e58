//! Joint decisions while time passes during every call: the store has refilled by the second call, so a denial
//! that is explained by a second call may come out as an admission.

use proptest::prelude::*;
use tidegate::engine::{AdHocLimit, Joint, JointBy, JointDecision, Request};
use tidegate::{Clock, Cost, Nanos};

use super::flaky::{World, run};

/// Names, capacities and tokens per second. A request of the plan `both` uses two of them.
const LIMITS: [(&str, u32, u64); 2] = [("small", 6, 20), ("large", 60, 20)];

const POLICY: &str = "
version: 1
limits:
- { name: small, key: [user], sustained: { rate: 20 }, burst: { capacity: 6 } }
- { name: large, key: [], match: { plan: both }, sustained: { rate: 20 }, burst: { capacity: 60 } }
";

const AD_HOC: AdHocLimit = AdHocLimit { capacity: 5, rate: 10, window: Nanos::SECOND };

/// One of the requests: its user, its cost, whether it also uses the large limit, or brings an ad hoc limit.
#[derive(Clone, Copy, Debug)]
struct Part {
    user: &'static str,
    cost: u32,
    both: bool,
    own: bool,
}

fn part() -> impl Strategy<Value = Part> {
    let user = prop::sample::select(vec!["1", "2"]);
    (user, 0u32..7, any::<bool>(), prop::bool::weighted(0.2)).prop_map(|(user, cost, both, own)| Part {
        user,
        cost,
        both,
        own,
    })
}

fn request(part: &Part) -> Request<'static> {
    let request = Request::new().user(part.user).cost(Cost::new(part.cost));
    if part.both { request.plan("both") } else { request }
}

fn check(world: &World, parts: &[Part]) -> JointDecision {
    let requests: Vec<Request<'_>> = parts.iter().map(request).collect();
    let by = |part: &Part| if part.own { JointBy::AdHoc(AD_HOC, b"k") } else { JointBy::Policy };
    let joint: Vec<Joint<'_, '_>> =
        requests.iter().zip(parts).map(|(request, part)| Joint { request, by: by(part) }).collect();
    run(world.limiter.check_joint_async(&joint)).unwrap()
}

/// What an admitted call takes from each bucket: the largest cost of its parts.
fn drawn(parts: &[Part]) -> Vec<(String, u32)> {
    let mut drawn: Vec<(String, u32)> = Vec::new();
    let mut draw = |bucket: String, cost: u32| match drawn.iter_mut().find(|(known, _)| *known == bucket) {
        Some((_, most)) => *most = cost.max(*most),
        None => drawn.push((bucket, cost)),
    };
    for part in parts {
        match part.own {
            true => draw("own".to_owned(), part.cost),
            false => {
                draw(format!("small {}", part.user), part.cost);
                if part.both {
                    draw("large".to_owned(), part.cost);
                }
            }
        }
    }
    drawn
}

/// Capacity and tokens per second of a bucket.
fn numbers(bucket: &str) -> (u64, u64) {
    let limit = LIMITS.iter().find(|(name, ..)| bucket.starts_with(name));
    limit.map_or((AD_HOC.capacity.into(), AD_HOC.rate), |&(_, capacity, rate)| (capacity.into(), rate))
}

/// An admission: the bucket, its start and end, and what it took.
type Admitted = (String, Nanos, Nanos, u64);

/// Is what a bucket admitted within its capacity and its rate, over every interval?
fn is_within_the_envelope(admitted: &[Admitted]) -> Result<(), String> {
    for (first, (bucket, begun, ..)) in admitted.iter().enumerate() {
        let (capacity, rate) = numbers(bucket);
        let mut taken = 0;
        for (_, _, ended, cost) in admitted[first..].iter().filter(|(other, ..)| other == bucket) {
            taken += cost;
            let passed = u128::from(ended.saturating_sub(*begun).get()) * u128::from(rate);
            let most = u128::from(capacity) * 1_000_000_000 + passed;
            if u128::from(taken) * 1_000_000_000 > most {
                return Err(format!("{bucket} admitted {taken} within {:?}", ended.saturating_sub(*begun)));
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn nothing_is_ok_where_nothing_was_taken(
        millis in 1u64..200,
        calls in prop::collection::vec((prop::collection::vec(part(), 2..5), 0u64..60), 1..40),
    ) {
        let world = World::new(POLICY);
        world.store().set_latency(Nanos::from_millis(millis));
        let mut admitted: Vec<Admitted> = Vec::new();
        for (parts, pause) in calls {
            let begun = world.clock.now();
            let told = check(&world, &parts);
            let each: Vec<bool> = told.decisions.iter().map(|decision| decision.is_allowed()).collect();
            prop_assert_eq!(each.len(), parts.len());
            prop_assert_eq!(told.allowed, each.iter().all(|&allowed| allowed), "{:?} of {:?}", each, parts);
            if told.allowed {
                let ended = world.clock.now();
                let drawn = drawn(&parts).into_iter();
                admitted.extend(drawn.map(|(bucket, cost)| (bucket, begun, ended, cost.into())));
            }
            world.clock.advance(Nanos::from_millis(pause));
        }
        prop_assert_eq!(is_within_the_envelope(&admitted), Ok(()));
    }
}

#[test]
fn a_part_keeps_what_the_one_call_said_of_its_own_costs() {
    let world = World::new(POLICY);
    world.store().set_latency(Nanos::from_millis(100));
    let part = |cost, user| Part { user, cost, both: true, own: false };
    assert!(check(&world, &[part(6, "1"), part(1, "2")]).allowed);
    let calls = world.store().calls();
    // The first has an empty small bucket, which holds its cost again by the time the large bucket is peeked at
    // for its own cost; the large bucket was charged the higher cost of the second.
    let told = check(&world, &[part(4, "1"), part(5, "2")]);
    let each: Vec<bool> = told.decisions.iter().map(|decision| decision.is_allowed()).collect();
    assert_eq!((told.allowed, each), (false, vec![false, true]));
    assert_eq!(world.store().calls() - calls, 2, "one call for all, and one look for the cheaper part");
}
