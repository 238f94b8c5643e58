//! Routes about the keys of a request: looking them up, resetting them, granting tokens.

use std::sync::Arc;

use http::Method;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tidegate_document::DocumentNode;
use tidegate_policy::{Descriptor, Request, Rule, TENANT_PREFIX};
use utoipa::ToSchema;

use super::explained::{ShownBuckets, explained_live, seen_policy};
use super::live::{LiveEntryAnswer, reason, sees, sight, unfinished, unprocessable};
use super::overrides::{OverrideAnswer, overrides_of};
use super::penalties::PenaltyEntry;
use crate::admin::penalties::shown;
use crate::bounds::{BODY_BYTES_MAX, OTHER_LIMITS_MAX};
use crate::control::access::AccessRole;
use crate::control::api::query::REASON;
use crate::control::api::route::{Answering, ApiRoute, RouteAccess, TenantRule};
use crate::control::api::shape::{AnswerShape, BodyShape, JsonShape};
use crate::control::api::{ApiAnswer, ApiCall, ApiError};
use crate::control::changing::IdempotencyKey;
use crate::control::live::acting::KeyDeed;
use crate::control::live::entry::KeyAction;
use crate::control::live::gates::applies;
use crate::control::live::reduced::with_query_apart;
use crate::control::subtree::Sight;
use crate::wire;

/// A request whose keys are looked up.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct KeyLookup {
    /// A request, as in `/v1/check`; a key is a request with nothing else, such as `{"user":"42"}`.
    #[schema(value_type = Object)]
    request: Box<RawValue>,
}

/// A request whose keys are made unused.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct KeyReset {
    /// A request, as in `/v1/check`.
    #[schema(value_type = Object)]
    request: Value,
    /// The limit; without it, every limit that applies.
    limit: Option<String>,
    /// Why.
    #[schema(max_length = 1024)]
    reason: Option<String>,
}

/// A request one of whose keys gets tokens.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct KeyGrant {
    /// A request, as in `/v1/check`.
    #[schema(value_type = Object)]
    request: Value,
    /// The limit.
    limit: String,
    /// How many; what is above the capacity is lost.
    #[schema(minimum = 1)]
    tokens: u32,
    /// Why.
    #[schema(max_length = 1024)]
    reason: Option<String>,
}

/// What is known about the keys of a request.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LookedUpKeys {
    /// The buckets that the request touches, as in a decision, also where a gate decides and `decision` lists none.
    #[schema(value_type = Vec<Object>)]
    limits: Box<RawValue>,
    /// The buckets that the request identifies, of limits that do not apply to it, because of its path for instance. At most
    /// 100, in the order of the policy.
    #[schema(value_type = Vec<Object>)]
    other_limits: Box<RawValue>,
    /// The next decision.
    #[schema(value_type = Object)]
    decision: Box<RawValue>,
    /// Why it would be so.
    #[schema(value_type = Object)]
    explanation: Box<RawValue>,
    /// The live blocks and exemptions upon the request.
    live: Vec<LiveEntryAnswer>,
    /// The penalties of burst detectors upon it.
    #[schema(value_type = Vec<PenaltyEntry>)]
    penalties: Vec<Value>,
    /// The overrides by which its limits are counted.
    overrides: Vec<OverrideAnswer>,
}

/// The buckets after a reset or a grant.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ChangedKeys {
    /// The names of the limits of the policy in force that were changed.
    changed: Vec<String>,
    /// The buckets that the request touches, as in a decision.
    #[schema(value_type = Vec<Object>)]
    limits: Box<RawValue>,
    /// What could not be done beside it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
}

/// The routes.
pub(in crate::control::api) fn routes() -> Vec<ApiRoute> {
    let route = |path, role, about, query, body, answer, handler| ApiRoute {
        query,
        body: BodyShape::Json(body),
        ..ApiRoute::new(
            Method::POST,
            path,
            RouteAccess::Role(role, TenantRule::Subtree),
            about,
            AnswerShape::Json(answer),
            handler,
        )
    };
    let changed = JsonShape::of::<ChangedKeys>();
    vec![
        route(
            "/keys/lookup",
            AccessRole::Viewer,
            "The buckets of a request with numbers from the store, what is upon it, and the next decision.",
            &[],
            JsonShape::of::<KeyLookup>(),
            JsonShape::of::<LookedUpKeys>(),
            lookup as fn(ApiCall) -> Answering,
        ),
        route(
            "/keys/reset",
            AccessRole::Operator,
            "Makes the buckets of a request unused.",
            &[REASON],
            JsonShape::of::<KeyReset>(),
            changed,
            reset,
        ),
        route(
            "/keys/grant",
            AccessRole::Operator,
            "Gives tokens to a bucket of a request, at most up to its capacity.",
            &[REASON],
            JsonShape::of::<KeyGrant>(),
            changed,
            grant,
        ),
    ]
}

/// `POST /keys/lookup`
fn lookup(call: ApiCall) -> Answering {
    Box::pin(async move {
        let body: KeyLookup = call.json()?;
        let text = body.request.get();
        let seen = checked(&call, text).await?;
        let asked = wire::request(text).map_err(|error| ApiError::body("/request", &error))?;
        let (decision, limits, explanation) = {
            let explained = explained_live(&call, &asked).await?;
            (explained.decision(), explained.buckets(), explained.text(seen.as_ref()))
        };
        let sight = sight(&call).await?;
        let other_limits = other_limits(&call, &asked, &sight).await?;
        let rules = call.node.limiter().rules();
        let upon = applies(call.control().live(), call.node.limiter(), &rules, &asked, call.now);
        let seen_upon = upon.iter().filter(|entry| sees(&sight, entry));
        let live = seen_upon.map(|entry| LiveEntryAnswer::of(entry, &call)).collect();
        let penalties = penalties(&call, &asked).await;
        let overrides = overrides_of(&call, [&limits, &other_limits]).await?;
        Ok(ApiAnswer::json(&LookedUpKeys {
            limits: limits.json,
            other_limits: other_limits.json,
            decision,
            explanation,
            live,
            penalties,
            overrides,
        }))
    })
}

/// The buckets of limits that do not apply to a request, but have its key.
async fn other_limits(
    call: &ApiCall,
    request: &Request<'_>,
    sight: &Sight,
) -> Result<ShownBuckets, ApiError> {
    let tenant = request.tenant.as_deref().unwrap_or_default();
    let found = {
        let is_seen = |rule: &Rule| is_own(sight, tenant, rule);
        call.node.limiter().other_buckets_async(request, &is_seen, OTHER_LIMITS_MAX)
    };
    match found.await {
        Ok(None) => Ok(ShownBuckets::none()),
        Ok(Some(buckets)) => Ok(ShownBuckets::of(&buckets)),
        Err(error) => Err(ApiError::Unavailable(format!("the store does not answer: {error}"))),
    }
}

/// The penalties upon a request. They do not say of which tenant they are, so a restricted caller sees none.
async fn penalties(call: &ApiCall, request: &Request<'_>) -> Vec<Value> {
    if call.principal().tenant.is_some() {
        return Vec::new();
    }
    let found = call.node.limiter().burst_penalties_upon(request).await;
    found.iter().map(shown).collect()
}

/// `POST /keys/reset`
fn reset(call: ApiCall) -> Answering {
    Box::pin(async move {
        let KeyReset { request, limit, reason } = call.json()?;
        change(call, request, limit, None, reason).await
    })
}

/// `POST /keys/grant`
fn grant(call: ApiCall) -> Answering {
    Box::pin(async move {
        let KeyGrant { request, limit, tokens, reason } = call.json()?;
        if tokens == 0 {
            return Err(unprocessable(
                "/tokens",
                &format!("it must be a whole number from 1 to {}", u32::MAX),
            ));
        }
        change(call, request, Some(limit), Some(tokens), reason).await
    })
}

async fn change(
    call: ApiCall,
    request: Value,
    limit: Option<String>,
    tokens: Option<u32>,
    why: Option<String>,
) -> Result<ApiAnswer, ApiError> {
    checked(&call, &request.to_string()).await?;
    // Before anything of it is told: parameters may be secrets.
    let request = with_query_apart(request);
    let text = request.to_string();
    let (sight, reason, key) = (sight(&call).await?, reason(&call, why)?, IdempotencyKey::of(&call)?);
    if let Some(key) = &key
        && let Some(earlier) = key.earlier(&call).await?
    {
        let earlier = earlier.ok_or_else(unfinished)?;
        let changed = serde_json::from_value(earlier["changed"].clone()).map_err(|_| ApiError::Internal)?;
        return answer(&call, &text, changed, Vec::new()).await;
    }
    let limits = chosen_limits(&call, &text, limit.as_deref(), &sight)?;
    let mut warnings = Vec::new();
    // A restricted caller may not change all limits of its requests.
    let is_of_all = limit.is_none() && matches!(sight, Sight::Whole);
    if !limits.is_empty() || (is_of_all && touches_any_limit(&call, &text)) {
        let once = key.map(|key| (key, json!({ "changed": limits })));
        let action = KeyAction { request: request.clone(), limits: limits.clone(), is_of_all, tokens };
        warnings = KeyDeed { action, who: told(&request), reason, once }.run(&call).await?;
    }
    answer(&call, &text, limits, warnings).await
}

/// The limits whose buckets the caller means and may change.
fn chosen_limits(
    call: &ApiCall,
    request: &str,
    limit: Option<&str>,
    sight: &Sight,
) -> Result<Vec<String>, ApiError> {
    let asked = wire::request(request).map_err(|error| ApiError::body("/request", &error))?;
    let tenant = asked.tenant.as_deref().unwrap_or_default();
    let is_meant = |rule: &Rule| limit.is_none_or(|name| name == &*rule.name);
    let meant = call.node.limiter().limits_of(&asked, &is_meant);
    let chosen = |rule: &Rule| is_meant(rule) && is_own(sight, tenant, rule);
    let mut own = call.node.limiter().limits_of(&asked, &chosen);
    if let Sight::Subtree { .. } = sight {
        // Such a bucket has no tenant in its key, although the limit has one.
        own.retain(|limit| !limit.is_shared);
    }
    match (limit, sight) {
        (Some(name), _) if meant.is_empty() => {
            Err(unprocessable("/limit", &format!("no limit `{name}` applies to this request")))
        }
        (Some(name), Sight::Subtree { top, .. }) if own.is_empty() => {
            let why = match meant.iter().all(|limit| limit.is_shared) {
                true => "all requests without its key share it, those of other tenants too",
                false => "the key of the limit needs `tenant` and, for instance, `user`",
            };
            Err(ApiError::Outside(format!(
                "the token is restricted to `{top}`, and the bucket of `{name}` is not that of one caller of its \
                 tenants: {why}"
            )))
        }
        _ => Ok(own.into_iter().map(|limit| limit.name.into()).collect()),
    }
}

/// Does any limit apply to a request, if only one of a candidate?
fn touches_any_limit(call: &ApiCall, request: &str) -> bool {
    wire::request(request).is_ok_and(|asked| call.node.limiter().touches_any(&asked, &|_: &Rule| true))
}

/// The buckets as they are now.
async fn answer(
    call: &ApiCall,
    request: &str,
    changed: Vec<String>,
    warnings: Vec<String>,
) -> Result<ApiAnswer, ApiError> {
    let asked = wire::request(request).map_err(|error| ApiError::body("/request", &error))?;
    let limits = match explained_live(call, &asked).await {
        Ok(explained) => explained.buckets(),
        // The change is done, so the answer is no error if the store fails only now: it has what this node knows.
        Err(_) => ShownBuckets::of(&call.node.peek(&asked).await),
    };
    Ok(ApiAnswer::json(&ChangedKeys { changed, limits: limits.json, warnings }))
}

/// Checks that the text of a request is valid and that the caller may ask about it; returns what a restricted caller sees.
async fn checked(call: &ApiCall, text: &str) -> Result<Option<(Sight, Arc<DocumentNode>)>, ApiError> {
    if text.len() > BODY_BYTES_MAX {
        let most = format!("it is longer than the {BODY_BYTES_MAX} bytes that a check may have");
        return Err(unprocessable("/request", &most));
    }
    let tenant = wire::request(text).map(|request| request.tenant.map(|tenant| tenant.into_owned()));
    let tenant = tenant.map_err(|error| {
        let field = error.field().map(|field| format!("/{field}")).unwrap_or_default();
        ApiError::body(&format!("/request{field}"), &error)
    })?;
    Ok(match call.principal().tenant {
        Some(_) => Some(seen_policy(call, tenant.as_deref()).await?),
        None => None,
    })
}

/// The members of a request that are told in the audit: none that may be secret. The query is apart from the path.
fn told(request: &Value) -> Value {
    let members = ["tenant", "user", "client", "ip", "plan", "method", "host", "path"];
    let told = |name: &&str| {
        let value = match (*name, request.get(*name)?) {
            // Parameters of a path may be secrets too, such as the id of a session.
            ("path", Value::String(path)) => path.split(';').next().unwrap_or_default().into(),
            (_, value) => value.clone(),
        };
        Some(((*name).to_owned(), value))
    };
    Value::Object(members.iter().filter_map(told).collect())
}

/// May the caller change the bucket that a request with the key of a limit touches? One that is restricted to a tenant
/// changes the buckets of single callers of its tenants. Buckets of whole tenants divide the limits of those above them:
/// whoever could reset them at will would have no limit.
fn is_own(sight: &Sight, tenant: &str, rule: &Rule) -> bool {
    use Descriptor::{Client, Custom, Header, Ip, Jwt, Query, User};
    if matches!(sight, Sight::Whole) {
        return true;
    }
    let of_a_caller =
        |part: &Descriptor| matches!(part, User | Client | Ip | Header(_) | Query(_) | Jwt(_) | Custom(_));
    let is_of_tenant = rule.key.contains(&Descriptor::Tenant) && sight.has_tenant(tenant);
    is_of_tenant && !rule.name.starts_with(TENANT_PREFIX) && rule.key.iter().any(of_a_caller)
}
