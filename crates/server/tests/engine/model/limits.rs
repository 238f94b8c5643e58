//! Which of the policy's limits apply to a request.

use serde_json::Value;

use super::matching::all_hold;
use super::request::Request;
use super::terms::{self, Applied};

/// The limits that apply, in document order: in each group the first that
/// matches and has its key, and every shadow limit before it.
pub(crate) fn applying(
    policy: &Value,
    route_cost: Option<i128>,
    request: &Request<'_>,
) -> (Vec<Applied>, Vec<Lacking>) {
    let mut lacking = Vec::new();
    let mut closed: Vec<&str> = Vec::new();
    let mut applied = Vec::new();
    for limit in terms::entries(policy, "limits") {
        let group = limit.get("group").map(|group| group.as_str().unwrap());
        if group.is_some_and(|group| closed.contains(&group))
            || !all_hold(&limit["match"], request)
            || excepted(limit, request)
        {
            continue;
        }
        let shadow = terms::shadow(policy, limit);
        let key = match (key_of(limit, request), limit.get("missing").and_then(Value::as_str)) {
            (Some(key), _) => key,
            (None, None | Some("skip")) => continue,
            // No request has a key of one value more than the limit has descriptors.
            (None, Some("shared")) => vec!["all without the key".to_owned(); descriptors(limit).len() + 1],
            (None, Some("deny")) => {
                if let (Some(group), false) = (group, shadow) {
                    closed.push(group);
                }
                lacking.push(Lacking {
                    name: limit["name"].as_str().unwrap().to_owned(),
                    tier: tier(limit),
                    shadow,
                });
                continue;
            }
            (None, Some(other)) => panic!("{other} is nothing that can be done about a missing key"),
        };
        if let (Some(group), false) = (group, shadow) {
            closed.push(group);
        }
        let descriptors = descriptors(limit);
        let plain = terms::quota(limit).expect("a limit has numbers");
        let trust = (uses_trust(policy) && is_personal(&descriptors)).then(|| request.trust());
        let quota = trust.map_or(plain.clone(), |trust| plain.trusting(trust));
        applied.push(Applied {
            name: limit["name"].as_str().unwrap().to_owned(),
            tier: tier(limit),
            key,
            quota,
            untrusted: plain.clone(),
            plain,
            trust,
            ceiling: None,
            overridden: None,
            cost: terms::cost(limit, route_cost, request),
            strategy: terms::strategy(limit),
            shadow,
        });
    }
    (applied, lacking)
}

/// A limit that denies a request because it lacks the limit's key.
pub(crate) struct Lacking {
    pub(crate) name: String,
    pub(crate) tier: &'static str,
    pub(crate) shadow: bool,
}

/// Does the entry have an `unless`, of which everything holds?
pub(crate) fn excepted(entry: &Value, request: &Request<'_>) -> bool {
    entry.get("unless").is_some_and(|unless| all_hold(unless, request))
}

/// The values of an entry's key; `None` if one is missing.
pub(crate) fn key_of(entry: &Value, request: &Request<'_>) -> Option<Vec<String>> {
    descriptors(entry).iter().map(|descriptor| request.value(descriptor)).collect()
}

/// `key`, or the key that `scope` stands for.
pub(crate) fn descriptors(entry: &Value) -> Vec<String> {
    match (entry.get("key"), entry.get("scope").and_then(Value::as_str)) {
        (Some(key), _) => {
            key.as_array().unwrap().iter().map(|one| one.as_str().unwrap().to_owned()).collect()
        }
        (None, None | Some("global")) => Vec::new(),
        (None, Some("endpoint")) => vec!["route".to_owned()],
        (None, Some(scope)) => vec![scope.to_owned()],
    }
}

/// Does trust scale limits?
pub(crate) fn uses_trust(policy: &Value) -> bool {
    policy.pointer("/adaptive/trust") == Some(&Value::Bool(true))
}

/// Trust scales only limits whose key identifies a client.
pub(crate) fn is_personal(descriptors: &[String]) -> bool {
    let personal = |one: &String| {
        ["user", "client", "ip", "ip:address"].contains(&one.as_str()) || one.starts_with("header:")
    };
    descriptors.iter().any(personal)
}

/// The tier of an entry: what its key distinguishes.
pub(crate) fn tier(entry: &Value) -> &'static str {
    match &descriptors(entry)[..] {
        [] => "global",
        [one] => match one.as_str() {
            "tenant" => "tenant",
            "user" => "user",
            "ip" | "ip:address" => "ip",
            "route" => "route",
            "client" => "client",
            _ => "custom",
        },
        _ => "custom",
    }
}
