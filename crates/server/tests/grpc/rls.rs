//! Envoy's rate limit service.

use std::collections::BTreeMap;

use prost_types::value::Kind;

use super::client::{Client, RLS, Server, framed};
use super::proto::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use super::proto::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::{
    Entry, RateLimitOverride,
};
use super::proto::envoy::service::ratelimit::v3::rate_limit_response::Code;
use super::proto::envoy::service::ratelimit::v3::rate_limit_response::rate_limit::Unit;
use super::proto::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};
use super::proto::envoy::r#type::v3::RateLimitUnit;

const POLICY: &str = r#"
version: 1
limits:
  - name: per-user
    key: [user]
    sustained: { rate: 3, window: hour }
    headers: [x-ratelimit, ietf]
  - name: per-address
    key: [ip]
    sustained: { rate: 10, window: minute }
    burst: { capacity: 1000 }
  - name: imports
    match: { domain: jobs, "descriptor:kind": import }
    key: []
    sustained: { rate: 5, window: 30s }
  - { name: soft, match: { path: /soft }, key: [], sustained: { rate: 1, window: hour },
      strategy: degrade, degrade: { tag: slow } }
  - { name: watched, match: { path: /watched }, key: [], sustained: { rate: 1, window: hour }, mode: shadow }
  - name: as-envoy-says
    match: { path: /addresses }
    key: ["descriptor:remote_address"]
    sustained: { rate: 1, window: hour }
    burst: { capacity: 1000 }
block:
  - { user: "666", reason: abuse }
  - { ip: "::ffff:198.51.100.0/120", reason: abuse }
"#;

fn descriptor(entries: &[(&str, &str)]) -> RateLimitDescriptor {
    let entry = |(key, value): &(&str, &str)| Entry { key: (*key).into(), value: (*value).into() };
    RateLimitDescriptor { entries: entries.iter().map(entry).collect(), ..Default::default() }
}

fn asking(descriptors: &[RateLimitDescriptor]) -> RateLimitRequest {
    RateLimitRequest { domain: "edge".into(), descriptors: descriptors.to_vec(), hits_addend: 0 }
}

async fn ask(client: &mut Client, descriptors: &[RateLimitDescriptor]) -> RateLimitResponse {
    let answer: RateLimitResponse = client.ask(RLS, &asking(descriptors)).await;
    assert_eq!(answer.statuses.len(), descriptors.len());
    answer
}

fn headers(answer: &RateLimitResponse) -> BTreeMap<String, String> {
    answer
        .response_headers_to_add
        .iter()
        .map(|header| (header.key.to_lowercase(), header.value.clone()))
        .collect()
}

#[tokio::test]
async fn a_limit_admits_then_refuses_and_says_why() {
    let server = Server::start(POLICY);
    let mut client = server.connect().await;
    let user = [descriptor(&[("user_id", "42")])];
    for left in [2, 1, 0] {
        let answer = ask(&mut client, &user).await;
        assert_eq!(answer.overall_code(), Code::Ok);
        let status = &answer.statuses[0];
        assert_eq!((status.code(), status.limit_remaining), (Code::Ok, left));
        let limit = status.current_limit.as_ref().expect("a limit applies");
        assert_eq!((limit.requests_per_unit, limit.unit(), limit.name.as_str()), (3, Unit::Hour, "per-user"));
        let headers = headers(&answer);
        assert_eq!(headers["x-ratelimit-limit"], "3");
        assert_eq!(headers["x-ratelimit-remaining"], left.to_string());
        assert!(headers["ratelimit"].starts_with(&format!("\"per-user\";r={left};t=")), "{headers:?}");
        assert!(!headers.contains_key("retry-after"));
        assert!(answer.dynamic_metadata.is_none() && answer.raw_body.is_empty());
    }
    let answer = ask(&mut client, &user).await;
    assert_eq!((answer.overall_code(), answer.statuses[0].code()), (Code::OverLimit, Code::OverLimit));
    let reset = answer.statuses[0].duration_until_reset.expect("it is known");
    assert!((3_590..=3_600).contains(&reset.seconds), "{reset:?}");
    let headers = headers(&answer);
    let wait: u64 = headers["retry-after"].parse().expect("seconds");
    assert!((1_190..=1_200).contains(&wait), "{wait}");
    assert_eq!(headers["x-ratelimit-rule"], "per-user");
    assert_eq!(headers["content-type"], "application/problem+json");
    assert_eq!(headers["cache-control"], "no-store");
    let body: serde_json::Value = serde_json::from_slice(&answer.raw_body).expect("a problem");
    assert_eq!((&body["status"], &body["violated_rule"]), (&429.into(), &"per-user".into()));
    let metadata = answer.dynamic_metadata.expect("it is refused").fields;
    let kind = |name: &str| metadata[name].kind.clone().expect("a value");
    assert_eq!(kind("violated_rule"), Kind::StringValue("per-user".into()));
    assert_eq!(kind("violated_tier"), Kind::StringValue("user".into()));
    assert_eq!(kind("reason"), Kind::StringValue("token_bucket_exceeded".into()));
    assert!(matches!(kind("retry_after_ms"), Kind::NumberValue(wait) if wait > 1_190_000.0));
}

#[tokio::test]
async fn statuses_stand_in_the_order_of_the_descriptors() {
    let server = Server::start(POLICY);
    let mut client = server.connect().await;
    let all = [
        descriptor(&[("generic_key", "nobody knows it")]),
        descriptor(&[("remote_address", "203.0.113.7")]),
        descriptor(&[("user_id", "1")]),
    ];
    for _ in 0..3 {
        assert_eq!(ask(&mut client, &all).await.overall_code(), Code::Ok);
    }
    let answer = ask(&mut client, &all).await;
    assert_eq!(answer.overall_code(), Code::OverLimit);
    let codes: Vec<Code> = answer.statuses.iter().map(|status| status.code()).collect();
    assert_eq!(codes, [Code::Ok, Code::Ok, Code::OverLimit]);
    let name = |place: usize| answer.statuses[place].current_limit.as_ref().map(|limit| limit.name.as_str());
    assert_eq!([name(0), name(1), name(2)], [None, Some("per-address"), Some("per-user")]);
    assert_eq!(
        headers(&answer)["x-ratelimit-rule"],
        "per-user",
        "the headers are those of the limit that refused"
    );
    assert_eq!(answer.statuses[1].limit_remaining, 997, "a refused request is charged to no limit");
}

#[tokio::test]
async fn hits_are_taken_looked_at_and_given_back() {
    let server = Server::start(POLICY);
    let mut client = server.connect().await;
    let user = |hits: Option<u64>, is_negative_hits| {
        [RateLimitDescriptor { hits_addend: hits, is_negative_hits, ..descriptor(&[("user_id", "7")]) }]
    };
    let left = |answer: &RateLimitResponse| answer.statuses[0].limit_remaining;
    assert_eq!(left(&ask(&mut client, &user(Some(0), false)).await), 3, "zero takes nothing");
    assert_eq!(left(&ask(&mut client, &user(Some(2), false)).await), 1);
    let both = RateLimitRequest { hits_addend: 2, ..asking(&user(None, false)) };
    let answer: RateLimitResponse = client.ask(RLS, &both).await;
    assert_eq!((answer.overall_code(), left(&answer)), (Code::OverLimit, 1), "two are not there");
    assert_eq!(left(&ask(&mut client, &user(None, false)).await), 0);
    let back = ask(&mut client, &user(Some(2), true)).await;
    assert_eq!((back.overall_code(), left(&back)), (Code::Ok, 2));
    let back = ask(&mut client, &user(Some(u64::MAX), true)).await;
    assert_eq!((back.overall_code(), left(&back)), (Code::Ok, 3), "never above the capacity");
    let never = ask(&mut client, &user(Some(u64::MAX), false)).await;
    assert_eq!(never.overall_code(), Code::OverLimit);
    assert!(!headers(&never).contains_key("retry-after"), "no wait will do");
}

#[tokio::test]
async fn a_domain_and_descriptors_choose_limits() {
    let server = Server::start(POLICY);
    let mut client = server.connect().await;
    let import = descriptor(&[("kind", "import")]);
    let elsewhere = ask(&mut client, std::slice::from_ref(&import)).await;
    assert!(elsewhere.statuses[0].current_limit.is_none());
    let asked = RateLimitRequest { domain: "jobs".into(), ..asking(&[import]) };
    let answer: RateLimitResponse = client.ask(RLS, &asked).await;
    let limit = answer.statuses[0].current_limit.as_ref().expect("it applies");
    assert_eq!((limit.requests_per_unit, limit.unit()), (10, Unit::Minute), "5 in 30 s");
}

#[tokio::test]
async fn a_limit_brought_along_replaces_the_policy() {
    let server = Server::start(POLICY);
    let mut client = server.connect().await;
    let with = |requests_per_unit, unit: RateLimitUnit, user: &str| {
        let limit = Some(RateLimitOverride { requests_per_unit, unit: unit.into() });
        [RateLimitDescriptor { limit, ..descriptor(&[("user_id", user)]) }]
    };
    for left in (0..5).rev() {
        let answer = ask(&mut client, &with(5, RateLimitUnit::Week, "1")).await;
        let limit = answer.statuses[0].current_limit.clone().expect("its own");
        assert_eq!((limit.requests_per_unit, limit.unit()), (5, Unit::Week));
        assert_eq!((answer.overall_code(), answer.statuses[0].limit_remaining), (Code::Ok, left));
    }
    let over = ask(&mut client, &with(5, RateLimitUnit::Week, "1")).await;
    assert_eq!(over.overall_code(), Code::OverLimit);
    let [mut back] = with(5, RateLimitUnit::Week, "1");
    (back.is_negative_hits, back.hits_addend) = (true, Some(2));
    let back = ask(&mut client, &[back]).await;
    assert_eq!((back.overall_code(), back.statuses[0].limit_remaining), (Code::Ok, 2));
    assert_eq!(ask(&mut client, &with(5, RateLimitUnit::Week, "2")).await.overall_code(), Code::Ok);
    assert_eq!(ask(&mut client, &with(6, RateLimitUnit::Week, "1")).await.overall_code(), Code::Ok);
    let none = ask(&mut client, &with(0, RateLimitUnit::Second, "1")).await;
    assert_eq!(none.overall_code(), Code::OverLimit, "a limit of zero admits nothing");
}

fn own(requests_per_unit: u32, unit: RateLimitUnit, user: &str) -> RateLimitDescriptor {
    let limit = Some(RateLimitOverride { requests_per_unit, unit: unit.into() });
    RateLimitDescriptor { limit, ..descriptor(&[("user_id", user)]) }
}

fn giving_back(descriptor: RateLimitDescriptor) -> RateLimitDescriptor {
    RateLimitDescriptor { is_negative_hits: true, ..descriptor }
}

fn codes(answer: &RateLimitResponse) -> Vec<Code> {
    answer.statuses.iter().map(|status| status.code()).collect()
}

fn left(answer: &RateLimitResponse) -> Vec<u32> {
    answer.statuses.iter().map(|status| status.limit_remaining).collect()
}

#[tokio::test]
async fn beside_what_is_closed_the_others_are_looked_at_only() {
    let server = Server::start(POLICY);
    let mut client = server.connect().await;
    let day = RateLimitUnit::Day;
    let (mut two, closed) = (own(2, day, "1"), own(0, day, "1"));
    two.hits_addend = Some(2);
    let all = [descriptor(&[("user_id", "1")]), two.clone(), closed];
    for _ in 0..4 {
        let answer = ask(&mut client, &all).await;
        assert_eq!(codes(&answer), [Code::Ok, Code::Ok, Code::OverLimit]);
        assert_eq!((answer.overall_code(), &left(&answer)[..2]), (Code::OverLimit, &[3, 2][..]));
    }
    assert_eq!(left(&ask(&mut client, &all[1..2]).await), [0]);
    let answer = ask(&mut client, &all).await;
    assert_eq!(codes(&answer), [Code::Ok, Code::OverLimit, Code::OverLimit], "one's own limit is used up");
}

#[tokio::test]
async fn ones_own_limit_and_the_policys_stand_or_fall_together() {
    let server = Server::start(POLICY);
    let mut client = server.connect().await;
    let both = [descriptor(&[("user_id", "1")]), own(2, RateLimitUnit::Day, "1")];
    assert_eq!(left(&ask(&mut client, &both).await), [2, 1]);
    assert_eq!(left(&ask(&mut client, &both).await), [1, 0]);
    for _ in 0..2 {
        let answer = ask(&mut client, &both).await;
        assert_eq!(codes(&answer), [Code::Ok, Code::OverLimit]);
        assert_eq!(left(&answer), [1, 0], "the policy's is not charged");
    }
}

#[tokio::test]
async fn a_request_that_is_refused_gives_nothing_back() {
    let server = Server::start(POLICY);
    let mut client = server.connect().await;
    let (day, user) = (RateLimitUnit::Day, || descriptor(&[("user_id", "1")]));
    ask(&mut client, &[user(), own(2, day, "2")]).await;
    let back = [giving_back(user()), giving_back(own(2, day, "2"))];
    for refusing in [own(0, day, "9"), descriptor(&[("user_id", "666")])] {
        let all = [&back[..], &[refusing]].concat();
        let answer = ask(&mut client, &all).await;
        assert_eq!(codes(&answer), [Code::Ok, Code::Ok, Code::OverLimit]);
        assert_eq!(&left(&answer)[..2], [2, 1], "as it was");
    }
    assert_eq!(left(&ask(&mut client, &back).await), [3, 2]);
}

#[tokio::test]
async fn what_cannot_be_given_back_is_found_out_before_anything_is_charged() {
    let server = Server::start(POLICY);
    let mut client = server.connect().await;
    let user = descriptor(&[("user_id", "1")]);
    let too_fast = giving_back(own(u32::MAX, RateLimitUnit::Second, "1"));
    let asked = framed(&asking(&[user.clone(), too_fast]));
    let ended = client.call(RLS, &[], asked).await;
    assert_eq!(ended.status(), "3", "{}", ended.message());
    assert_eq!(left(&ask(&mut client, &[user]).await), [2]);
}

#[tokio::test]
async fn degraded_watched_and_blocked_are_told() {
    let server = Server::start(POLICY);
    let mut client = server.connect().await;
    let soft = [descriptor(&[("path", "/soft")])];
    assert!(ask(&mut client, &soft).await.dynamic_metadata.is_none());
    let marked = ask(&mut client, &soft).await;
    assert_eq!(marked.overall_code(), Code::Ok);
    assert_eq!(headers(&marked)["x-ratelimit-degraded"], "slow");
    assert_eq!(marked.request_headers_to_add[0].key, "x-ratelimit-degraded");
    let metadata = marked.dynamic_metadata.expect("it is marked").fields;
    assert_eq!(metadata["degraded"].kind, Some(Kind::StringValue("slow".into())));

    let watched = [descriptor(&[("path", "/watched")])];
    ask(&mut client, &watched).await;
    let answer = ask(&mut client, &watched).await;
    assert_eq!(answer.overall_code(), Code::Ok);
    let metadata = answer.dynamic_metadata.expect("it would be refused").fields;
    assert!(matches!(&metadata["shadow_denied"].kind, Some(Kind::ListValue(list)) if list.values.len() == 1));

    let blocked = ask(&mut client, &[descriptor(&[("user_id", "666")])]).await;
    assert_eq!(blocked.overall_code(), Code::OverLimit);
    assert!(blocked.statuses[0].current_limit.is_none());
    assert_eq!(headers(&blocked)["x-ratelimit-rule"], "block");
}

#[tokio::test]
async fn what_makes_no_sense_is_an_error_that_says_so() {
    let server = Server::start(POLICY);
    let mut client = server.connect().await;
    let unit = RateLimitOverride { requests_per_unit: 1, unit: 0 };
    let cases = [
        (
            RateLimitRequest { domain: String::new(), ..asking(&[descriptor(&[])]) },
            "domain must not be empty",
        ),
        (asking(&[]), "descriptors must not be empty"),
        (
            asking(&vec![descriptor(&[("a", "b")]); 33]),
            "a request may have at most 32 descriptors; this one has 33",
        ),
        (
            asking(&[descriptor(&[("a", "b"); 17])]),
            "a descriptor may have at most 16 entries; descriptors[0] has 17",
        ),
        (
            asking(&[RateLimitDescriptor { limit: Some(unit), ..descriptor(&[]) }]),
            "descriptors[0].limit.unit must be SECOND, MINUTE, HOUR, DAY, WEEK, MONTH or YEAR",
        ),
    ];
    for (asked, wanted) in cases {
        let ended = client.call(RLS, &[], framed(&asked)).await;
        assert_eq!((ended.http, ended.status(), ended.message()), (200, "3", wanted));
    }
}

#[tokio::test]
async fn a_mapped_address_is_the_address_it_maps() {
    let server = Server::start(POLICY);
    let mut client = server.connect().await;
    for (ip, left) in [("203.0.113.7", 999), ("::ffff:203.0.113.7", 998), ("::ffff:cb00:7107", 997)] {
        let answer = ask(&mut client, &[descriptor(&[("remote_address", ip)])]).await;
        assert_eq!(answer.statuses[0].limit_remaining, left, "{ip}");
    }
    for (ip, left) in [("203.0.113.8", 999), ("::ffff:203.0.113.8", 998)] {
        let answer = ask(&mut client, &[descriptor(&[("remote_address", ip), ("path", "/addresses")])]).await;
        assert_eq!(answer.statuses[0].limit_remaining, left, "{ip}");
    }
    for ip in ["198.51.100.9", "::ffff:198.51.100.9"] {
        let answer = ask(&mut client, &[descriptor(&[("remote_address", ip)])]).await;
        assert_eq!(answer.overall_code(), Code::OverLimit, "{ip}");
    }
}
