//! Routes that try a policy out: `simulate` replays a trace, `explain` tells why one request would be allowed or denied.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;
use tidegate::{Clock, Nanos};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use utoipa::ToSchema;

use super::candidates;
use super::explained::{explain_by, explain_live, seen_policy};
use super::live::unprocessable;
use crate::bounds::{BODY_BYTES_MAX, SIMULATION_KEYS_MAX, SIMULATION_TIME_MAX, TRIAL_TIME_MAX};
use crate::control::access::AccessRole;
use crate::control::api::answer::LINES;
use crate::control::api::query::parse_time;
use crate::control::api::route::Answering;
use crate::control::api::shape::text_or_object;
use crate::control::api::{ApiAnswer, ApiCall, ApiError};
use crate::control::simulation::{self, SimulationJob};
use crate::control::trials::took_too_long;
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

/// What a trial answers. It takes a limited time, waiting for its turn included, and ends when its caller disconnects. A
/// large policy takes long to read, so that is not waited for without end.
async fn answered_in_time(
    call: &ApiCall,
    trial: impl Future<Output = Result<ApiAnswer, ApiError>>,
) -> Result<ApiAnswer, ApiError> {
    let in_time = async { timeout(TRIAL_TIME_MAX, trial).await.unwrap_or_else(|_| Err(took_too_long())) };
    call.while_present(in_time).await
}

/// `POST /simulate`
pub(in crate::control::api) fn simulate(call: ApiCall) -> Answering {
    Box::pin(async move { answered_in_time(&call, simulated(&call)).await })
}

async fn simulated(call: &ApiCall) -> Result<ApiAnswer, ApiError> {
    let turn = call.trial_turn().await?;
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
    let policy = match tried(call, named).await? {
        Some(policy) => policy.text,
        None if call.principal().tenant.is_some() => return Err(ApiError::RestrictedToTenant),
        None => Arc::clone(&call.control().running().text),
    };
    let accepts_lines = call.headers.get("accept").is_some_and(|value| value == LINES);
    let job = SimulationJob { policy, trace: body.trace, max_keys, accepts_lines };
    let node = Arc::clone(&call.node);
    let deadline = node.clock().now().saturating_add(SIMULATION_TIME_MAX.into());
    // It stops as well when this future is dropped, since nobody waits for it then.
    let ended = CancellationToken::new();
    let _waiting = ended.clone().drop_guard();
    let is_time_up = move || ended.is_cancelled() || node.clock().now() > deadline;
    let ran = turn.run(call.control(), move || {
        let ran = simulation::run(&job, is_time_up)?;
        Ok(match job.accepts_lines {
            true => ApiAnswer::text(ran.lines, LINES),
            false => ApiAnswer::json(&ran.json()),
        })
    });
    ran.await?
}

/// `POST /explain`
pub(in crate::control::api) fn explain(call: ApiCall) -> Answering {
    Box::pin(async move {
        let body: ExplanationRequest = call.json_of_any_length().await?;
        let text = body.request.to_string();
        if text.len() > BODY_BYTES_MAX {
            let most = format!("it is longer than the {BODY_BYTES_MAX} bytes that a check may have");
            return Err(unprocessable("/request", &most));
        }
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
                let (now, text) = (at.unwrap_or(call.now), text.clone());
                let trial = async {
                    let turn = call.trial_turn().await?;
                    let explain = move || explain_by(&policy.text, &text, now, hides)?.bounded_answer();
                    turn.run(call.control(), explain).await?
                };
                return answered_in_time(&call, trial).await;
            }
            (None, _) => {
                if is_restricted {
                    seen = Some(seen_policy(&call, tenant.as_deref()).await?);
                }
                explain_live(&call, call.node.limiter(), &asked()?, hides).await?
            }
        };
        explained.answer(seen.as_ref())
    })
}

/// The time of `at`.
fn explained_time(text: &str) -> Result<Nanos, ApiError> {
    parse_time(text).ok_or_else(|| ApiError::body("/at", "it must be a time such as 2027-01-01T00:00:00Z"))
}
