//! Turns the descriptors of a rate limit request into requests for the engine.

use std::borrow::Cow;
use std::net::{Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use tidegate::Cost;
use tidegate::engine::{AdHocLimit, AdHocRequest, Request, unmapped};

use super::units;
use crate::bounds::{DESCRIPTOR_ENTRIES_MAX, DESCRIPTORS_MAX};
use crate::grpc::proto::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use crate::grpc::proto::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::Entry;
use crate::grpc::proto::envoy::service::ratelimit::v3::RateLimitRequest;
use crate::grpc::proto::envoy::service::ratelimit::v3::rate_limit_response::rate_limit::Unit;
use crate::grpc::transport::error::CallError;
use crate::wire::{FieldTarget, RequestField};

/// A descriptor as a request for the engine.
#[derive(Debug)]
pub(super) struct DescriptorRequest<'a> {
    pub(super) request: Request<'a>,
    pub(super) action: DescriptorAction,
}

/// The operation for a descriptor.
#[derive(Debug)]
pub(super) enum DescriptorAction {
    /// Decide by the policy.
    Check,
    /// Decide by an ad hoc bucket.
    CheckAdHoc(DescriptorBucket),
    /// Decide by a limit of 0, which admits nothing.
    CheckClosed,
    /// Refund this cost to the limits of the policy.
    Refund(Cost),
    /// Refund this cost to an ad hoc bucket.
    RefundAdHoc(DescriptorBucket, Cost),
    /// Refund to a limit of 0: there is nothing to do.
    RefundClosed,
}

/// An ad hoc bucket, whose numbers are the `limit` of a descriptor.
#[derive(Debug)]
pub(super) struct DescriptorBucket {
    pub(super) limit: AdHocLimit,
    /// The domain and the entries, so that each descriptor has its own bucket.
    pub(super) key: Vec<u8>,
    pub(super) unit: Unit,
}

impl DescriptorBucket {
    /// The bucket as a request for the engine, with this cost.
    pub(super) fn at(&self, cost: Cost) -> AdHocRequest<'_> {
        AdHocRequest { key: &self.key, limit: self.limit, cost: cost.get().into() }
    }
}

/// Reads all descriptors of a request, in their order.
pub(super) fn read(message: &RateLimitRequest) -> Result<Vec<DescriptorRequest<'_>>, CallError> {
    if message.domain.is_empty() {
        return Err(CallError::NoDomain);
    }
    match message.descriptors.len() {
        0 => return Err(CallError::NoDescriptors),
        1..=DESCRIPTORS_MAX => {}
        many => return Err(CallError::TooManyDescriptors(many)),
    }
    let numbered = message.descriptors.iter().enumerate();
    numbered.map(|(index, descriptor)| read_one(message, index, descriptor)).collect()
}

fn read_one<'a>(
    message: &'a RateLimitRequest,
    index: usize,
    descriptor: &'a RateLimitDescriptor,
) -> Result<DescriptorRequest<'a>, CallError> {
    let entries = descriptor.entries.len();
    if entries > DESCRIPTOR_ENTRIES_MAX {
        return Err(CallError::TooManyEntries { index, entries });
    }
    let hits = match descriptor.hits_addend {
        Some(hits) => Cost::new(u32::try_from(hits).unwrap_or(u32::MAX)),
        None => Cost::new(message.hits_addend.max(1)),
    };
    let is_refund = descriptor.is_negative_hits;
    let action = match &descriptor.limit {
        None if is_refund => DescriptorAction::Refund(hits),
        None => DescriptorAction::Check,
        Some(limit) if limit.requests_per_unit == 0 && is_refund => DescriptorAction::RefundClosed,
        Some(limit) if limit.requests_per_unit == 0 => DescriptorAction::CheckClosed,
        Some(limit) => {
            let (unit, window) = units::of(limit.unit()).ok_or(CallError::UnknownUnit(index))?;
            let (capacity, rate) = (limit.requests_per_unit, u64::from(limit.requests_per_unit));
            let limit = AdHocLimit { capacity, rate, window };
            let bucket = DescriptorBucket { limit, key: key(&message.domain, descriptor), unit };
            if is_refund {
                DescriptorAction::RefundAdHoc(bucket, hits)
            } else {
                DescriptorAction::CheckAdHoc(bucket)
            }
        }
    };
    Ok(DescriptorRequest { request: request(&message.domain, texts(descriptor), hits), action })
}

/// The keys and values of a descriptor.
fn texts(descriptor: &RateLimitDescriptor) -> impl Iterator<Item = (&str, &str)> {
    descriptor.entries.iter().map(|Entry { key, value }| (key.as_str(), value.as_str()))
}

/// A request from the entries of a descriptor. Each entry is a custom descriptor under its own name, and one with a
/// known name also sets that field. Of two entries with the same known name, the first sets the field.
pub(super) fn request<'a>(
    domain: &'a str,
    entries: impl Iterator<Item = (&'a str, &'a str)>,
    hits: Cost,
) -> Request<'a> {
    let mut request = Request::new().domain(domain).cost(hits);
    for (key, value) in entries {
        let plain = plain_value(key, value);
        match RequestField::of_entry(key).map(|field| field.target(&mut request)) {
            Some(FieldTarget::Text(field @ None)) => *field = Some(value.into()),
            Some(FieldTarget::Address(field @ None)) => *field = plain.parse().ok(),
            _ => {}
        }
        request.descriptors.push((key.into(), plain));
    }
    request
}

/// The value of an entry, with IPv4-mapped IPv6 addresses as IPv4: on a listener for both, Envoy sends the addresses of
/// IPv4 clients in mapped form.
fn plain_value<'a>(key: &str, value: &'a str) -> Cow<'a, str> {
    let plain = match key {
        "remote_address" => mapped_address(value).map(|address| address.to_string()),
        "masked_remote_address" => mapped_network(value).map(|network| network.to_string()),
        _ => None,
    };
    plain.map_or(Cow::from(value), Cow::from)
}

fn mapped_address(value: &str) -> Option<Ipv4Addr> {
    value.parse::<Ipv6Addr>().ok()?.to_ipv4_mapped()
}

fn mapped_network(value: &str) -> Option<IpNet> {
    let network: IpNet = value.parse().ok()?;
    Some(unmapped(network)).filter(|plain| *plain != network)
}

/// The key of a descriptor's bucket: each text is preceded by its length, so that different texts give different keys.
fn key(domain: &str, descriptor: &RateLimitDescriptor) -> Vec<u8> {
    let mut key = Vec::with_capacity(128);
    let mut put = |text: &str| {
        key.extend_from_slice(&u32::try_from(text.len()).unwrap_or(u32::MAX).to_be_bytes());
        key.extend_from_slice(text.as_bytes());
    };
    put(domain);
    for (key, value) in texts(descriptor) {
        put(key);
        put(&plain_value(key, value));
    }
    key
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grpc::proto::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::RateLimitOverride;
    use crate::grpc::proto::envoy::r#type::v3::RateLimitUnit;
    use tidegate::Nanos;

    fn descriptor(entries: &[(&str, &str)]) -> RateLimitDescriptor {
        let entry = |(key, value): &(&str, &str)| Entry { key: (*key).into(), value: (*value).into() };
        RateLimitDescriptor { entries: entries.iter().map(entry).collect(), ..Default::default() }
    }

    fn asking(descriptors: Vec<RateLimitDescriptor>) -> RateLimitRequest {
        RateLimitRequest { domain: "edge".into(), descriptors, hits_addend: 0 }
    }

    #[test]
    fn known_names_have_their_meaning_and_all_are_descriptors() {
        let message = asking(vec![descriptor(&[
            ("remote_address", "203.0.113.7"),
            ("user_id", "42"),
            ("user_id", "43"),
            ("tenant", "t"),
            ("path", "/api"),
            ("method", "GET"),
            ("plan", "free"),
            ("upstream", "up"),
            ("client_id", "app"),
            ("generic_key", "x"),
        ])]);
        let requests = read(&message).expect("it is sound");
        let request = &requests[0].request;
        assert_eq!(request.ip, Some([203, 0, 113, 7].into()));
        assert_eq!(request.user.as_deref(), Some("42"), "the first counts");
        let texts = [&request.tenant, &request.path, &request.method, &request.plan, &request.client];
        assert_eq!(texts.map(|text| text.as_deref()), ["t", "/api", "GET", "free", "app"].map(Some));
        assert_eq!(request.upstream.as_deref(), Some("up"));
        assert_eq!(request.domain.as_deref(), Some("edge"));
        assert_eq!(request.descriptors.len(), 10);
        assert_eq!(request.cost, Cost::ONE);
    }

    #[test]
    fn an_address_that_is_none_is_a_descriptor_only() {
        let message = asking(vec![descriptor(&[("remote_address", "10.0.0.0/24")])]);
        let requests = read(&message).expect("it is sound");
        assert_eq!((requests[0].request.ip, requests[0].request.descriptors.len()), (None, 1));
    }

    #[test]
    fn a_mapped_address_is_the_address_it_maps() {
        let entries = |address, network| {
            asking(vec![descriptor(&[("remote_address", address), ("masked_remote_address", network)])])
        };
        let (mapped, plain) = (
            entries("::ffff:203.0.113.7", "::ffff:203.0.113.0/120"),
            entries("203.0.113.7", "203.0.113.0/24"),
        );
        let (message, expected) = (read(&mapped).expect("it is sound"), read(&plain).expect("it is sound"));
        assert_eq!(message[0].request, expected[0].request);
        assert_eq!(key("edge", &mapped.descriptors[0]), key("edge", &plain.descriptors[0]));
        let other = entries("2001:db8::1", "2001:db8::/64");
        let message = read(&other).expect("it is sound");
        assert_eq!(message[0].request.descriptors[1].1, "2001:db8::/64", "others stay as they are");
    }

    #[test]
    fn hits_come_from_the_descriptor_or_the_request() {
        let hits = |own: Option<u64>, common: u32| {
            let mut message = asking(vec![descriptor(&[("a", "b")])]);
            message.hits_addend = common;
            message.descriptors[0].hits_addend = own;
            read(&message).expect("it is sound")[0].request.cost.get()
        };
        assert_eq!(hits(None, 0), 1);
        assert_eq!(hits(None, 7), 7);
        assert_eq!(hits(Some(0), 7), 0, "zero only asks");
        assert_eq!(hits(Some(3), 7), 3);
        assert_eq!(hits(Some(u64::MAX), 0), u32::MAX);
    }

    #[test]
    fn a_limit_brought_along_is_a_bucket_of_its_own() {
        let with = |rpu, unit: RateLimitUnit, entries: &[(&str, &str)]| {
            let limit = RateLimitOverride { requests_per_unit: rpu, unit: unit.into() };
            let message = asking(vec![RateLimitDescriptor { limit: Some(limit), ..descriptor(entries) }]);
            read(&message).map(|mut requests| requests.remove(0).action)
        };
        let key = |entries: &[(&str, &str)]| match with(5, RateLimitUnit::Week, entries) {
            Ok(DescriptorAction::CheckAdHoc(DescriptorBucket { limit, key, .. })) => {
                let window = Nanos::new(7 * Nanos::DAY.get());
                assert_eq!(limit, AdHocLimit { capacity: 5, rate: 5, window });
                key
            }
            other => panic!("{other:?}"),
        };
        assert_ne!(key(&[("a", "bc")]), key(&[("ab", "c")]), "texts do not run into each other");
        assert!(matches!(with(0, RateLimitUnit::Second, &[]), Ok(DescriptorAction::CheckClosed)));
        assert!(matches!(with(1, RateLimitUnit::Unknown, &[]), Err(CallError::UnknownUnit(0))));
    }

    #[test]
    fn there_is_a_limit_on_everything() {
        let many = vec![descriptor(&[("a", "b")]); DESCRIPTORS_MAX + 1];
        assert!(matches!(read(&asking(many)), Err(CallError::TooManyDescriptors(33))));
        let long = descriptor(&[("a", "b"); DESCRIPTOR_ENTRIES_MAX + 1]);
        let message = asking(vec![descriptor(&[]), long]);
        assert!(matches!(read(&message), Err(CallError::TooManyEntries { index: 1, entries: 17 })));
        assert!(matches!(read(&asking(vec![])), Err(CallError::NoDescriptors)));
        assert!(matches!(read(&RateLimitRequest::default()), Err(CallError::NoDomain)));
    }
}
