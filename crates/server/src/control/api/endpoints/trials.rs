//! Routes that try a policy out: `simulate` replays a trace, `explain` tells why one request would be allowed or denied.

use std::collections::HashMap;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;
use tidegate::engine::{Limiter, RuleSet};
use tidegate::{Clock, ManualClock, MemoryOptions, Nanos};
use tidegate_document::DocumentNode;
use tidegate_policy::Policy;
use utoipa::ToSchema;

use crate::bounds::{SIMULATION_KEYS_MAX, SIMULATION_TIME_MAX};
use crate::commands::explain_output;
use crate::control::access::AccessRole;
use crate::control::api::answer::LINES;
use crate::control::api::route::Answering;
use crate::control::api::{ApiAnswer, ApiCall, ApiError};
use crate::control::collection::Collection;
use crate::control::entry_edit::not_found;
use crate::control::masked_policy::masked_conditions;
use crate::control::simulation::{self, SimulationJob};
use crate::control::subtree::Sight;
use crate::wire;

/// A trace, and the policy to replay it with.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SimulationRequest {
    /// Requests with `at_ms`, one JSON object a line, sorted by time.
    trace: String,
    /// A policy: a text (YAML or JSON), or an object. Without it, `version` or the policy in force is used.
    #[schema(value_type = Option<Object>)]
    policy: Option<Value>,
    /// The version of the policy.
    version: Option<u64>,
    /// How many keys may be in use at once.
    #[schema(minimum = 1, maximum = 100_000)]
    max_keys: Option<usize>,
}

/// A request, and the policy to explain it with.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExplanationRequest {
    /// A request, as in `/v1/check`.
    #[schema(value_type = Object)]
    request: Value,
    /// A policy: a text (YAML or JSON), or an object. Without it and `version`, the live state of this node is used.
    #[schema(value_type = Option<Object>)]
    policy: Option<Value>,
    /// The version of the policy.
    version: Option<u64>,
}

/// A policy to try out.
struct TriedPolicy {
    text: Arc<str>,
    /// Did the caller send it, so that nothing of it is secret to the caller?
    is_sent: bool,
}

/// The policy of a body: the one that it has, or the version that it names; `None` if neither is given.
async fn tried(
    call: &ApiCall,
    policy: Option<&Value>,
    version: Option<u64>,
) -> Result<Option<TriedPolicy>, ApiError> {
    match (policy, version) {
        (Some(_), Some(_)) => Err(ApiError::body("/version", "give `policy` or `version`, not both")),
        (Some(Value::String(text)), None) => {
            Ok(Some(TriedPolicy { text: text.as_str().into(), is_sent: true }))
        }
        (Some(policy @ Value::Object(_)), None) => {
            Ok(Some(TriedPolicy { text: policy.to_string().into(), is_sent: true }))
        }
        (Some(_), None) => Err(ApiError::body("/policy", "it must be a text (YAML or JSON) or an object")),
        (None, None) => Ok(None),
        (None, Some(_)) if call.principal().tenant.is_some() => Err(ApiError::RestrictedToTenant),
        (None, Some(number)) => {
            let database = call.control().database().ok_or_else(|| ApiError::needs_database("versions"))?;
            let missing = || ApiError::NotFound { what: "version", name: number.to_string() };
            let found = database.version(number).await?.ok_or_else(missing)?;
            let gone = || ApiError::Conflict(format!("the text of version {number} is no longer kept"));
            Ok(Some(TriedPolicy { text: found.text.ok_or_else(gone)?.into(), is_sent: false }))
        }
    }
}

/// `POST /simulate`
pub(in crate::control::api) fn simulate(call: ApiCall) -> Answering {
    Box::pin(async move {
        let body: SimulationRequest = call.json()?;
        let max_keys = body.max_keys.unwrap_or(SIMULATION_KEYS_MAX);
        if !(1..=SIMULATION_KEYS_MAX).contains(&max_keys) {
            return Err(ApiError::body("/max_keys", format!("it must be from 1 to {SIMULATION_KEYS_MAX}")));
        }
        let policy = match tried(&call, body.policy.as_ref(), body.version).await? {
            Some(policy) => policy.text,
            None if call.principal().tenant.is_some() => return Err(ApiError::RestrictedToTenant),
            None => Arc::clone(&call.control().running().text),
        };
        let _turn = call.control().trial_turn().await;
        let accepts_lines = call.headers.get("accept").is_some_and(|value| value == LINES);
        let job = SimulationJob { policy, trace: body.trace, max_keys, accepts_lines };
        let node = Arc::clone(&call.node);
        let deadline = node.clock().now().saturating_add(SIMULATION_TIME_MAX.into());
        let is_time_up = move || node.clock().now() > deadline;
        let ran = call.control().run_long(move || simulation::run(&job, is_time_up)).await;
        let ran = ran.ok_or(ApiError::Internal)??;
        Ok(match accepts_lines {
            true => ApiAnswer::text(ran.lines, LINES),
            false => ApiAnswer::json(&ran.json()),
        })
    })
}

/// `POST /explain`
pub(in crate::control::api) fn explain(call: ApiCall) -> Answering {
    Box::pin(async move {
        let body: ExplanationRequest = call.json()?;
        let text = body.request.to_string();
        let checked = wire::request(&text).map(|request| request.tenant.map(|tenant| tenant.into_owned()));
        let tenant = checked.map_err(|error| {
            let field = error.field().map(|field| format!("/{field}")).unwrap_or_default();
            ApiError::body(&format!("/request{field}"), &error)
        })?;
        let tried = tried(&call, body.policy.as_ref(), body.version).await?;
        let hides =
            call.principal().role < AccessRole::Editor && tried.as_ref().is_none_or(|tried| !tried.is_sent);
        let is_restricted = call.principal().tenant.is_some();
        let is_live = tried.is_none();
        let (explanation, hidden) = match tried {
            Some(policy) => {
                let _turn = call.control().trial_turn().await;
                let now = call.now;
                let explained = call.control().run_long(move || explain_by(&policy.text, &text, now));
                explained.await.ok_or(ApiError::Internal)??
            }
            None => {
                if is_restricted {
                    check_seen(&call, tenant.as_deref()).await?;
                }
                explain_live(&call, &text).await?
            }
        };
        let mut json: Value = serde_json::from_str(&explanation).map_err(|_| ApiError::Internal)?;
        if hides {
            hide(&mut json, &hidden);
        }
        if is_restricted && is_live {
            let (_, root) = call.control().document().await.ok_or(ApiError::Internal)?;
            restrict(&mut json, &Sight::of(call.principal(), &root), &root);
        }
        Ok(ApiAnswer::json(&json))
    })
}

/// Checks that a restricted caller asks about a tenant that it sees.
async fn check_seen(call: &ApiCall, tenant: Option<&str>) -> Result<(), ApiError> {
    let (_, root) = call.control().document().await.ok_or(ApiError::Internal)?;
    match tenant {
        Some(tenant) if Sight::of(call.principal(), &root).has_tenant(tenant) => Ok(()),
        Some(tenant) => Err(not_found(Collection::Tenants, tenant)),
        None => Err(ApiError::body(
            "/request/tenant",
            "the token is restricted to a tenant: name a tenant of its subtree",
        )),
    }
}

/// An explanation as JSON, and the conditions to hide in it.
type Explained = (String, HashMap<String, String>);

async fn explain_live(call: &ApiCall, request: &str) -> Result<Explained, ApiError> {
    let request = wire::request(request).map_err(|error| ApiError::body("/request", &error))?;
    let limiter = call.node.limiter();
    let explanation = limiter.explain_async(&request).await;
    let explanation =
        explanation.map_err(|error| ApiError::Unavailable(format!("the store does not answer: {error}")))?;
    Ok((explain_output::json(&explanation, None), masked_conditions(&limiter.rules())))
}

fn explain_by(policy: &str, request: &str, now: Nanos) -> Result<Explained, ApiError> {
    let policy = Policy::parse_at(policy, now).map_err(|error| ApiError::Problems(error.problems))?;
    let rules: RuleSet = policy.into();
    let hidden = masked_conditions(&rules);
    let request = wire::request(request).map_err(|error| ApiError::body("/request", &error))?;
    let options = MemoryOptions { max_keys: 1_000, ..MemoryOptions::default() };
    let limiter = Limiter::in_memory(rules, options, ManualClock::new(now))
        .map_err(|error| ApiError::body("/policy", &error))?;
    let mut explanation = limiter.explain(&request);
    explanation.decision = limiter.take_place_at(&request, now);
    Ok((explain_output::json(&explanation, None), hidden))
}

/// Hides the values of conditions wherever an explanation shows conditions.
fn hide(json: &mut Value, hidden: &HashMap<String, String>) {
    for limit in json["limits"].as_array_mut().into_iter().flatten() {
        let conditions = ["match", "unless"].map(|member| limit[member].take());
        let texts = conditions.iter().filter_map(Value::as_array).flatten().filter_map(Value::as_str);
        if let Value::String(why_not) = &mut limit["why_not"] {
            for (whole, shown) in texts.filter_map(|text| hidden.get_key_value(text)) {
                *why_not = why_not.replace(whole, shown);
            }
        }
        let [matched, unless] = conditions;
        limit["match"] = shown(matched, hidden);
        limit["unless"] = shown(unless, hidden);
    }
    if json["gate"].is_object() {
        let conditions = json["gate"]["match"].take();
        json["gate"]["match"] = shown(conditions, hidden);
    }
}

/// Leaves of an explanation what a restricted caller may see: the limits that apply, and the conditions of entries that
/// are about its subtree alone. Those of others may name other tenants and their users.
fn restrict(json: &mut Value, sight: &Sight, root: &DocumentNode) {
    let is_seen = |collection: Collection, is_it: &dyn Fn(&DocumentNode) -> bool| {
        let entries = root.get(collection.as_str()).map(DocumentNode::items).unwrap_or_default();
        let mut found = entries.iter().filter(|entry| is_it(entry)).peekable();
        found.peek().is_some() && found.all(|entry| sight.sees(collection, entry))
    };
    if let Some(limits) = json["limits"].as_array_mut() {
        limits.retain(|limit| limit["applies"] == true);
        for limit in limits {
            let name = limit["name"].as_str().unwrap_or_default().to_owned();
            let has_name = |entry: &DocumentNode| {
                entry.get("name").and_then(DocumentNode::scalar) == Some(name.as_str())
            };
            if !is_seen(Collection::Limits, &has_name) {
                limit["match"] = Value::Null;
                limit["unless"] = Value::Null;
            }
        }
    }
    if let Some(gate) = json["gate"].as_object_mut() {
        let list = if gate["list"] == "allow" { Collection::Allow } else { Collection::Block };
        let line = gate["line"].as_u64();
        // Several entries may be on one line.
        if !is_seen(list, &|entry| Some(u64::from(entry.at.line)) == line) {
            gate.insert("match".to_owned(), Value::Null);
            gate.insert("reason".to_owned(), Value::Null);
        }
    }
}

/// A list of conditions without the values that are hidden.
fn shown(conditions: Value, hidden: &HashMap<String, String>) -> Value {
    let Value::Array(conditions) = conditions else { return conditions };
    let shown = |condition: Value| match condition.as_str().and_then(|text| hidden.get(text)) {
        Some(shown) => shown.as_str().into(),
        None => condition,
    };
    conditions.into_iter().map(shown).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn secrets_of_a_policy_are_not_explained() {
        let policy = "version: 1
limits:
- { name: a, key: [user], match: { \"header:x-key\": secret-one, plan: free }, sustained: { rate: 1 } }
- { name: b, key: [user], unless: { \"query:token\": [secret-two, secret-three] }, sustained: { rate: 1 } }
allow:
- { \"jwt:sub\": secret-four }
";
        let explain = |request: Value| {
            let (explanation, hidden) = explain_by(policy, &request.to_string(), Nanos::ZERO).unwrap();
            let mut json: Value = serde_json::from_str(&explanation).unwrap();
            hide(&mut json, &hidden);
            json
        };
        let limited = explain(json!({ "user": "1", "query": "token=secret-three", "plan": "free" }));
        assert_eq!(limited["limits"][0]["match"][1], "plan: free");
        assert!(
            limited["limits"][1]["why_not"].as_str().is_some_and(|why| why.contains("query:token: [secr…#"))
        );
        assert!(
            limited["limits"][0]["why_not"].as_str().is_some_and(|why| why.contains("header:x-key: secr…#"))
        );
        let exempt = explain(json!({ "user": "1", "jwt": { "sub": "secret-four" } }));
        assert_eq!(exempt["gate"]["list"], "allow");
        for answer in [limited.to_string(), exempt.to_string()] {
            assert!(!answer.contains("secret-"), "{answer}");
        }
    }
}
