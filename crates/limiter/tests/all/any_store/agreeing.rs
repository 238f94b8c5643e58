//! The engine decides the same on a store that answers later as on one that answers at once.

use proptest::prelude::*;
use tidegate::engine::{Limiter, Request, Trust};
use tidegate::{Cost, ManualClock, Nanos, NowOrLater};

use super::flaky::{OPTIONS, World, policy, run};

const POLICY: &str = "
version: 1
adaptive: { trust: true }
limits:
- { name: per-user, key: [user], sustained: { rate: 1 }, burst: { capacity: 6 }, retry_jitter: 0.5 }
- { name: jobs, key: [tenant], sustained: { rate: 1 }, strategy: queue, queue: { max_depth: 3, max_wait: 3s } }
- { name: soft, key: [ip], strategy: degrade, degrade: { tag: slow }, sustained: { rate: 1 } }
- { name: tried-out, key: [user], mode: shadow, algorithm: sliding_log, sustained: { rate: 2, window: minute } }
- { name: free, key: [], match: { plan: free }, algorithm: fixed_window, sustained: { rate: 9, window: minute } }
allow: [{ user: good }]
block: [{ user: bad }]
bursts: [{ name: flood, key: [user], window: 2s, threshold: 6, penalty: 3s }]
tenants:
- { id: root, rate_limit: { sharing: enforce, sustained: { rate: 9 }, budget: { mode: shared, total: 9 } } }
- { id: leaf, parent: root, rate_limit: { sustained: { rate: 5 } } }
";

fn request() -> impl Strategy<Value = Request<'static>> {
    let tenant = prop::option::of(prop::sample::select(vec!["root", "leaf", "stranger"]));
    let user = prop::option::of(prop::sample::select(vec!["1", "2", "good", "bad"]));
    (tenant, user, 0u8..3, any::<bool>(), 0u32..8, prop::option::of(0u8..=100)).prop_map(
        |(tenant, user, ip, free, cost, trust)| {
            let mut request = Request::new().cost(Cost::new(cost)).ip([10, 0, 0, ip]);
            request.tenant = tenant.map(Into::into);
            request.user = user.map(Into::into);
            request.plan = free.then(|| "free".into());
            request.trust = trust.and_then(Trust::from_hundredths);
            request
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn on_any_trace(steps in prop::collection::vec((request(), 0u8..8, 0u64..1_500), 1..60)) {
        let clock = ManualClock::default();
        let at_once = Limiter::in_memory(policy(POLICY), OPTIONS, clock.clone()).unwrap();
        let world = World::new(POLICY);
        for (request, verb, millis) in steps {
            let (one, other) = match verb {
                0 => (at_once.peek(&request), world.peek(&request)),
                1 => {
                    let cost = Cost::new(2);
                    (at_once.refund(&request, cost), run(world.limiter.refund_async(&request, cost)))
                }
                2 => {
                    let ((one, given_up), (other, too)) =
                        (at_once.take_place(&request), run(world.limiter.take_place_async(&request)));
                    prop_assert_eq!(given_up.is_some(), too.is_some());
                    (one, other)
                }
                3 => {
                    let ((one, used), (other, too)) =
                        (at_once.take_place(&request), run(world.limiter.take_place_async(&request)));
                    used.into_iter().for_each(|place| place.served());
                    too.into_iter().for_each(|place| place.served());
                    (one, other)
                }
                _ => (at_once.check(&request), world.check(&request)),
            };
            prop_assert_eq!(one.to_json(), other.to_json());
            prop_assert!(!other.without_store());
            clock.advance(Nanos::from_millis(millis));
            world.clock.advance(Nanos::from_millis(millis));
        }
        prop_assert_eq!(at_once.limit_counters(), world.limiter.limit_counters());
        prop_assert_eq!(at_once.top_consumers(8).keys.len(), world.limiter.top_consumers(8).keys.len());
    }
}

#[test]
fn each_call_tells_whether_it_waits() {
    let clock = ManualClock::default();
    let at_once = Limiter::in_memory(policy(POLICY), OPTIONS, clock.clone()).unwrap();
    let (world, request) = (World::new(POLICY), Request::new().user("1"));
    assert!(
        matches!(at_once.check_async(&request), NowOrLater::Now(decision) if decision.is_allowed()),
        "memory answers at once"
    );
    drop(world.limiter.check_async(&request));
    assert_eq!(world.store().calls(), 0, "a future that is not polled does not call the store");
    assert!(matches!(world.limiter.check_async(&request), NowOrLater::Later(_)));
    let blocked = Request::new().user("bad");
    assert!(matches!(world.limiter.check_async(&blocked), NowOrLater::Now(_)), "whatever the store");
    assert_eq!(run(at_once.check_async(&request)).limits().next().unwrap().decision.remaining, 4);
}
