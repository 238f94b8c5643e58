//! A request explained: the decision, its buckets and why, with what the caller may see.

use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::Arc;

use serde_json::Value;
use serde_json::value::RawValue;
use tidegate::engine::{Decision, Explanation, Limiter, Reason, RuleSet};
use tidegate::{ManualClock, MemoryOptions, Nanos, Store};
use tidegate_document::DocumentNode;
use tidegate_policy::{Policy, Request};
use tidegate_redis::StoreError;

use super::live::{sees, sight, unprocessable};
use crate::bounds::{EXPLANATION_BYTES_MAX, EXPLANATION_ENTRIES_MAX};
use crate::commands::explain_json;
use crate::control::access::AccessRole;
use crate::control::api::{ApiAnswer, ApiCall, ApiError};
use crate::control::collection::Collection;
use crate::control::entry_edit::not_found;
use crate::control::masked_policy::masked_conditions;
use crate::control::shown_explanation::{hide, hide_overrides, hide_unseen};
use crate::control::startup::unix_millis;
use crate::control::subtree::Sight;
use crate::wire;

/// The explanation of a request by the live state, as the caller may see it.
pub(super) async fn explained_live(
    call: &ApiCall,
    request: &Request<'_>,
) -> Result<ExplainedRequest, ApiError> {
    explain_live(call, call.node.limiter(), request, call.principal().role < AccessRole::Editor).await
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
    /// The answer to `/explain`: the decision and why it is so, with only what the caller sees where it is restricted.
    pub(super) fn answer(&self, seen: Option<&(Sight, Arc<DocumentNode>)>) -> Result<ApiAnswer, ApiError> {
        self.answer_within(usize::MAX, seen)
    }

    /// The same by a policy of the caller's choice, unless that makes it too long.
    pub(super) fn bounded_answer(&self) -> Result<ApiAnswer, ApiError> {
        self.answer_within(EXPLANATION_BYTES_MAX, None)
    }

    fn answer_within(
        &self,
        most: usize,
        seen: Option<&(Sight, Arc<DocumentNode>)>,
    ) -> Result<ApiAnswer, ApiError> {
        let mut out = BoundedText { bytes: Vec::new(), most };
        let written = match self.is_whole(seen) {
            true => explain_json::write(&self.explanation, &mut out),
            false => {
                let mut shown = self.shown(seen);
                shown["decision"] =
                    serde_json::from_str(self.decision().get()).map_err(|_| ApiError::Internal)?;
                serde_json::to_writer(&mut out, &shown)
            }
        };
        written.map_err(|_| too_long())?;
        String::from_utf8(out.bytes).map(ApiAnswer::json_text).map_err(|_| ApiError::Internal)
    }

    /// Is nothing hidden from the reader?
    fn is_whole(&self, seen: Option<&(Sight, Arc<DocumentNode>)>) -> bool {
        seen.is_none() && self.hidden.is_none() && self.seen_overrides.is_none()
    }

    /// The decision as JSON.
    pub(super) fn decision(&self) -> Box<RawValue> {
        raw(self.explanation.decision.to_json())
    }

    /// The buckets that the request touches.
    pub(super) fn buckets(&self) -> ShownBuckets {
        ShownBuckets::of(&self.explanation.by_limits)
    }

    /// Why it is so, as JSON from which more can be removed.
    fn value(&self) -> Value {
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
        match self.is_whole(seen) {
            true => explain_json::text(&self.explanation),
            false => raw(self.shown(seen).to_string()),
        }
    }

    fn shown(&self, seen: Option<&(Sight, Arc<DocumentNode>)>) -> Value {
        let mut shown = self.value();
        if let Some((sight, root)) = seen {
            hide_unseen(&mut shown, sight, root);
        }
        shown
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

/// Explains a request by a limiter that decides here.
pub(super) async fn explain_live<S: Store<Error = StoreError>>(
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

/// A text of a bounded length.
struct BoundedText {
    bytes: Vec<u8>,
    most: usize,
}

impl io::Write for BoundedText {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() > self.most.saturating_sub(self.bytes.len()) {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Checks that the explanation will not be too long. Each limit has its part in it, where the values of the request may
/// stand several times: in its key, for instance.
fn check_size(rules: &RuleSet, request: &str) -> Result<(), ApiError> {
    let entries = rules.limits().len() + rules.detectors().len();
    let is_small = entries <= EXPLANATION_ENTRIES_MAX
        && entries.saturating_mul(request.len()) <= 4 * EXPLANATION_BYTES_MAX;
    if is_small { Ok(()) } else { Err(too_long()) }
}

fn too_long() -> ApiError {
    let mib = EXPLANATION_BYTES_MAX >> 20;
    let detail = format!(
        "the explanation would be too long: it may have {mib} MiB, and the policy {EXPLANATION_ENTRIES_MAX} limits and burst \
         detectors, fewer if the request is long; send less, or run `tidegate explain`"
    );
    unprocessable("/policy", &detail)
}

/// Explains a request by a policy that nobody has used.
pub(super) fn explain_by(
    policy: &str,
    request: &str,
    now: Nanos,
    hides: bool,
) -> Result<ExplainedRequest, ApiError> {
    let policy = Policy::parse_at(policy, now).map_err(|error| ApiError::Problems(error.problems))?;
    let rules: RuleSet = policy.into();
    check_size(&rules, request)?;
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
    use crate::control::api::AnswerView;

    /// A policy with so many limits that count by user.
    fn policy_of(limits: usize) -> String {
        let limit = |n| format!("- {{ name: l{n}, key: [user], sustained: {{ rate: {} }} }}\n", n + 1);
        format!("version: 1\nlimits:\n{}", (0..limits).map(limit).collect::<String>())
    }

    #[test]
    fn each_of_many_limits_is_explained_with_its_own_bucket() {
        let request = json!({ "user": "1" }).to_string();
        for hides in [false, true] {
            let explained = explain_by(&policy_of(2_000), &request, Nanos::ZERO, hides).unwrap();
            let answer = explained.bounded_answer().unwrap().render(&AnswerView::SINGLE);
            let answer: Value = serde_json::from_slice(answer.body()).unwrap();
            let limits = answer["limits"].as_array().unwrap();
            assert_eq!((limits.len(), &answer["decision"]["allowed"]), (2_000, &json!(true)));
            for (n, limit) in limits.iter().enumerate() {
                assert_eq!(limit["name"], format!("l{n}"));
                assert_eq!(limit["bucket"]["before"]["limit"], n + 1, "{limit}");
            }
        }
    }

    #[test]
    fn an_explanation_has_a_bounded_size() {
        let refusal = |policy: &str, request: &Value| {
            let explained = explain_by(policy, &request.to_string(), Nanos::ZERO, false);
            explained.and_then(|explained| explained.bounded_answer()).err().map(|error| error.to_string())
        };
        let is_too_long = |told: Option<String>| told.is_some_and(|told| told.contains("too long"));
        assert!(is_too_long(refusal(&policy_of(EXPLANATION_ENTRIES_MAX + 1), &json!({}))));
        // Each limit has the user in its bucket.
        let user = "u".repeat(4_000);
        let headers: HashMap<String, &str> = (0..14).map(|n| (format!("x-{n}"), &*user)).collect();
        let long = json!({ "user": user, "headers": headers });
        assert!(refusal(&policy_of(500), &long).is_none());
        assert!(is_too_long(refusal(&policy_of(1_200), &long)));
    }

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
