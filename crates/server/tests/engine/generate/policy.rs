//! Random policies, restricted to what the documentation specifies.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::limits::{PATTERNS, conditions, limit, merge, plain_condition, queue};
use super::tenants::{allot, limits_of, tenants};
use super::{object, sometimes, word};

/// The topic of a policy: features that cannot be mixed freely.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Flavour {
    Plain,
    /// One limit queues; all are token buckets.
    Queue,
    /// Requests have trust scores.
    Trust,
    /// Tenants decide: there is hardly anything else.
    Tree,
}

/// Any policy.
pub(super) fn policy() -> impl Strategy<Value = (Value, Flavour)> {
    let flavour = prop_oneof![3 => Just(Flavour::Plain), 2 => Just(Flavour::Queue), 2 => Just(Flavour::Trust), 3 => Just(Flavour::Tree)];
    let lists = (
        prop::collection::vec(limit(), 0..=8),
        sometimes(40, prop::collection::vec(route(), 1..=3).prop_map(Value::from)),
        sometimes(60, tenants()),
        sometimes(50, upstreams()),
        sometimes(20, prop::collection::vec(gate(), 1..=2).prop_map(Value::from)),
        sometimes(20, prop::collection::vec(gate(), 1..=2).prop_map(Value::from)),
        sometimes(30, prop::collection::vec(detector(), 1..=2).prop_map(Value::from)),
    );
    let defaults = (
        sometimes(8, word(&["shadow"])),
        sometimes(30, word(&["deny", "deny", "allow"])),
        sometimes(40, spellings()),
        sometimes(30, word(&["t0", "t1"])),
    );
    let queueing = (queue(), prop::bool::weighted(0.3));
    let tree = (tenants(), upstreams(), 0u32..3);
    (flavour, defaults, lists, queueing, tree).prop_map(
        |(flavour, (mode, unknown_tenant, paths, tenant), lists, queueing, tree)| {
            let (limits, routes, tenants, upstreams, allow, block, bursts) = lists;
            let defaults = object([
                ("mode", mode),
                ("unknown_tenant", unknown_tenant),
                ("paths", paths),
                ("tenant", tenant),
            ]);
            let adaptive = (flavour == Flavour::Trust).then(|| json!({"trust": true}));
            let mut policy = object([
                ("version", Some(json!(1))),
                ("defaults", Some(defaults)),
                ("limits", Some(Value::from(limits))),
                ("routes", routes),
                ("tenants", tenants),
                ("upstreams", upstreams),
                ("allow", allow),
                ("block", block),
                ("bursts", bursts),
                ("adaptive", adaptive),
            ]);
            if flavour == Flavour::Tree {
                keep_tree(&mut policy, tree);
            }
            settle(&mut policy, flavour);
            if flavour == Flavour::Queue {
                add_queue(&mut policy, queueing);
            }
            (policy, flavour)
        },
    )
}

/// Removes what decides before tenants do, and often lets the root allot a budget.
fn keep_tree(policy: &mut Value, (mut tenants, upstreams, allots): (Value, Value, u32)) {
    for list in ["allow", "block", "bursts"] {
        policy.as_object_mut().expect("an object").remove(list);
    }
    let all = tenants.as_array_mut().expect("a list");
    match allots {
        0 => {}
        1 => allot(all, None),
        _ => allot(all, Some("up")),
    }
    policy["limits"] = json!([]);
    policy["tenants"] = tenants;
    policy["upstreams"] = upstreams;
}

/// `defaults.paths`: which spellings of a path are equal.
fn spellings() -> impl Strategy<Value = Value> {
    let flag = || sometimes(70, any::<bool>().prop_map(Value::from));
    (flag(), flag(), flag()).prop_map(|(case, slash, params)| {
        object([("ignore_case", case), ("decode_slash", slash), ("strip_params", params)])
    })
}

/// One limit queues. It applies to all requests and there are few other limits, so that requests do queue.
fn add_queue(policy: &mut Value, (queue, prefers_tenant): (Value, bool)) {
    let limits = policy["limits"].as_array_mut().expect("limits are there");
    let place = if limits.is_empty() || prefers_tenant { "/tenants/0/rate_limit" } else { "/limits/0" };
    limits.truncate(if prefers_tenant { 1 } else { 2 });
    if let Some(Value::Object(terms)) = policy.pointer_mut(place) {
        for member in ["match", "unless", "missing", "group", "mode", "enabled", "degrade"] {
            terms.remove(member);
        }
        terms.extend(queue.as_object().expect("an object").clone());
    }
}

fn route() -> impl Strategy<Value = Value> {
    let methods = sometimes(30, word(&["GET", "POST"]).prop_map(|method| json!([method])));
    let cost = sometimes(80, (1u32..=4).prop_map(|cost| json!(cost)));
    let upstream = sometimes(25, word(&["up", "down", "off"]));
    (word(PATTERNS), methods, upstream, sometimes(20, conditions()), cost).prop_map(
        |(path, methods, upstream, mut unless, cost)| {
            // The route of a request is not known before it is found.
            if let Some(Value::Object(unless)) = &mut unless {
                unless.remove("route");
            }
            let unless = unless.filter(|unless| *unless != json!({}));
            object([
                ("path", Some(path)),
                ("methods", methods),
                ("upstream", upstream),
                ("unless", unless),
                ("cost", cost),
            ])
        },
    )
}

/// `upstreams`: always with the names that routes refer to.
fn upstreams() -> impl Strategy<Value = Value> {
    let hosts = || prop::sample::subsequence(HOSTS, 0..=2).prop_map(|hosts| json!(hosts));
    (hosts(), hosts(), hosts(), any::<bool>()).prop_map(|(up, down, off, swap)| {
        let with = |name: &str, hosts: Value| {
            if hosts == json!([]) { json!({"name": name}) } else { json!({"name": name, "hosts": hosts}) }
        };
        let mut off = with("off", off);
        off["enabled"] = json!(false);
        let mut all = vec![off, with("up", up), with("down", down)];
        if swap {
            all.reverse();
        }
        Value::from(all)
    })
}

/// Patterns of hosts.
const HOSTS: &[&str] =
    &["api.example.com", "*.example.com", "*.other.example.com", "Example.COM", "up.test", "*.test"];

/// An entry of `allow` or `block`.
pub(super) fn gate() -> impl Strategy<Value = Value> {
    let until =
        sometimes(60, word(&["1970-01-01T00:00:05Z", "1970-01-01T00:00:20Z", "1970-01-01T00:01:00Z"]));
    // Some entries depend on the credential and on something that is known before it.
    let conditions = (plain_condition(), prop::option::weighted(0.3, plain_condition()));
    (conditions, until, sometimes(30, word(&["abuse"]))).prop_map(|((one, other), until, reason)| {
        let mut entry = object([("until", until), ("reason", reason)]);
        merge(&mut entry, one);
        merge(&mut entry, other.unwrap_or_else(|| json!({})));
        entry
    })
}

/// An entry of `bursts`, without a name.
fn detector() -> impl Strategy<Value = Value> {
    let key = prop_oneof![
        Just(json!([])),
        Just(json!(["user"])),
        Just(json!(["user", "route"])),
        Just(json!(["ip"])),
        Just(json!(["upstream"])),
        Just(json!(["ip", "credential"]))
    ];
    (key, word(&["1s", "5s"]), 1u32..=4, word(&["3s", "10s", "60s"])).prop_map(
        |(key, window, threshold, penalty)| {
            json!({"key": key, "window": window, "threshold": threshold, "penalty": penalty})
        },
    )
}

/// Names everything, and removes what the documentation leaves unspecified.
fn settle(policy: &mut Value, flavour: Flavour) {
    let is_shadow = policy["defaults"]["mode"] == "shadow";
    if let (true, Some(Value::Array(bursts))) = (is_shadow, policy.get_mut("bursts")) {
        // It is unspecified how several detectors are reported.
        bursts.truncate(1);
    }
    name(policy, "limits", "limit");
    name(policy, "bursts", "detector");
    let declares = policy.get("upstreams").is_some();
    if let (false, Some(Value::Array(routes))) = (declares, policy.get_mut("routes")) {
        // Routes name declared upstreams only.
        routes.iter_mut().for_each(|route| _ = route.as_object_mut().expect("an object").remove("upstream"));
    }
    if let (false, Some(Value::Array(tenants))) = (declares, policy.get_mut("tenants")) {
        tenants
            .iter_mut()
            .for_each(|tenant| _ = tenant.as_object_mut().expect("an object").remove("upstreams"));
    }
    let default = policy["defaults"].get("tenant").cloned();
    let is_default = |tenant: &Value| Some(&tenant["id"]) == default.as_ref() || tenant["id"] == "*";
    if policy.get("tenants").is_some_and(|all| !all.as_array().expect("a list").iter().any(is_default)) {
        policy["defaults"].as_object_mut().expect("an object").remove("tenant");
    }
    for limit in policy["limits"].as_array_mut().expect("limits are there") {
        settle_terms(limit, flavour);
    }
    if let Some(Value::Array(tenants)) = policy.get_mut("tenants") {
        for limit in tenants.iter_mut().flat_map(limits_of) {
            settle_terms(limit, flavour);
        }
    }
}

fn settle_terms(terms: &mut Value, flavour: Flavour) {
    let terms = terms.as_object_mut().expect("an object");
    if flavour == Flavour::Queue {
        terms.remove("algorithm");
    }
    // It is unspecified which entries a log drops first when its limit shrinks.
    if flavour == Flavour::Trust && terms.get("algorithm") == Some(&json!("sliding_log")) {
        terms.insert("algorithm".to_owned(), json!("sliding_window"));
    }
}

fn name(policy: &mut Value, list: &str, prefix: &str) {
    if let Some(Value::Array(entries)) = policy.get_mut(list) {
        for (number, entry) in entries.iter_mut().enumerate() {
            entry["name"] = json!(format!("{prefix}-{number}"));
        }
    }
}
