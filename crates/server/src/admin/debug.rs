//! `/debug/hot-keys`.

use std::sync::Arc;

use http::{Request, StatusCode};
use serde_json::{Value, json};
use tidegate::policy::BusyKey;

use super::answer::{Answer, object, problem, refused};
use super::{Caller, gate};
use crate::node::Node;

/// How many keys are told if nobody says.
const KEYS_DEFAULT: usize = 20;
/// How many can be asked for; the engine tells no more apart.
const KEYS_MAX: usize = 64;

/// The keys that take the most and that are denied the most. They are what clients sent, so not for
/// everybody who can reach this.
pub(super) async fn hot_keys<B>(node: Arc<Node>, caller: Caller, request: &Request<B>) -> Answer {
    if let Err(refusal) = gate::trusted(&node, caller, request.headers()) {
        return refused(refusal);
    }
    let most = match asked_for(request.uri().query().unwrap_or_default()) {
        Ok(most) => most,
        Err(wrong) => return problem(StatusCode::BAD_REQUEST, &wrong, json!({})),
    };
    let (consumers, denied) = (node.limiter.top_consumers(most), node.limiter.top_denied(most));
    object(StatusCode::OK, &json!({ "consumers": listed(&consumers), "denied": listed(&denied) }))
}

fn listed(keys: &[BusyKey]) -> Vec<Value> {
    let told = |busy: &BusyKey| json!({ "limit": busy.limit, "key": busy.key, "count": busy.count, "error": busy.error });
    keys.iter().map(told).collect()
}

fn asked_for(query: &str) -> Result<usize, String> {
    let mut most = KEYS_DEFAULT;
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        if name != "limit" {
            return Err("the only parameter is limit".to_owned());
        }
        let number = value.parse().ok().filter(|number| (1..=KEYS_MAX).contains(number));
        most = number.ok_or_else(|| format!("limit is a number from 1 to {KEYS_MAX}"))?;
    }
    Ok(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_bounded() {
        assert_eq!(asked_for(""), Ok(KEYS_DEFAULT));
        assert_eq!(asked_for("limit=5"), Ok(5));
        for bad in [
            "limit",
            "limit=",
            "limit=0",
            "limit=65",
            "limit=-1",
            "limit=1e3",
            "top=5",
            "limit=99999999999999999999",
        ] {
            assert!(asked_for(bad).is_err(), "{bad}");
        }
    }
}
