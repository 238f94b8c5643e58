//! Of a request whose keys are acted on, the parts that other nodes need: those that its keys depend on. The rest may be
//! secrets, and is carried nowhere.

use serde_json::Value;
use tidegate::engine::{ChosenLimits, Limiter};

use crate::node::store::NodeStore;
use crate::wire;

/// A request without what the keys of the chosen limits do not depend on.
pub(super) fn reduced(limiter: &Limiter<NodeStore>, request: &Value, chosen: ChosenLimits<'_>) -> Value {
    let whole = request.to_string();
    let Ok(whole) = wire::request(&whole) else { return Value::Null };
    let mut kept = request.clone();
    let keep_if_same = |less: Value, kept: &mut Value| {
        let text = less.to_string();
        if wire::request(&text).is_ok_and(|less| limiter.touch_the_same(&whole, &less, chosen)) {
            *kept = less;
        }
    };
    let names: Vec<String> =
        kept.as_object().map(|members| members.keys().cloned().collect()).unwrap_or_default();
    for name in names {
        keep_if_same(without(&kept, &name), &mut kept);
        let inner: Vec<String> =
            kept[&name].as_object().map(|members| members.keys().cloned().collect()).unwrap_or_default();
        for part in inner {
            let mut less = kept.clone();
            less[&name] = without(&kept[&name], &part);
            keep_if_same(less, &mut kept);
        }
    }
    // A query is one text.
    let query = kept["query"].as_str().map(str::to_owned).unwrap_or_default();
    for part in query.split('&') {
        let mut less = kept.clone();
        let left = kept["query"].as_str().unwrap_or_default().split('&').filter(|other| *other != part);
        less["query"] = left.collect::<Vec<_>>().join("&").into();
        if kept["query"].is_string() {
            keep_if_same(less, &mut kept);
        }
    }
    kept
}

fn without(object: &Value, name: &str) -> Value {
    let mut less = object.clone();
    if let Some(members) = less.as_object_mut() {
        members.remove(name);
    }
    less
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
}
