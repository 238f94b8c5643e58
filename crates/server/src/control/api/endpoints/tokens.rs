//! Routes about tokens. A token is shown once, when it is created.

use http::Method;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tidegate_database::{Database, PageRequest, StoredToken, TokenRevocation, UnixMillis};
use utoipa::ToSchema;

use crate::control::access::{
    AccessRole, CreateTokenError, CreatedToken, TokenRequest, create_token, create_token_once, token_entry,
};
use crate::control::api::query::{PAGE, QueryField, REASON};
use crate::control::api::route::{Answering, ApiRoute, RouteAccess, TenantRule};
use crate::control::api::shape::{AnswerShape, BodyShape, JsonShape};
use crate::control::api::{ApiAnswer, ApiCall, ApiError, PREFIX, rfc3339};
use crate::control::changing::IdempotencyKey;
use crate::control::startup::unix_millis;
use crate::observe::EventName;

/// The longest description of a token, in bytes.
const DESCRIPTION_BYTES_MAX: usize = 1_024;

/// A token to create.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WantedToken {
    /// What it may do: `viewer`, `operator`, `editor` or `admin`.
    #[schema(example = "viewer")]
    role: String,
    /// The tenant to whose subtree it is restricted.
    tenant: Option<String>,
    /// When it ends.
    #[schema(format = DateTime)]
    expires: Option<String>,
    /// What it is for.
    #[schema(max_length = 1024)]
    description: Option<String>,
}

/// A token, without its secret.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TokenEntry {
    /// Its name, which is no secret.
    id: String,
    /// What it may do.
    role: String,
    /// The tenant to whose subtree it is restricted.
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant: Option<String>,
    /// What it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    /// When it was created.
    created: String,
    /// By whom.
    created_by: String,
    /// When it ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    expires: Option<String>,
    /// When it was revoked.
    #[serde(skip_serializing_if = "Option::is_none")]
    revoked: Option<String>,
    /// When it was last used, to about five seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_used: Option<String>,
}

/// A token that was created.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ShownToken {
    /// Its name, which is no secret.
    id: String,
    /// The token. It is shown only this once.
    token: String,
    /// What it may do.
    #[schema(value_type = String)]
    role: &'static str,
    /// The tenant to whose subtree it is restricted.
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant: Option<String>,
    /// When it ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    expires: Option<String>,
}

/// A token that was revoked.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RevokedToken {
    /// Its name.
    id: String,
    /// When it was revoked.
    revoked: String,
}

/// The parameters of a list, and of a change.
static LISTED: &[&[QueryField]] = &[PAGE];
static CHANGED: &[&[QueryField]] = &[REASON];

/// The routes.
pub(in crate::control::api) fn routes() -> Vec<ApiRoute> {
    let access = RouteAccess::Role(AccessRole::Admin, TenantRule::Subtree);
    let route = |method, path, about, query, body, answer, handler| ApiRoute {
        query,
        body,
        ..ApiRoute::new(method, path, access, about, answer, handler)
    };
    let wanted = BodyShape::Json(JsonShape::of::<WantedToken>());
    let shown = AnswerShape::Created(JsonShape::of::<ShownToken>());
    let listed = AnswerShape::List(JsonShape::of::<TokenEntry>());
    let revoked = AnswerShape::Json(JsonShape::of::<RevokedToken>());
    vec![
        route(
            Method::GET,
            "/tokens",
            "The tokens, newest first, with those that have ended or were revoked.",
            LISTED,
            BodyShape::None,
            listed,
            list as fn(ApiCall) -> Answering,
        ),
        route(
            Method::POST,
            "/tokens",
            "Creates a token, and shows it this once.",
            CHANGED,
            wanted,
            shown,
            create,
        ),
        route(
            Method::DELETE,
            "/tokens/{id}",
            "Revokes a token, and ends its sessions. The last admin token without a tenant stays.",
            CHANGED,
            BodyShape::None,
            revoked,
            revoke,
        ),
    ]
}

/// `GET /tokens`
fn list(call: ApiCall) -> Answering {
    Box::pin(async move {
        let rules = call.node.limiter().rules();
        let wanted = call.query.get("q");
        let is_wanted = |token: &StoredToken| {
            let texts =
                [Some(&token.id), Some(&token.role), token.tenant.as_ref(), token.description.as_ref()];
            let is_found = |wanted: &str| texts.iter().flatten().any(|text| text.contains(wanted));
            call.principal().sees(rules.tenants(), token.tenant.as_deref()) && wanted.is_none_or(is_found)
        };
        let page = PageRequest {
            limit: u32::try_from(call.query.page_length()).unwrap_or(u32::MAX),
            cursor: call.query.get("cursor").map(str::to_owned),
        };
        let page = database(&call)?.tokens_that(&page, is_wanted).await?;
        let items = page.items.iter().map(|token| json!(TokenEntry::of(token))).collect();
        Ok(ApiAnswer::list(items, page.next))
    })
}

/// `POST /tokens`
fn create(call: ApiCall) -> Answering {
    Box::pin(async move {
        let database = database(&call)?;
        let wanted: WantedToken = call.json()?;
        let (principal, now) = (call.principal(), unix_millis(call.now));
        let wrong = |pointer: &str, detail: &str| ApiError::Unprocessable {
            detail: detail.to_owned(),
            pointer: pointer.to_owned(),
            more: Value::Null,
        };
        let role: AccessRole = wanted.role.parse().map_err(|error| wrong("/role", &format!("{error}")))?;
        let expires = wanted.expires.as_deref().map(str::parse::<Timestamp>).transpose();
        let expires =
            expires.map_err(|_| wrong("/expires", "it must be a time such as 2027-01-01T00:00:00Z"))?;
        let expires = expires.map(|end| UnixMillis::new(end.as_millisecond()));
        if expires.is_some_and(|end| end <= now) {
            return Err(wrong("/expires", "the token would have ended already"));
        }
        if wanted.description.as_ref().is_some_and(|text| text.len() > DESCRIPTION_BYTES_MAX) {
            return Err(wrong("/description", "it is longer than 1,024 bytes"));
        }
        match (&wanted.tenant, &principal.tenant) {
            (None, Some(_)) => return Err(ApiError::RestrictedToTenant),
            (None, None) => {}
            (Some(tenant), _) => check_tenant(&call, tenant)?,
        }
        let request = TokenRequest {
            role,
            tenant: wanted.tenant.clone(),
            expires,
            description: wanted.description,
            actor: principal.actor.to_string(),
            reason: call.reason()?,
            now,
        };
        let created = created(&call, database, request).await?;
        let location = location_of(&created.id);
        let shown = ShownToken {
            id: created.id,
            token: created.secret,
            role: role.as_str(),
            tenant: wanted.tenant,
            expires: expires.map(rfc3339),
        };
        Ok(ApiAnswer::json(&shown).created(&location))
    })
}

/// Makes the token, once for an idempotency key. The token itself is not remembered, so it cannot be shown again.
async fn created(
    call: &ApiCall,
    database: &Database,
    request: TokenRequest,
) -> Result<CreatedToken, ApiError> {
    let failed = |error| match error {
        CreateTokenError::Database(error) => ApiError::from(error),
        CreateTokenError::NoRandomNumbers(error) => ApiError::Unavailable(error.to_string()),
    };
    let Some(key) = IdempotencyKey::of(call)? else {
        return create_token(database, request).await.map_err(failed);
    };
    if let Some(earlier) = key.remembered(database, call).await? {
        return Err(shown_before(&earlier));
    }
    let answer = |id: &str| {
        let body = json!({ "id": id });
        key.answer(Some(location_of(id)), move |_| body)
    };
    match create_token_once(database, request, answer).await.map_err(failed)? {
        Some(created) => Ok(created),
        None => Err(shown_before(&key.remembered(database, call).await?.unwrap_or_default())),
    }
}

/// The refusal to show a token again.
fn shown_before(earlier: &Value) -> ApiError {
    let id = earlier["body"]["id"].as_str().unwrap_or_default();
    ApiError::Conflict(format!(
        "this request was made before and has created the token `{id}`, which is shown only once: if it is lost, revoke \
         it, and create another one with another Idempotency-Key"
    ))
}

fn location_of(id: &str) -> String {
    format!("{PREFIX}/tokens/{id}")
}

/// `DELETE /tokens/{id}`
fn revoke(call: ApiCall) -> Answering {
    Box::pin(async move {
        let database = database(&call)?;
        let (id, now) = (call.path.get(0), unix_millis(call.now));
        let unknown = || ApiError::NotFound { what: "token", name: id.to_owned() };
        let rules = call.node.limiter().rules();
        let stored = database.token(id).await?.filter(|token| token.revoked_at.is_none());
        let stored = stored.filter(|token| call.principal().sees(rules.tenants(), token.tenant.as_deref()));
        let stored = stored.ok_or_else(unknown)?;
        let entry =
            token_entry(EventName::TokenRevoked, &stored, &call.principal().actor, call.reason()?, now);
        match database.revoke_token(id, now, entry).await? {
            TokenRevocation::Revoked => {
                Ok(ApiAnswer::json(&RevokedToken { id: id.to_owned(), revoked: rfc3339(now) }))
            }
            TokenRevocation::Unknown => Err(unknown()),
            TokenRevocation::LastAdmin => Err(ApiError::Conflict(
                "this is the last admin token without a tenant: create another one first, else nobody could"
                    .to_owned(),
            )),
        }
    })
}

/// Checks that a tenant is one of the policy, and one that the caller may see.
fn check_tenant(call: &ApiCall, tenant: &str) -> Result<(), ApiError> {
    let rules = call.node.limiter().rules();
    let is_listed = rules.tenants().nodes().iter().any(|node| *node.id == *tenant);
    match is_listed && call.principal().sees(rules.tenants(), Some(tenant)) {
        true => Ok(()),
        false => Err(ApiError::NotFound { what: "tenant", name: tenant.to_owned() }),
    }
}

fn database(call: &ApiCall) -> Result<&Database, ApiError> {
    call.control().database().ok_or_else(|| ApiError::needs_database("tokens"))
}

impl TokenEntry {
    fn of(token: &StoredToken) -> TokenEntry {
        TokenEntry {
            id: token.id.clone(),
            role: token.role.clone(),
            tenant: token.tenant.clone(),
            description: token.description.clone(),
            created: rfc3339(token.created_at),
            created_by: token.created_by.clone(),
            expires: token.expires_at.map(rfc3339),
            revoked: token.revoked_at.map(rfc3339),
            last_used: token.last_used_at.map(rfc3339),
        }
    }
}
