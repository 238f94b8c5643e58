//! Routes about live entries: clients that are blocked or exempt for a while, beside the policy.

use http::Method;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tidegate_database::UnixMillis;
use tidegate_document::DocumentNode;
use utoipa::ToSchema;

use crate::control::access::AccessRole;
use crate::control::api::query::{PAGE, REASON};
use crate::control::api::route::{Answering, ApiRoute, RouteAccess, TenantRule};
use crate::control::api::shape::{AnswerShape, BodyShape, JsonShape};
use crate::control::api::{ApiAnswer, ApiCall, ApiError, PREFIX, rfc3339};
use crate::control::changing::IdempotencyKey;
use crate::control::collection::Collection;
use crate::control::entry_edit::not_found;
use crate::control::live::changing::{LiveDeed, new_live_id, shown_who};
use crate::control::live::entry::{LiveBody, LiveEntry, LiveKind};
use crate::control::live::gates::check_who;
use crate::control::startup::unix_millis;
use crate::control::subtree::Sight;
use crate::observe::EventName;

/// The longest reason, in bytes.
const REASON_BYTES_MAX: usize = 1_024;

/// A client to block or to exempt.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WantedLiveGate {
    /// Whom: descriptors and their values, as in an entry of `block`. All must hold.
    #[schema(value_type = Object, example = json!({ "user": "42" }))]
    who: Value,
    /// Until when; without it, until it is removed.
    #[schema(format = DateTime)]
    until: Option<String>,
    /// Why.
    #[schema(max_length = 1024)]
    reason: Option<String>,
}

/// A live entry.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LiveEntryAnswer {
    /// Its name.
    id: String,
    /// What it does: `block` or `allow`.
    kind: &'static str,
    /// Whom it is about.
    #[schema(value_type = Object)]
    who: Value,
    /// When it ends by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<String>,
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// When it was added.
    created: String,
    /// By whom.
    author: String,
}

const READS: RouteAccess = RouteAccess::Role(AccessRole::Viewer, TenantRule::Subtree);
const OPERATES: RouteAccess = RouteAccess::Role(AccessRole::Operator, TenantRule::Subtree);

/// The routes.
pub(in crate::control::api) fn routes() -> Vec<ApiRoute> {
    let answer = JsonShape::of::<LiveEntryAnswer>();
    let gate = |path, about, handler: fn(ApiCall) -> Answering| ApiRoute {
        query: &[REASON],
        body: BodyShape::Json(JsonShape::of::<WantedLiveGate>()),
        ..ApiRoute::new(Method::POST, path, OPERATES, about, AnswerShape::Created(answer), handler)
    };
    vec![
        gate("/keys/block", "Blocks a client until a time, whatever the policy says.", block),
        gate("/keys/allow", "Exempts a client from limits until a time, but not from blocks.", allow),
        ApiRoute {
            query: &[PAGE],
            ..ApiRoute::new(
                Method::GET,
                "/keys/live",
                READS,
                "The clients that are blocked or exempt beside the policy, newest first.",
                AnswerShape::List(answer),
                list,
            )
        },
        ApiRoute {
            query: &[REASON],
            ..ApiRoute::new(
                Method::DELETE,
                "/keys/live/{id}",
                OPERATES,
                "Ends the block or the exemption of a client.",
                AnswerShape::Json(answer),
                remove,
            )
        },
    ]
}

/// `POST /keys/block`
fn block(call: ApiCall) -> Answering {
    Box::pin(add(call, LiveKind::Block, EventName::KeyBlocked))
}

/// `POST /keys/allow`
fn allow(call: ApiCall) -> Answering {
    Box::pin(add(call, LiveKind::Allow, EventName::KeyAllowed))
}

async fn add(call: ApiCall, kind: LiveKind, event: EventName) -> Result<ApiAnswer, ApiError> {
    let wanted: WantedLiveGate = call.json()?;
    let key = IdempotencyKey::of(&call)?;
    if let Some(key) = &key
        && let Some(earlier) = key.earlier(&call).await?
    {
        return earlier.map(|answer| added(&answer)).ok_or_else(unfinished);
    }
    let reason = reason(&call, wanted.reason)?;
    let entry = LiveEntry {
        id: new_live_id()?,
        kind,
        sequence: 0,
        body: LiveBody {
            who: wanted.who,
            scope: call.principal().tenant.as_deref().map(str::to_owned),
            ..LiveBody::default()
        },
        until: wanted.until.as_deref().map(|until| end(&call, until)).transpose()?,
        created_at: unix_millis(call.now),
        author: call.principal().actor.to_string(),
        reason: reason.clone(),
    };
    check_who(&entry, call.node.limiter().rules().spelling(), call.now)
        .map_err(|wrong| unprocessable("/who", &wrong))?;
    check_tenants(&call, &entry).await?;
    let shown = serde_json::json!(LiveEntryAnswer::of(&entry, &call));
    let who = entry.body.who.clone();
    // Whoever repeats the request knows the values that are masked there.
    let remembered = serde_json::json!(LiveEntryAnswer::masked(&entry));
    let answer = key.map(|key| key.change_answer(Some(&remembered), false));
    let more = shown.get("until").map_or(Value::Null, |until| serde_json::json!({ "until": until }));
    let (remove, add, kind) = (vec![], vec![entry], kind.as_str());
    LiveDeed { remove, add, event, who, kind, reason, more, answer }.run(&call).await?;
    Ok(added(&shown))
}

/// The answer for an entry that was added.
fn added(shown: &Value) -> ApiAnswer {
    let location = format!("{PREFIX}/keys/live/{}", shown["id"].as_str().unwrap_or_default());
    ApiAnswer::json(shown).created(&location)
}

/// The answer to a request that is repeated, and whose first attempt is not known to have ended.
pub(super) fn unfinished() -> ApiError {
    ApiError::Conflict(
        "a request with this Idempotency-Key was begun before, and may have been done or not: look, and use another key"
            .to_owned(),
    )
}

/// `GET /keys/live`
fn list(call: ApiCall) -> Answering {
    Box::pin(async move {
        let sight = sight(&call).await?;
        let mut items: Vec<(String, Value)> = Vec::new();
        for entry in call.control().live().entries(unix_millis(call.now)) {
            if entry.is_gate() && sees(&sight, &entry) {
                items.push((cursor(&entry), serde_json::json!(LiveEntryAnswer::of(&entry, &call))));
            }
        }
        page(&call, items)
    })
}

/// A page of entries, newest first, each with its cursor.
pub(super) fn page(call: &ApiCall, mut items: Vec<(String, Value)>) -> Result<ApiAnswer, ApiError> {
    if let Some(wanted) = call.query.get("q") {
        items.retain(|(_, item)| item.to_string().contains(wanted));
    }
    if let Some(cursor) = call.query.get("cursor") {
        let wrong = || ApiError::parameter("cursor", "it must be the `next` of an earlier page".to_owned());
        let after = order(cursor).ok_or_else(wrong)?;
        items.retain(|(own, _)| order(own).is_some_and(|own| own < after));
    }
    let most = call.query.page_length();
    let next = (items.len() > most).then(|| items[most - 1].0.clone());
    Ok(ApiAnswer::list(items.into_iter().take(most).map(|(_, item)| item).collect(), next))
}

/// May a restricted caller remove an entry that it sees? Only one that was added by a token of its subtree.
pub(super) fn check_own(sight: &Sight, entry: &LiveEntry) -> Result<(), ApiError> {
    let is_own = match (sight, &entry.body.scope) {
        (Sight::Whole, _) => true,
        (Sight::Subtree { .. }, scope) => scope.as_deref().is_some_and(|scope| sight.has_tenant(scope)),
    };
    if is_own {
        return Ok(());
    }
    Err(ApiError::Outside(
        "somebody who is not restricted to this tenant has added the entry: only they may end it".to_owned(),
    ))
}

/// The cursor of an entry.
pub(super) fn cursor(entry: &LiveEntry) -> String {
    format!("{}.{}", entry.sequence, entry.id)
}

/// The place of an entry in the list, from its cursor.
fn order(cursor: &str) -> Option<(u64, &str)> {
    let (sequence, id) = cursor.split_once('.')?;
    Some((sequence.parse().ok()?, id))
}

/// `DELETE /keys/live/{id}`
fn remove(call: ApiCall) -> Answering {
    Box::pin(async move {
        let (id, sight) = (call.path.get(0).to_owned(), sight(&call).await?);
        let unknown = || ApiError::NotFound { what: "live entry", name: id.chars().take(256).collect() };
        let entry = LiveEntry::newest(&call, &id).await?;
        let entry = entry.filter(|entry| entry.is_gate() && sees(&sight, entry)).ok_or_else(unknown)?;
        check_own(&sight, &entry)?;
        let reason = reason(&call, None)?;
        let (who, kind, answer) = (
            entry.body.who.clone(),
            entry.kind.as_str(),
            ApiAnswer::json(&LiveEntryAnswer::of(&entry, &call)),
        );
        let event = EventName::LiveEntryRemoved;
        let (remove, more) = (vec![id.clone()], Value::Null);
        LiveDeed { remove, add: vec![], event, who, kind, reason, more, answer: None }.run(&call).await?;
        Ok(answer)
    })
}

/// The reason for what is done: that of the body, else that of the query or the header.
pub(super) fn reason(call: &ApiCall, in_body: Option<String>) -> Result<Option<String>, ApiError> {
    // The query and the header are checked also where the body has a reason.
    let elsewhere = call.reason()?;
    if in_body.as_ref().is_some_and(|reason| reason.len() > REASON_BYTES_MAX) {
        return Err(unprocessable("/reason", "it is longer than 1,024 bytes"));
    }
    // Blanks are no reason.
    let mut told = [in_body, elsewhere].into_iter().flatten().map(|reason| reason.trim().to_owned());
    Ok(told.find(|reason| !reason.is_empty()))
}

/// When an entry ends.
pub(super) fn end(call: &ApiCall, text: &str) -> Result<UnixMillis, ApiError> {
    let end: Timestamp = text
        .parse()
        .map_err(|_| unprocessable("/until", "it must be a time such as 2027-01-01T00:00:00Z"))?;
    let end = UnixMillis::new(end.as_millisecond());
    if end <= unix_millis(call.now) {
        return Err(unprocessable("/until", "that time has passed"));
    }
    Ok(end)
}

pub(super) fn unprocessable(pointer: &str, detail: &str) -> ApiError {
    ApiError::Unprocessable { detail: detail.to_owned(), pointer: pointer.to_owned(), more: Value::Null }
}

/// What the caller sees of the policy in force.
pub(super) async fn sight(call: &ApiCall) -> Result<Sight, ApiError> {
    let (_, root) = call.control().document().await.ok_or(ApiError::Internal)?;
    Ok(Sight::of(call.principal(), &root))
}

/// Checks that a restricted caller names tenants of its subtree, and no others, and exempts nobody from the limits above.
async fn check_tenants(call: &ApiCall, entry: &LiveEntry) -> Result<(), ApiError> {
    let sight = sight(call).await?;
    if let (Sight::Subtree { top, .. }, LiveKind::Allow) = (&sight, entry.kind) {
        return Err(ApiError::Outside(format!(
            "the token is restricted to `{top}`, and an exemption comes before all limits, also before those of its parent"
        )));
    }
    check_named_tenants(&sight, entry)
}

/// Checks that a restricted caller names tenants of its subtree, and no others.
pub(super) fn check_named_tenants(sight: &Sight, entry: &LiveEntry) -> Result<(), ApiError> {
    let Sight::Subtree { top, tenants, .. } = sight else { return Ok(()) };
    let who = entry.body.who_node().ok_or(ApiError::Internal)?;
    let Some(named) = who.get("tenant") else {
        return Err(ApiError::Outside(format!(
            "the token is restricted to `{top}`: `who` must name tenants of its subtree"
        )));
    };
    let items = named.items();
    let named = if items.is_empty() { std::slice::from_ref(named) } else { items };
    let is_outside = |id: &&str| !tenants.contains(*id);
    match named.iter().filter_map(DocumentNode::scalar).find(is_outside) {
        Some(outside) => Err(not_found(Collection::Tenants, outside)),
        None => Ok(()),
    }
}

/// Does the caller see an entry?
pub(super) fn sees(sight: &Sight, entry: &LiveEntry) -> bool {
    entry.body.who_node().is_some_and(|who| sight.sees(Collection::Block, &who))
}

impl LiveEntryAnswer {
    pub(super) fn of(entry: &LiveEntry, call: &ApiCall) -> LiveEntryAnswer {
        let masked = LiveEntryAnswer::masked(entry);
        match call.principal().role < AccessRole::Editor {
            true => masked,
            false => LiveEntryAnswer { who: entry.body.who.clone(), ..masked },
        }
    }

    /// Without values that may be secrets.
    fn masked(entry: &LiveEntry) -> LiveEntryAnswer {
        let masked = || serde_json::from_str(&shown_who(&entry.body.who)?.to_json()).ok();
        LiveEntryAnswer {
            id: entry.id.clone(),
            kind: entry.kind.as_str(),
            who: masked().unwrap_or_default(),
            until: entry.until.map(rfc3339),
            reason: entry.reason.clone(),
            created: rfc3339(entry.created_at),
            author: entry.author.clone(),
        }
    }
}
