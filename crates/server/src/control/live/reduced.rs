//! Of a request whose keys are acted on, the parts that other nodes need: those that its keys depend on. The rest may be
//! secrets, and is carried nowhere.

use serde_json::{Map, Value};
use tidegate::engine::{ChosenLimits, Limiter};

use crate::node::store::NodeStore;
use crate::wire;

/// A part of a request that may be left out.
enum RequestPart<'r> {
    Member(&'r str, &'r Value),
    /// A member of a member: a header, a claim, a descriptor.
    Inner(&'r str, &'r str, &'r Value),
    /// A name and a value of the query, which is one text.
    Query(&'r str),
}

/// A request whose query is apart from its path, which may then be told. Where it has both a query and one in its path, the
/// engine does not read the latter.
pub(crate) fn with_query_apart(mut request: Value) -> Value {
    let Some(path) = request.get("path").and_then(Value::as_str) else { return request };
    let in_path = path.split_once('?').map(|(_, query)| Value::from(query));
    let path = Value::from(path.split(['?', '#']).next().unwrap_or_default());
    request["path"] = path;
    if let Some(query) = in_path
        && request.get("query").is_none_or(Value::is_null)
    {
        request["query"] = query;
    }
    request
}

/// A request without what the keys of the chosen limits do not depend on. Its query must be apart from its path.
pub(super) fn reduced(limiter: &Limiter<NodeStore>, request: &Value, chosen: ChosenLimits<'_>) -> Value {
    let text = request.to_string();
    let Ok(whole) = wire::request(&text) else { return Value::Null };
    let touch_the_same = |parts: &[&RequestPart<'_>]| {
        let text = of_parts(parts).to_string();
        wire::request(&text).is_ok_and(|less| limiter.touch_the_same(&whole, &less, chosen))
    };
    of_parts(&needed(&parts_of(request), touch_the_same))
}

fn parts_of(request: &Value) -> Vec<RequestPart<'_>> {
    let mut parts = Vec::new();
    for (name, value) in request.as_object().into_iter().flatten() {
        match value {
            Value::Object(inner) => {
                parts.extend(inner.iter().map(|(part, value)| RequestPart::Inner(name, part, value)));
            }
            Value::String(query) if name == "query" => {
                let query = query.strip_prefix('?').unwrap_or(query);
                parts.extend(query.split('&').map(RequestPart::Query));
            }
            value => parts.push(RequestPart::Member(name, value)),
        }
    }
    parts
}

/// The request that has these parts.
fn of_parts(parts: &[&RequestPart<'_>]) -> Value {
    let (mut members, mut query) = (Map::new(), Vec::new());
    for part in parts {
        match part {
            RequestPart::Member(name, value) => drop(members.insert((*name).to_owned(), (*value).clone())),
            RequestPart::Inner(member, name, value) => {
                let member = members.entry(*member).or_insert_with(|| Value::Object(Map::new()));
                member[*name] = (*value).clone();
            }
            RequestPart::Query(part) => query.push(*part),
        }
    }
    if !query.is_empty() {
        members.insert("query".to_owned(), query.join("&").into());
    }
    Value::Object(members)
}

/// The parts that must be there for something to hold. Halves are left out before single parts: for each part that is
/// needed, that asks about twice the logarithm of how many there are, and a request may have tens of thousands.
fn needed<T>(parts: &[T], mut holds: impl FnMut(&[&T]) -> bool) -> Vec<&T> {
    let mut is_kept = vec![true; parts.len()];
    let kept = |is_kept: &[bool]| -> Vec<&T> {
        parts.iter().zip(is_kept).filter(|(_, is_kept)| **is_kept).map(|(part, _)| part).collect()
    };
    let mut open = vec![(0, parts.len())];
    while let Some((begin, end)) = open.pop() {
        is_kept[begin..end].fill(false);
        if begin == end || holds(&kept(&is_kept)) {
            continue;
        }
        is_kept[begin..end].fill(true);
        if end - begin > 1 {
            let middle = begin + (end - begin) / 2;
            open.extend([(middle, end), (begin, middle)]);
        }
    }
    kept(&is_kept)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tidegate::{MemoryOptions, MonotonicClock};
    use tidegate_policy::{Policy, Rule};

    use super::*;

    const POLICY: &str = "version: 1
limits:
- { name: by-key, key: [\"header:x-api-key\"], match: { \"query:kind\": a }, sustained: { rate: 1 } }
- { name: by-user, key: [user, \"jwt:sub\"], unless: { \"header:x-free\": \"yes\" }, sustained: { rate: 1 } }
";

    fn kept(request: &Value, limits: &[&str]) -> Value {
        let clock = MonotonicClock::new();
        let memory = tidegate::Memory::with_clock(
            MemoryOptions { max_keys: 1_000, ..MemoryOptions::default() },
            clock.clone(),
        );
        let store = NodeStore::Local(memory.expect("there is memory for a few keys"));
        let limiter =
            Limiter::with_store(Policy::parse(POLICY).expect("a policy"), store, clock).expect("they fit");
        reduced(&limiter, request, &|rule: &Rule| limits.contains(&&*rule.name))
    }

    #[test]
    fn only_what_the_keys_depend_on_is_kept() {
        let request = json!({
            "user": "42", "path": "/login", "ip": "203.0.113.7", "cost": 3, "query": "token=zqsecret&kind=a&x=zqsecret",
            "headers": { "X-Api-Key": "k1", "authorization": "zqsecret", "cookie": ["zqsecret", "b"] },
            "jwt": { "sub": "s", "email": "zqsecret" },
        });
        assert_eq!(
            kept(&request, &["by-key"]),
            json!({ "headers": { "X-Api-Key": "k1" }, "query": "kind=a" })
        );
        assert_eq!(kept(&request, &["by-user"]), json!({ "user": "42", "jwt": { "sub": "s" } }));
        let both = kept(&request, &["by-key", "by-user"]);
        assert!(
            !both.to_string().contains("zqsecret") && both["user"] == "42" && both["query"] == "kind=a",
            "{both}"
        );
        assert_eq!(kept(&json!({ "headers": { "x": "zqsecret" } }), &["by-key"]), json!({}));
    }

    #[test]
    fn parameters_in_the_path_are_those_of_the_query() {
        let apart = |request: Value| with_query_apart(request);
        let in_path = apart(json!({ "user": "42", "path": "/login?kind=a&token=zqsecret#x" }));
        assert_eq!(in_path, json!({ "user": "42", "path": "/login", "query": "kind=a&token=zqsecret#x" }));
        let both = apart(json!({ "path": "/login?token=zqsecret", "query": "kind=a" }));
        assert_eq!(both, json!({ "path": "/login", "query": "kind=a" }), "the engine reads the query");
        assert_eq!(apart(json!({ "path": "/a#b?kind=a" })), json!({ "path": "/a", "query": "kind=a" }));
        for same in [json!({ "path": "/login" }), json!({ "path": 5 }), json!({}), json!(5)] {
            assert_eq!(apart(same.clone()), same);
        }
        let headers = json!({ "x-api-key": "k1" });
        let asked = json!({ "headers": headers, "path": "/login?kind=a&token=zqsecret" });
        assert_eq!(kept(&apart(asked), &["by-key"]), json!({ "headers": headers, "query": "kind=a" }));
    }

    /// A request is reduced on the only thread of the control plane.
    #[test]
    fn what_is_needed_of_many_parts_is_found_by_few_questions() {
        let parts: Vec<u32> = (0..40_000).collect();
        for wanted in [vec![], vec![0], vec![39_999], vec![7, 20_000, 20_001]] {
            let mut asked = 0;
            let found = needed(&parts, |kept| {
                asked += 1;
                wanted.iter().all(|part| kept.contains(&part))
            });
            assert!(found.into_iter().eq(&wanted), "{wanted:?}");
            assert!(asked <= 1 + 2 * 16 * wanted.len(), "{asked} for {wanted:?}");
        }
        assert!(needed(&[0; 0], |_| true).is_empty());
    }

    #[test]
    fn the_first_of_many_parameters_is_kept() {
        let query = (0..6_000).map(|n| format!("kind={}", if n % 2 == 0 { "a" } else { "b" }));
        let query = query.collect::<Vec<_>>().join("&");
        let request = json!({ "headers": { "x-api-key": "k1" }, "query": query });
        assert_eq!(
            kept(&request, &["by-key"]),
            json!({ "headers": { "x-api-key": "k1" }, "query": "kind=a" })
        );
    }
}
