//! `/debug/hot-keys`: the keys with the most consumption and the most denials of late.

use std::sync::Arc;

use http::{Request, StatusCode};
use serde_json::{Value, json};
use tidegate::engine::BusyKey;
use tidegate_policy::Descriptor;

use super::endpoints::{AdminResponse, object, problem, refused};
use super::{AdminClient, guard};
use crate::node::Node;
use tidegate::engine::masking::{masked, may_be_secret};

/// How many keys are listed by default.
pub(crate) const KEYS_DEFAULT: usize = 20;
/// How many keys can be listed; the engine tracks no more.
pub(crate) const KEYS_MAX: usize = 64;

/// Renders the page. Keys contain what clients have sent, so the page is not for everybody who can connect.
pub(super) async fn hot_keys<B>(node: Arc<Node>, caller: AdminClient, request: &Request<B>) -> AdminResponse {
    if let Err(refusal) = guard::check_token(&node, caller, request.headers()) {
        return refused(refusal);
    }
    let most = match key_count(request.uri().query().unwrap_or_default()) {
        Ok(most) => most,
        Err(wrong) => return problem(StatusCode::BAD_REQUEST, &wrong, json!({})),
    };
    let (consumers, denied) = (node.limiter().top_consumers(most).keys, node.limiter().top_denied(most).keys);
    let body = json!({ "consumers": listed(&consumers), "denied": listed(&denied) });
    object(StatusCode::OK, &body)
}

fn listed(keys: &[BusyKey]) -> Vec<Value> {
    let entry = |busy: &BusyKey| json!({ "limit": busy.limit, "key": display_key(busy), "count": busy.count, "error": busy.error });
    keys.iter().map(entry).collect()
}

/// What each value of a key is. `None` if limits of this name have different keys, or the key was cut off: then it is not
/// known which value is which.
pub(crate) fn known_key(busy: &BusyKey) -> Option<&[Descriptor]> {
    busy.of.as_deref().filter(|key| key.len() == busy.parts.len())
}

/// Renders a key. Values from headers, queries, claims and custom descriptors may be credentials, so of them only a few
/// characters and a hash are shown, and of values that may be anything.
pub(crate) fn display_key(busy: &BusyKey) -> String {
    let of = known_key(busy);
    let part = |(place, value): (usize, &String)| match of.map(|key| &key[place]) {
        Some(known) if !may_be_secret(known) => value.clone(),
        _ => masked(value),
    };
    busy.parts.iter().enumerate().map(part).filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ")
}

fn key_count(query: &str) -> Result<usize, String> {
    let mut most = KEYS_DEFAULT;
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        if name != "limit" {
            return Err("the only parameter is `limit`".to_owned());
        }
        let number = value.parse().ok().filter(|number| (1..=KEYS_MAX).contains(number));
        most = number.ok_or_else(|| format!("`limit` must be a number from 1 to {KEYS_MAX}"))?;
    }
    Ok(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_a_credential_is_not_shown() {
        let header = Descriptor::parse("header:x-api-key").expect("a descriptor");
        let (keys, users) = ([Descriptor::User, header], [Descriptor::User]);
        let key = |of: Option<&[Descriptor]>, parts: &[&str]| {
            let parts = parts.iter().map(|part| (*part).to_owned()).collect();
            let (limit, key, of) = (String::new(), String::new(), of.map(Into::into));
            display_key(&BusyKey { limit, key, parts, values: Vec::new(), of, count: 1, error: 0 })
        };
        assert_eq!(key(Some(&users), &["a-user-with-a-name"]), "a-user-with-a-name");
        let both = key(Some(&keys), &["ann", "sk_live_0123456789"]);
        assert!(both.starts_with("ann, sk_l…#") && !both.contains("live"), "{both}");
        assert_eq!(both, key(Some(&keys), &["ann", "sk_live_0123456789"]), "equal values are recognizable");
        assert_ne!(both, key(Some(&keys), &["ann", "sk_live_0123456788"]));
        for unclear in [key(Some(&keys), &["sk_live_0123456789"]), key(None, &["sk_live_0123456789"])] {
            assert!(!unclear.contains("live"), "{unclear}");
        }
        assert!(!key(Some(&keys), &["ann", "pw1"]).contains("pw1"), "short ones neither");
    }

    #[test]
    fn numbers_are_bounded() {
        assert_eq!(key_count(""), Ok(KEYS_DEFAULT));
        assert_eq!(key_count("limit=5"), Ok(5));
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
            assert!(key_count(bad).is_err(), "{bad}");
        }
    }
}
