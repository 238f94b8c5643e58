//! The tag of a bucket depends on the bucket alone, not on the request.

use std::collections::HashMap;

use proptest::prelude::*;
use tidegate::engine::{Joint, JointBy, Request};
use tidegate::{Cost, Nanos};

use super::flaky::{World, run};

const POLICY: &str = "
version: 1
limits:
- { name: all, key: [], sustained: { rate: 100 } }
- { name: per-user, key: [user], sustained: { rate: 100 } }
- { name: per-member, key: [user, tenant], sustained: { rate: 100 } }
- { name: shared-member, key: [user, tenant], missing: shared, sustained: { rate: 100 } }
- { name: per-tenant, group: plans, key: [tenant], match: { plan: free }, sustained: { rate: 100 } }
- { name: queue, group: plans, key: [tenant, ip], strategy: queue, sustained: { rate: 2, window: minute } }
tenants:
- { id: root, rate_limit: { sharing: enforce, sustained: { rate: 100 }, budget: { mode: shared, total: 100 } } }
- { id: child, parent: root, rate_limit: { sharing: enforce, scope: user, sustained: { rate: 50 } } }
- { id: leaf, parent: child, rate_limit: { scope: ip, sustained: { rate: 20 } } }
- { id: other, rate_limit: { sustained: { rate: 100 } } }
";

fn request() -> impl Strategy<Value = Request<'static>> {
    let tenant =
        prop::option::of(prop::sample::select(vec!["root", "child", "leaf", "other", "stranger", ""]));
    let user = prop::option::of(prop::sample::select(vec!["1", "2", "root", ""]));
    (tenant, user, prop::option::of(0u8..3), any::<bool>(), 0u32..3).prop_map(
        |(tenant, user, ip, free, cost)| {
            let mut request = Request::new().cost(Cost::new(cost));
            request.tenant = tenant.map(Into::into);
            request.user = user.map(Into::into);
            request.ip = ip.map(|last| [10, 0, 0, last].into());
            request.plan = free.then(|| "free".into());
            request
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn whoever_asks_and_however(requests in prop::collection::vec(request(), 2..24)) {
        let world = World::new(POLICY);
        for pair in requests.chunks(2) {
            for request in pair {
                let _ = world.check(request);
                let _ = world.peek(request);
                let _ = run(world.limiter.refund_async(request, Cost::ONE));
                drop(run(world.limiter.take_place_async(request)));
            }
            let joint: Vec<_> = pair.iter().map(|request| Joint { request, by: JointBy::Policy }).collect();
            let _ = run(world.limiter.check_joint_async(&joint)).unwrap();
            world.clock.advance(Nanos::SECOND);
        }
        let handed_back = world.store().handed_back().into_iter().map(|(charge, _)| charge);
        let mut tags = HashMap::new();
        for (limit, key, tag) in world.store().seen().into_iter().chain(handed_back) {
            let by_tenant = ["per-member", "shared-member", "per-tenant", "queue"];
            // The bucket that all requests without a key share belongs to no tenant.
            let is_shared = limit.starts_with("shared-member") && std::str::from_utf8(&key).is_err();
            let is_tenants = by_tenant.iter().any(|name| limit.starts_with(name)) && !is_shared;
            let expected = match limit.split('\u{1f}').next() {
                Some("tenant:root" | "tenant:child" | "tenant:leaf") => Some(b"root".to_vec()),
                Some("tenant:other") => Some(b"other".to_vec()),
                _ if is_tenants => Some(tag.clone().expect("the tenant is part of its key")),
                _ => None,
            };
            prop_assert_eq!(&tag, &expected, "{}", &limit);
            if is_tenants {
                let tenant = tag.as_deref().unwrap_or_default();
                prop_assert!(tenant.is_empty() || key.windows(tenant.len()).any(|part| part == tenant));
            }
            let known = tags.entry((limit.clone(), key)).or_insert_with(|| tag.clone());
            prop_assert_eq!(&*known, &tag, "two tags for a bucket of {}", limit);
        }
    }
}
