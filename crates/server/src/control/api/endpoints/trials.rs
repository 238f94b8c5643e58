//! Routes that try a policy out: `simulate` replays a trace, `explain` tells why one request would be allowed or denied.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tidegate::engine::{Decision, Explanation, Limiter, Reason, RuleSet};
use tidegate::{Clock, ManualClock, MemoryOptions, Nanos, Store};
use tidegate_document::DocumentNode;
use tidegate_policy::{Policy, Request};
use tidegate_redis::StoreError;
use tokio::sync::OwnedSemaphorePermit;
use utoipa::ToSchema;

use super::candidates;
use super::live::{sees, sight};
use crate::bounds::{SIMULATION_KEYS_MAX, SIMULATION_TIME_MAX, TRIAL_TIME_MAX};
use crate::commands::explain_json;
use crate::control::access::AccessRole;
use crate::control::api::answer::LINES;
use crate::control::api::query::parse_time;
use crate::control::api::route::Answering;
use crate::control::api::shape::text_or_object;
use crate::control::api::{ApiAnswer, ApiCall, ApiError};
use crate::control::collection::Collection;
use crate::control::entry_edit::not_found;
use crate::control::masked_policy::masked_conditions;
use crate::control::shown_explanation::{hide, hide_overrides, hide_unseen};
use crate::control::simulation::{self, SimulationJob};
use crate::control::startup::unix_millis;
use crate::control::subtree::Sight;
use crate::wire;

/// A trace, and the policy to replay it with.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SimulationRequest {
    /// Requests with `at_ms`, one JSON object a line, sorted by time. The decision on a line with an `id` repeats it.
    trace: String,
    /// A policy: a text (YAML or JSON), or an object. Without it, `version`, `candidate` or the policy in force is used.
    #[schema(schema_with = text_or_object)]
    policy: Option<Value>,
    /// The version of the policy.
    version: Option<u64>,
    /// The id of a candidate, whose document is the policy.
    candidate: Option<String>,
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
    /// A policy: a text (YAML or JSON), or an object. Without it, `version` and `candidate`, the live state of this node
    /// is used.
    #[schema(schema_with = text_or_object)]
    policy: Option<Value>,
    /// The version of the policy.
    version: Option<u64>,
    /// The id of a candidate. If it runs, its live state on this node is used.
    candidate: Option<String>,
    /// As if the request came at this time, after no other: no live state is used.
    #[schema(format = DateTime)]
    at: Option<String>,
}

/// Which policy a body names.
struct NamedPolicy<'b> {
    policy: Option<&'b Value>,
    version: Option<u64>,
    candidate: Option<&'b str>,
}

/// A policy to try out.
struct TriedPolicy {
    text: Arc<str>,
    /// Did the caller send it, so that nothing of it is secret to the caller?
    is_sent: bool,
}

/// The policy of a body: the one that it has, or the version or candidate that it names; `None` if none is given.
async fn tried(call: &ApiCall, named: NamedPolicy<'_>) -> Result<Option<TriedPolicy>, ApiError> {
    let NamedPolicy { policy, version, candidate } = named;
    if let Some(id) = candidate {
        if policy.is_some() || version.is_some() {
            let wrong = "give one of `policy`, `version` and `candidate`";
            return Err(ApiError::body("/candidate", wrong));
        }
        if call.principal().tenant.is_some() {
            return Err(ApiError::RestrictedToTenant);
        }
        let (_, text) = candidates::find(call, id).await?;
        return Ok(Some(TriedPolicy { text: text.into(), is_sent: false }));
    }
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

/// Runs work by another policy than the one in force. A large policy takes long to read, so it is not waited for without
/// end. The turn lasts until the work is done, even if nobody waits for it any more.
async fn run_trial<T: Send + 'static>(
    call: &ApiCall,
    turn: OwnedSemaphorePermit,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ApiError> {
    let working = move || {
        let _turn = turn;
        work()
    };
    let done = tokio::time::timeout(TRIAL_TIME_MAX, call.control().run_long(working)).await;
    let seconds = TRIAL_TIME_MAX.as_secs();
    let too_long = format!(
        "this takes longer than {seconds} seconds, or others compute for long: try again, with a smaller policy, or with the \
         same command of `tidegate` on a machine of yours"
    );
    done.map_err(|_| ApiError::TooMany { detail: too_long, retry_after: seconds })?.ok_or(ApiError::Internal)
}

/// `POST /simulate`
pub(in crate::control::api) fn simulate(call: ApiCall) -> Answering {
    Box::pin(async move {
        let turn = call.control().trial_turn().await;
        let body: SimulationRequest = call.json_of_any_length().await?;
        let max_keys = body.max_keys.unwrap_or(SIMULATION_KEYS_MAX);
        if !(1..=SIMULATION_KEYS_MAX).contains(&max_keys) {
            return Err(ApiError::body("/max_keys", format!("it must be from 1 to {SIMULATION_KEYS_MAX}")));
        }
        let named = NamedPolicy {
            policy: body.policy.as_ref(),
            version: body.version,
            candidate: body.candidate.as_deref(),
        };
        let policy = match tried(&call, named).await? {
            Some(policy) => policy.text,
            None if call.principal().tenant.is_some() => return Err(ApiError::RestrictedToTenant),
            None => Arc::clone(&call.control().running().text),
        };
        let accepts_lines = call.headers.get("accept").is_some_and(|value| value == LINES);
        let job = SimulationJob { policy, trace: body.trace, max_keys, accepts_lines };
        let node = Arc::clone(&call.node);
        let deadline = node.clock().now().saturating_add(SIMULATION_TIME_MAX.into());
        let is_time_up = move || node.clock().now() > deadline;
        let ran = run_trial(&call, turn, move || simulation::run(&job, is_time_up)).await??;
        Ok(match accepts_lines {
            true => ApiAnswer::text(ran.lines, LINES),
            false => ApiAnswer::json(&ran.json()),
        })
    })
}

/// `POST /explain`
pub(in crate::control::api) fn explain(call: ApiCall) -> Answering {
    Box::pin(async move {
        let body: ExplanationRequest = call.json_of_any_length().await?;
        let text = body.request.to_string();
        let checked = wire::request(&text).map(|request| request.tenant.map(|tenant| tenant.into_owned()));
        let tenant = checked.map_err(|error| {
            let field = error.field().map(|field| format!("/{field}")).unwrap_or_default();
            ApiError::body(&format!("/request{field}"), &error)
        })?;
        let named = NamedPolicy {
            policy: body.policy.as_ref(),
            version: body.version,
            candidate: body.candidate.as_deref(),
        };
        let at = body.at.as_deref().map(explained_time).transpose()?;
        let mut tried = tried(&call, named).await?;
        if tried.is_none() && at.is_some() {
            if call.principal().tenant.is_some() {
                return Err(ApiError::RestrictedToTenant);
            }
            let text = Arc::clone(&call.control().running().text);
            tried = Some(TriedPolicy { text, is_sent: false });
        }
        // It is checked above that the caller may see it.
        let running = body.candidate.as_deref().filter(|_| at.is_none());
        let running = running.and_then(|id| call.control().candidates().find(id));
        // Nothing is secret to the caller of what it has sent itself.
        let is_sent = tried.as_ref().is_some_and(|tried| tried.is_sent);
        let hides = call.principal().role < AccessRole::Editor && !is_sent;
        let is_restricted = call.principal().tenant.is_some() && !is_sent;
        let mut seen = None;
        let asked = || wire::request(&text).map_err(|error| ApiError::body("/request", &error));
        let explained = match (tried, running) {
            (Some(_), Some(candidate)) => explain_live(&call, candidate.limiter(), &asked()?, hides).await?,
            (Some(policy), None) => {
                let turn = call.control().trial_turn().await;
                let (now, text) = (at.unwrap_or(call.now), text.clone());
                run_trial(&call, turn, move || explain_by(&policy.text, &text, now, hides)).await??
            }
            (None, _) => {
                if is_restricted {
                    seen = Some(seen_policy(&call, tenant.as_deref()).await?);
                }
                explain_live(&call, call.node.limiter(), &asked()?, hides).await?
            }
        };
        let decision = explained.decision();
        let mut explanation = explained.value();
        if let Some((sight, root)) = seen {
            hide_unseen(&mut explanation, &sight, &root);
        }
        explanation["decision"] = serde_json::from_str(decision.get()).map_err(|_| ApiError::Internal)?;
        Ok(ApiAnswer::json(&explanation))
    })
}

/// The explanation of a request by the live state, as the caller may see it.
pub(super) async fn explained_live(
    call: &ApiCall,
    request: &Request<'_>,
) -> Result<ExplainedRequest, ApiError> {
    explain_live(call, call.node.limiter(), request, call.principal().role < AccessRole::Editor).await
}

/// The time of `at`.
fn explained_time(text: &str) -> Result<Nanos, ApiError> {
    parse_time(text).ok_or_else(|| ApiError::body("/at", "it must be a time such as 2027-01-01T00:00:00Z"))
}

/// What a restricted caller sees of the policy in force, if it asks about a tenant that it sees.
pub(super) async fn seen_policy(
    call: &ApiCall,
    tenant: Option<&str>,
) -> Result<(Sight, Arc<DocumentNode>), ApiError> {
    let (_, root) = call.control().document().await.ok_or(ApiError::Internal)?;
    let sight = Sight::of(call.principal(), &root);
    match tenant {
        Some(tenant) if sight.has_tenant(tenant) => Ok((sight, root)),
        Some(tenant) => Err(not_found(Collection::Tenants, tenant)),
        None => Err(ApiError::body(
            "/request/tenant",
            "the token is restricted to a tenant: name a tenant of its subtree",
        )),
    }
}

/// The decision on a request and why it is so.
pub(super) struct ExplainedRequest {
    explanation: Explanation,
    /// The conditions that the reader may not see, each with what is shown instead.
    hidden: Option<HashMap<String, String>>,
    /// The ids of the overrides that the reader sees; `None` if it sees all.
    seen_overrides: Option<HashSet<String>>,
}

impl ExplainedRequest {
    /// The decision as JSON.
    pub(super) fn decision(&self) -> Box<RawValue> {
        raw(self.explanation.decision.to_json())
    }

    /// The buckets that the request touches.
    pub(super) fn buckets(&self) -> ShownBuckets {
        ShownBuckets::of(&self.explanation.by_limits)
    }

    /// Why it is so, as JSON from which more can be removed.
    pub(super) fn value(&self) -> Value {
        let mut shown = explain_json::value(&self.explanation);
        if let Some(hidden) = &self.hidden {
            hide(&mut shown, hidden);
        }
        if let Some(seen) = &self.seen_overrides {
            hide_overrides(&mut shown, |id| seen.contains(id));
        }
        shown
    }

    /// The same as text, with only what the caller sees where it is restricted.
    pub(super) fn text(&self, seen: Option<&(Sight, Arc<DocumentNode>)>) -> Box<RawValue> {
        if seen.is_none() && self.hidden.is_none() && self.seen_overrides.is_none() {
            return explain_json::text(&self.explanation);
        }
        let mut shown = self.value();
        if let Some((sight, root)) = seen {
            hide_unseen(&mut shown, sight, root);
        }
        raw(shown.to_string())
    }
}

/// The buckets that a request touches, as in a decision, whatever the gates say.
pub(super) struct ShownBuckets {
    /// The text as the decision writes it: reading it would take longer than deciding.
    pub(super) json: Box<RawValue>,
    /// The ids of the overrides by which they are counted.
    pub(super) overrides: Vec<String>,
}

impl ShownBuckets {
    /// No buckets.
    pub(super) fn none() -> ShownBuckets {
        ShownBuckets { json: raw("[]".to_owned()), overrides: Vec::new() }
    }

    /// The buckets of a decision.
    pub(super) fn of(decision: &Decision) -> ShownBuckets {
        let ids = decision.limits().filter_map(|limit| limit.overridden).map(|rule| rule.id.to_string());
        ShownBuckets { json: raw(decision.limits_to_json()), overrides: ids.collect() }
    }
}

fn raw(json: String) -> Box<RawValue> {
    RawValue::from_string(json).expect("it is JSON")
}

async fn explain_live<S: Store<Error = StoreError>>(
    call: &ApiCall,
    limiter: &Limiter<S>,
    request: &Request<'_>,
    hides: bool,
) -> Result<ExplainedRequest, ApiError> {
    let explanation = limiter.explain_async(request).await;
    let mut explanation =
        explanation.map_err(|error| ApiError::Unavailable(format!("the store does not answer: {error}")))?;
    // As at `GET /kill-switch`, a restricted caller does not learn why it is on.
    if explanation.decision.reason() == Reason::KillSwitch
        && call.principal().tenant.is_none()
        && let Some(gate) = &mut explanation.gate
    {
        gate.reason = call.control().kill_switch(unix_millis(call.now)).and_then(|entry| entry.reason);
    }
    let hidden = hides.then(|| {
        let mut hidden = masked_conditions(&limiter.rules());
        hidden.extend(limiter.live_gates().iter().flat_map(|live| masked_conditions(live)));
        hidden
    });
    let seen_overrides = match call.principal().tenant {
        Some(_) => Some(seen_overrides(call, &explanation).await?),
        None => None,
    };
    Ok(ExplainedRequest { explanation, hidden, seen_overrides })
}

/// The overrides upon a request that a restricted caller sees.
async fn seen_overrides(call: &ApiCall, explanation: &Explanation) -> Result<HashSet<String>, ApiError> {
    let (sight, now) = (sight(call).await?, unix_millis(call.now));
    let is_seen =
        |id: &String| call.control().live().entry(id, now).is_some_and(|entry| sees(&sight, &entry));
    Ok(ShownBuckets::of(&explanation.by_limits).overrides.into_iter().filter(is_seen).collect())
}

fn explain_by(policy: &str, request: &str, now: Nanos, hides: bool) -> Result<ExplainedRequest, ApiError> {
    let policy = Policy::parse_at(policy, now).map_err(|error| ApiError::Problems(error.problems))?;
    let rules: RuleSet = policy.into();
    let hidden = hides.then(|| masked_conditions(&rules));
    let request = wire::request(request).map_err(|error| ApiError::body("/request", &error))?;
    let options = MemoryOptions { max_keys: 1_000, ..MemoryOptions::default() };
    let limiter = Limiter::in_memory(rules, options, ManualClock::new(now))
        .map_err(|error| ApiError::body("/policy", &error))?;
    let mut explanation = limiter.explain(&request);
    explanation.decision = limiter.take_place_at(&request, now);
    // The policy is the caller's own or one that it sees as a whole, and has no overrides.
    Ok(ExplainedRequest { explanation, hidden, seen_overrides: None })
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
        let explain =
            |request: Value| explain_by(policy, &request.to_string(), Nanos::ZERO, true).unwrap().value();
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
