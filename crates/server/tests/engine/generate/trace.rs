//! Random traces of requests over seconds to minutes.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{object, sometimes, word};

/// Five to sixty requests, at instants that never go back.
pub(super) fn trace() -> impl Strategy<Value = Vec<Value>> {
    prop::collection::vec((gap(), request()), 5..=60).prop_map(|steps| {
        let mut micros: u64 = 0;
        let mut trace = Vec::new();
        for (gap, mut request) in steps {
            micros += gap;
            request["at_ms"] = at_ms(micros);
            trace.push(request);
        }
        trace
    })
}

/// Milliseconds, with up to three decimals if they are not whole.
fn at_ms(micros: u64) -> Value {
    if micros.is_multiple_of(1_000) { json!(micros / 1_000) } else { json!(micros as f64 / 1_000.0) }
}

/// Microseconds between requests.
fn gap() -> impl Strategy<Value = u64> {
    prop_oneof![
        5 => Just(0u64),
        6 => (1u64..=50).prop_map(|ms| ms * 1_000),
        3 => (1u64..=15).prop_map(|tenths| tenths * 100_000),
        2 => 1u64..=3_000_000,
        1 => (1u64..=25).prop_map(|seconds| seconds * 1_000_000),
    ]
}

fn request() -> impl Strategy<Value = Value> {
    let who = (
        sometimes(85, user()),
        sometimes(65, word(&["t0", "t1", "t1", "t2", "t2", "t3", "t4", "ghost"])),
        sometimes(40, word(&["c1", "c2"])),
        sometimes(60, word(ADDRESSES)),
        sometimes(60, word(&["free", "trial", "pro"])),
    );
    let what = (
        sometimes(60, word(&["GET", "POST", "get", "DELETE"])),
        sometimes(50, word(HOSTS)),
        sometimes(15, word(&["up", "down", "elsewhere", "off"])),
        sometimes(80, word(PATHS)),
        sometimes(35, word(&["w=2&q=cats", "q=cats+dogs&q=no", "q=cats%20dogs&w=7", "w=none", "flag&w=0"])),
    );
    let extra = (
        sometimes(50, headers()),
        sometimes(40, claims()),
        sometimes(35, descriptors()),
        sometimes(30, word(&["edge"])),
    );
    let credential = sometimes(12, word(&["none", "valid", "invalid", "unknown_key"]));
    // A simulation serves first come, first served, whatever the priority.
    let priority = sometimes(10, (0u32..=100).prop_map(|priority| json!(priority)));
    let weight = (sometimes(35, cost()), sometimes(55, trust()), credential, priority);
    (who, what, extra, weight).prop_map(|(who, what, extra, (cost, trust, credential, priority))| {
        let (headers, jwt, descriptors, domain) = extra;
        let (user, tenant, client, ip, plan) = who;
        let (method, host, upstream, path, query) = what;
        object([
            ("at_ms", Some(json!(0))),
            ("user", user),
            ("tenant", tenant),
            ("client", client),
            ("ip", ip),
            ("plan", plan),
            ("method", method),
            ("host", host),
            ("upstream", upstream),
            ("path", path),
            ("query", query),
            ("headers", headers),
            ("jwt", jwt),
            ("credential", credential),
            ("descriptors", descriptors),
            ("domain", domain),
            ("cost", cost),
            ("trust", trust),
            ("priority", priority),
        ])
    })
}

/// A user as text, and one who is also written as a number.
fn user() -> impl Strategy<Value = Value> {
    prop_oneof![6 => word(&["u1", "u1", "u1", "u2"]), 1 => Just(json!("7")), 1 => Just(json!(7))]
}

/// Two spellings of two addresses, two of one /64, one of another.
const ADDRESSES: &[&str] = &[
    "10.0.0.5",
    "::ffff:10.0.0.5",
    "203.0.113.7",
    "::ffff:cb00:7107",
    "2001:db8:1:2::1",
    "2001:db8:1:2:ffff::2",
    "2001:db8:1:3::1",
];

/// Several spellings of few hosts.
const HOSTS: &[&str] = &[
    "api.example.com",
    "API.Example.com",
    "api.example.com:8443",
    "other.example.com.",
    "deep.other.example.com",
    "example.com",
    "badexample.com",
    "up.test",
    "UP.test:80",
];

/// Several spellings of few paths.
const PATHS: &[&str] = &[
    "/api/search",
    "//api/./search",
    "/api/%73earch",
    "/api/x/../search?x=1",
    "/api",
    "/api/a/b",
    "/login",
    "//login",
    "/",
    "/v1/chat/completions",
    "/v1/models",
    "/API/Search",
    "/api%2Fsearch",
    "/api;v=1/search;x",
    "/x/..;/api%5csearch",
    "/Login%00",
    "/login;jsessionid=1",
];

fn headers() -> impl Strategy<Value = Value> {
    let weight =
        sometimes(60, word(&["3", "1", "0", "-2", "many", "2.5", "", "99999999999999999999999999999"]));
    (sometimes(60, word(&["k1", "k2"])), weight)
        .prop_map(|(key, weight)| object([("x-api-key", key), ("X-Weight", weight)]))
}

fn claims() -> impl Strategy<Value = Value> {
    (sometimes(80, word(&["member", "admin"])), sometimes(40, word(&["2", "5"])))
        .prop_map(|(role, weight)| object([("role", role), ("weight", weight)]))
}

fn descriptors() -> impl Strategy<Value = Value> {
    (sometimes(80, word(&["x", "y"])), sometimes(40, word(&["2", "5"])))
        .prop_map(|(key, weight)| object([("generic_key", key), ("weight", weight)]))
}

fn cost() -> impl Strategy<Value = Value> {
    prop_oneof![
        9 => (1u64..=3).prop_map(|cost| json!(cost)),
        3 => Just(json!(0)),
        1 => Just(json!(7)),
        1 => Just(json!(4_294_967_295u64)),
    ]
}

fn trust() -> impl Strategy<Value = Value> {
    prop::sample::select(&[0.0f64, 0.29, 0.5, 0.999, 1.0][..])
        .prop_map(|trust| if trust.fract() == 0.0 { json!(trust as u64) } else { json!(trust) })
}
