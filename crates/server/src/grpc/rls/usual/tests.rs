use proptest::collection::vec;
use proptest::prelude::*;
use prost::Message;
use tidegate::engine::{Limiter, Request};
use tidegate::{ManualClock, MemoryOptions, Nanos};
use tidegate_policy::Policy;

use super::*;
use crate::grpc::proto::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use crate::grpc::proto::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::{
    Entry, RateLimitOverride,
};
use crate::grpc::proto::envoy::service::ratelimit::v3::RateLimitRequest;
use crate::grpc::rls::{Decided, DescriptorAction, Outcome};

fn descriptor() -> impl Strategy<Value = RateLimitDescriptor> {
    let entry = ("[a-z_é]{0,5}", ".{0,200}").prop_map(|(key, value)| Entry { key, value });
    let limit = proptest::option::weighted(0.1, (0_u32..9, 0_i32..9));
    let limit =
        limit.prop_map(|limit| limit.map(|(rpu, unit)| RateLimitOverride { requests_per_unit: rpu, unit }));
    let hits = proptest::option::weighted(0.1, any::<u64>());
    (vec(entry, 0..18), limit, hits, proptest::bool::weighted(0.1)).prop_map(
        |(entries, limit, hits_addend, is_negative_hits)| RateLimitDescriptor {
            entries,
            limit,
            hits_addend,
            is_negative_hits,
        },
    )
}

fn message() -> impl Strategy<Value = RateLimitRequest> {
    (".{0,9}", vec(descriptor(), 0..3), prop_oneof![0..3_u32, any::<u32>()])
        .prop_map(|(domain, descriptors, hits_addend)| RateLimitRequest { domain, descriptors, hits_addend })
}

/// What is read without prost is what prost reads.
fn agrees(bytes: &[u8]) -> Result<bool, TestCaseError> {
    let Some(usual) = UsualRequest::read(bytes) else { return Ok(false) };
    let read = RateLimitRequest::decode(bytes);
    prop_assert!(read.is_ok(), "{read:?}");
    let RateLimitRequest { domain, descriptors, hits_addend } = read.expect("it was read");
    prop_assert_eq!((usual.domain, usual.hits_addend), (&*domain, hits_addend));
    let [RateLimitDescriptor { entries, limit: None, hits_addend: None, is_negative_hits: false }] =
        &*descriptors
    else {
        return Err(TestCaseError::fail("it is not a usual one"));
    };
    let entries: Vec<_> = entries.iter().map(|Entry { key, value }| (&**key, &**value)).collect();
    prop_assert_eq!(&*usual.entries, &*entries);
    Ok(true)
}

fn is_usual(request: &RateLimitRequest) -> bool {
    matches!(&*request.descriptors, [one] if one.limit.is_none() && one.hits_addend.is_none()
        && !one.is_negative_hits && one.entries.len() <= DESCRIPTOR_ENTRIES_MAX)
        && !request.domain.is_empty()
}

proptest! {
    #[test]
    fn a_usual_request_is_read_as_prost_reads_it(request in message()) {
        prop_assert_eq!(agrees(&request.encode_to_vec())?, is_usual(&request));
    }

    #[test]
    fn a_mangled_request_is_read_as_prost_reads_it_or_left_to_it(
        request in message(),
        changes in vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in proptest::option::of(any::<prop::sample::Index>()),
    ) {
        let mut bytes = request.encode_to_vec();
        for (index, byte) in changes {
            if !bytes.is_empty() {
                let index = index.index(bytes.len());
                bytes[index] = byte;
            }
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len() + 1));
        }
        agrees(&bytes)?;
    }
}

/// Decisions of all kinds: with and without limits, admitted, denied, degraded, watched; names of every length.
const POLICY: &str = "
version: 1
defaults: { headers: [x-ratelimit, ietf] }
limits:
- { name: user, key: [user], sustained: { rate: 7, window: 45s }, burst: { capacity: 3 } }
- { name: NAME, key: [client], sustained: { rate: 1000000, window: hour } }
- { name: soft, key: [plan], mode: shadow, sustained: { rate: 1, window: minute } }
- { name: cheap, key: [tenant], strategy: degrade, sustained: { rate: 1, window: minute } }
- { name: quiet, key: [ip], response_headers: false, sustained: { rate: 1, window: day } }
";

#[test]
fn an_answer_is_written_as_prost_writes_it() {
    let clock = ManualClock::default();
    clock.advance(Nanos::from_secs(1_800_000_000));
    let policy = POLICY.replace("NAME", &"long".repeat(32));
    let policy = Policy::parse(&policy).expect("a policy");
    let limiter =
        Limiter::in_memory(policy, MemoryOptions { max_keys: 100, max_log_entries: 0 }, clock.clone())
            .expect("it is small");
    let requests = [
        Request::new(),
        Request::new().user("1"),
        Request::new().client("1"),
        Request::new().plan("1"),
        Request::new().tenant("1"),
        Request::new().ip(std::net::IpAddr::from([192, 0, 2, 1])),
        Request::new().user("2").client("2").plan("2"),
    ];
    let (mut written, mut left) = (0, 0);
    for step in 0..40_u64 {
        for request in &requests {
            let decision = limiter.check(request);
            let refused = !decision.is_allowed();
            let here = answer(&decision);
            let decided = Decided { refused, outcomes: vec![Outcome::Decided(decision)] };
            let by_prost =
                frame::encode(&super::super::answer([&DescriptorAction::Check].into_iter(), &decided));
            match here {
                Some(here) => {
                    assert_eq!(here, by_prost);
                    written += 1;
                }
                None => left += 1,
            }
        }
        clock.advance(Nanos::from_millis(step * 777));
    }
    assert!(written > 50 && left > 50, "both ways are taken: {written} {left}");
}
