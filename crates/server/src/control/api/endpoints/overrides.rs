//! Routes about overrides: other numbers of a limit for some clients, for a while, beside the policy.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use http::Method;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tidegate_database::UnixMillis;
use tidegate_document::{DocumentNode, nearest};
use tidegate_policy::{Policy, RuleSet, TENANT_PREFIX};
use utoipa::ToSchema;

use super::explained::ShownBuckets;
use super::live::{
    check_named_tenants, check_own, cursor, end, page, reason, sees, sight, unfinished, unprocessable,
};
use crate::control::access::AccessRole;
use crate::control::api::query::{PAGE, REASON};
use crate::control::api::route::{Answering, ApiRoute, RouteAccess, TenantRule};
use crate::control::api::shape::{AnswerShape, BodyShape, JsonShape};
use crate::control::api::{ApiAnswer, ApiCall, ApiError, PREFIX, rfc3339};
use crate::control::changing::IdempotencyKey;
use crate::control::collection::Collection;
use crate::control::entry_edit::not_found;
use crate::control::live::carrier;
use crate::control::live::changing::{LiveDeed, new_live_id, shown_who};
use crate::control::live::entry::{LiveBody, LiveEntry, LiveKind};
use crate::control::live::gates::check_who;
use crate::control::live::overrides::OverrideBody;
use crate::control::startup::unix_millis;
use crate::control::subtree::Sight;
use crate::observe::EventName;

/// An override to add.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WantedOverride {
    /// For whom: descriptors and their values, as in an entry of `block`. All must hold.
    #[schema(value_type = Object, example = json!({ "user": "42" }))]
    who: Value,
    /// The name of the limit, as decisions show it: `per-user`, or `tenant:acme` for that of a tenant.
    #[schema(example = "per-user")]
    limit: String,
    /// The rate and the burst of the limit times this, from 0.01 to 100 in hundredths. Without it, `sustained`, `burst`
    /// or both.
    #[schema(minimum = 0.01, maximum = 100, example = 2.5)]
    multiplier: Option<f64>,
    /// A rate in place of that of the limit, as in the policy. Without a window, that of the limit is meant.
    #[schema(value_type = Option<Object>, example = json!({ "rate": 100, "window": "minute" }))]
    sustained: Option<Value>,
    /// A burst in place of that of the limit, as in the policy: a `capacity`, or an `allowance`, which is a multiple of the
    /// rate given here, else of the rate that the limit has now.
    #[schema(value_type = Option<Object>, example = json!({ "capacity": 50 }))]
    burst: Option<Value>,
    /// Until when; without it, until it is removed.
    #[schema(format = DateTime)]
    until: Option<String>,
    /// Why.
    #[schema(max_length = 1024)]
    reason: Option<String>,
}

/// An override.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct OverrideAnswer {
    /// Its name.
    id: String,
    /// For whom it is.
    #[schema(value_type = Object)]
    who: Value,
    /// The name of the limit.
    limit: String,
    /// What the rate and the burst of the limit are multiplied by.
    #[serde(skip_serializing_if = "Option::is_none")]
    multiplier: Option<f64>,
    /// The rate in place of that of the limit.
    #[schema(value_type = Option<Object>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    sustained: Option<Value>,
    /// The burst in place of that of the limit.
    #[schema(value_type = Option<Object>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    burst: Option<Value>,
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
    /// When a request was last decided by it; `null` if none was yet.
    last_used: Option<String>,
    /// `true` if the limit cannot have these numbers any more, so that the limit itself applies.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    refused: bool,
}

const READS: RouteAccess = RouteAccess::Role(AccessRole::Viewer, TenantRule::Subtree);
const OPERATES: RouteAccess = RouteAccess::Role(AccessRole::Operator, TenantRule::Subtree);

/// The routes.
pub(in crate::control::api) fn routes() -> Vec<ApiRoute> {
    let answer = JsonShape::of::<OverrideAnswer>();
    let listed = "The overrides, newest first: other numbers of a limit for some clients.";
    let added = "Gives a limit other numbers for some clients until a time. The newest that matches applies.";
    let (shown, removed) = ("One override, and when it was last used.", "Ends an override.");
    vec![
        ApiRoute {
            query: &[PAGE],
            ..ApiRoute::new(Method::GET, "/overrides", READS, listed, AnswerShape::List(answer), list)
        },
        ApiRoute {
            query: &[REASON],
            body: BodyShape::Json(JsonShape::of::<WantedOverride>()),
            ..ApiRoute::new(Method::POST, "/overrides", OPERATES, added, AnswerShape::Created(answer), add)
        },
        ApiRoute::new(Method::GET, "/overrides/{id}", READS, shown, AnswerShape::Json(answer), show),
        ApiRoute {
            query: &[REASON],
            ..ApiRoute::new(
                Method::DELETE,
                "/overrides/{id}",
                OPERATES,
                removed,
                AnswerShape::Json(answer),
                remove,
            )
        },
    ]
}

/// `POST /overrides`
fn add(call: ApiCall) -> Answering {
    Box::pin(async move {
        let wanted: WantedOverride = call.json()?;
        let key = IdempotencyKey::of(&call)?;
        if let Some(key) = &key
            && let Some(earlier) = key.earlier(&call).await?
        {
            return earlier.map(|answer| added(&answer)).ok_or_else(unfinished);
        }
        let reason = reason(&call, wanted.reason)?;
        let mut overridden = OverrideBody {
            limit: wanted.limit,
            times: wanted.multiplier.map(hundredths).transpose()?,
            sustained: wanted.sustained,
            burst: wanted.burst,
        };
        let mut entry = LiveEntry {
            id: new_live_id()?,
            kind: LiveKind::Override,
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
        let spelling = call.node.limiter().rules().spelling();
        check_who(&entry, spelling, call.now).map_err(|wrong| unprocessable("/who", &wrong))?;
        check_sight(&call, &entry, &overridden).await?;
        fill_from_limit(&call, &mut overridden).await?;
        check_limit(&call, &overridden)?;
        entry.body.overridden = Some(overridden.clone());
        let shown = serde_json::json!(OverrideAnswer::of(&entry, &overridden, None, &call));
        // Whoever repeats the request knows the values that are masked there.
        let remembered = serde_json::json!(OverrideAnswer::masked(&entry, &overridden, None, &call));
        let answer = key.map(|key| key.change_answer(Some(&remembered), false));
        let (who, kind, event) =
            (entry.body.who.clone(), LiveKind::Override.as_str(), EventName::OverrideAdded);
        let (remove, add, more) = (vec![], vec![entry], told_of(&shown));
        LiveDeed { remove, add, event, who, kind, reason, more, answer }.run(&call).await?;
        Ok(added(&shown))
    })
}

/// The answer for an override that was added.
fn added(shown: &Value) -> ApiAnswer {
    let location = format!("{PREFIX}/overrides/{}", shown["id"].as_str().unwrap_or_default());
    ApiAnswer::json(shown).created(&location)
}

/// What the audit says of an override, beside whom it is for.
fn told_of(shown: &Value) -> Value {
    let members = ["limit", "multiplier", "sustained", "burst", "until"];
    let told = members.into_iter().filter_map(|name| Some((name.to_owned(), shown.get(name)?.clone())));
    Value::Object(told.collect())
}

fn wrong_numbers((member, why): (&'static str, String)) -> ApiError {
    unprocessable(member, &why)
}

/// Gives an override what it takes from its limit.
async fn fill_from_limit(call: &ApiCall, overridden: &mut OverrideBody) -> Result<(), ApiError> {
    if !overridden.needs_limit() {
        return Ok(());
    }
    if call.node.settings().nodes <= 1 {
        return overridden.fill(&call.node.limiter().rules()).map_err(wrong_numbers);
    }
    // The limits in force are the share of this node, so the numbers are read from the policy itself.
    let (text, now) = (Arc::clone(&call.control().running().text), call.now);
    let read = move || Policy::parse_at(&text, now).ok().map(|policy| policy.rules);
    let whole: RuleSet = call.control().run_long(read).await.flatten().ok_or(ApiError::Internal)?;
    overridden.fill(&whole).map_err(wrong_numbers)
}

/// Checks that there is such a limit, and that it can have the numbers and the store can count them.
fn check_limit(call: &ApiCall, overridden: &OverrideBody) -> Result<(), ApiError> {
    let (rules, nodes, mut is_known) = (call.node.limiter().rules(), call.node.settings().nodes, false);
    for rule in rules.rules().iter().filter(|rule| *rule.name == overridden.limit) {
        is_known = true;
        overridden.check_with(rule, nodes).map_err(wrong_numbers)?;
    }
    if is_known {
        let numbers = overridden.numbers().map_err(wrong_numbers)?;
        let counted = call.node.limiter().check_override(&overridden.limit, numbers, nodes);
        return counted.map_err(|wrong| wrong_numbers((overridden.member(), wrong.to_string())));
    }
    // A restricted caller does not learn the names of other limits.
    let known = rules.rules().iter().filter(|_| call.principal().tenant.is_none()).map(|rule| &*rule.name);
    let meant = nearest(&overridden.limit, known).map(|name| format!("; did you mean `{name}`?"));
    let unknown = format!("the policy in force has no limit of this name{}", meant.unwrap_or_default());
    Err(unprocessable("/limit", &unknown))
}

/// A multiplier in hundredths.
fn hundredths(multiplier: f64) -> Result<u16, ApiError> {
    let hundredths = multiplier * 100.0;
    let whole = hundredths.round();
    if (1.0..=10_000.0).contains(&whole) && (hundredths - whole).abs() < 1e-6 {
        return Ok(whole as u16);
    }
    Err(unprocessable("/multiplier", "it must be from 0.01 to 100, with at most two decimals"))
}

/// Checks that a restricted caller changes limits of its subtree for tenants of its subtree.
async fn check_sight(call: &ApiCall, entry: &LiveEntry, overridden: &OverrideBody) -> Result<(), ApiError> {
    let (_, root) = call.control().document().await.ok_or(ApiError::Internal)?;
    let sight = Sight::of(call.principal(), &root);
    let Sight::Subtree { top, tenants, .. } = &sight else { return Ok(()) };
    check_named_tenants(&sight, entry)?;
    let name = &*overridden.limit;
    if let Some(id) = name.strip_prefix(TENANT_PREFIX) {
        // `tenant:a/up` and `tenant:a:remainder` are limits of the tenant `a`, unless that is its whole id.
        let is_of = |tenant: &&String| {
            let rest = id.strip_prefix(tenant.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', ':']))
        };
        let owner = tenants.iter().filter(is_of).max_by_key(|tenant| tenant.len());
        return match owner {
            None => Err(not_found(Collection::Limits, name)),
            Some(owner) if owner == top => Err(ApiError::Outside(format!(
                "the token is restricted to `{top}`, whose own limit is its parent's to change"
            ))),
            Some(_) => Ok(()),
        };
    }
    let entries = root.get(Collection::Limits.as_str()).map(DocumentNode::items).unwrap_or_default();
    let is_it = |limit: &&DocumentNode| limit.get("name").and_then(DocumentNode::scalar) == Some(name);
    let limit = entries.iter().find(is_it).filter(|limit| sight.sees(Collection::Limits, limit));
    let limit = limit.ok_or_else(|| not_found(Collection::Limits, name))?;
    sight.check_editable(Collection::Limits, limit)
}

/// `GET /overrides`
fn list(call: ApiCall) -> Answering {
    Box::pin(async move {
        let (sight, entries) = (sight(&call).await?, call.control().live().entries(unix_millis(call.now)));
        let overridden = entries.iter().filter(|entry| entry.body.overridden.is_some());
        let ids: Vec<String> = overridden.map(|entry| entry.id.clone()).collect();
        let uses = told_uses(&call, &ids).await?;
        let mut items: Vec<(String, Value)> = Vec::new();
        for entry in entries {
            if let Some(overridden) = entry.body.overridden.as_ref().filter(|_| sees(&sight, &entry)) {
                let shown = OverrideAnswer::of(&entry, overridden, uses.get(&entry.id).copied(), &call);
                items.push((cursor(&entry), serde_json::json!(shown)));
            }
        }
        page(&call, items)
    })
}

/// `GET /overrides/{id}`
fn show(call: ApiCall) -> Answering {
    Box::pin(async move {
        let entry = call.control().live().entry(call.path.get(0), unix_millis(call.now));
        let (entry, overridden, _) = seen(&call, entry).await?;
        let told = told_use(&call, &entry).await?;
        Ok(ApiAnswer::json(&OverrideAnswer::of(&entry, &overridden, told, &call)))
    })
}

/// `DELETE /overrides/{id}`
fn remove(call: ApiCall) -> Answering {
    Box::pin(async move {
        let entry = LiveEntry::newest(&call, call.path.get(0)).await?;
        let (entry, overridden, sight) = seen(&call, entry).await?;
        check_own(&sight, &entry)?;
        let reason = reason(&call, None)?;
        let told = told_use(&call, &entry).await?;
        let shown = serde_json::json!(OverrideAnswer::of(&entry, &overridden, told, &call));
        let (who, kind, event) =
            (entry.body.who.clone(), LiveKind::Override.as_str(), EventName::OverrideRemoved);
        let (remove, add, more) = (vec![entry.id], vec![], told_of(&shown));
        LiveDeed { remove, add, event, who, kind, reason, more, answer: None }.run(&call).await?;
        Ok(ApiAnswer::json(&shown))
    })
}

/// The overrides by which buckets are counted, as far as the caller sees them.
pub(super) async fn overrides_of(
    call: &ApiCall,
    buckets: [&ShownBuckets; 2],
) -> Result<Vec<OverrideAnswer>, ApiError> {
    let ids: BTreeSet<&String> = buckets.into_iter().flat_map(|buckets| &buckets.overrides).collect();
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let ids: Vec<String> = ids.into_iter().cloned().collect();
    let (sight, uses, now) = (sight(call).await?, told_uses(call, &ids).await?, unix_millis(call.now));
    let found = ids.iter().filter_map(|id| call.control().live().entry(id, now));
    let shown = found.filter(|entry| sees(&sight, entry)).filter_map(|entry| {
        let overridden = entry.body.overridden.as_ref()?;
        Some(OverrideAnswer::of(&entry, overridden, uses.get(&entry.id).copied(), call))
    });
    Ok(shown.collect())
}

/// When an override was last used on any node, as far as that is told.
async fn told_use(call: &ApiCall, entry: &LiveEntry) -> Result<Option<UnixMillis>, ApiError> {
    Ok(told_uses(call, std::slice::from_ref(&entry.id)).await?.remove(&entry.id))
}

async fn told_uses(call: &ApiCall, ids: &[String]) -> Result<HashMap<String, UnixMillis>, ApiError> {
    Ok(carrier::told_uses(&call.node, LiveKind::Override, ids).await?)
}

/// The override that the path names, if there is one and the caller sees it, and what the caller sees.
async fn seen(
    call: &ApiCall,
    entry: Option<LiveEntry>,
) -> Result<(LiveEntry, OverrideBody, Sight), ApiError> {
    let (id, sight) = (call.path.get(0).to_owned(), sight(call).await?);
    let unknown = || ApiError::NotFound { what: "override", name: id.chars().take(256).collect() };
    let entry = entry.ok_or_else(unknown)?;
    let overridden = entry.body.overridden.clone().filter(|_| sees(&sight, &entry)).ok_or_else(unknown)?;
    Ok((entry, overridden, sight))
}

impl OverrideAnswer {
    fn of(
        entry: &LiveEntry,
        overridden: &OverrideBody,
        told: Option<UnixMillis>,
        call: &ApiCall,
    ) -> OverrideAnswer {
        let masked = OverrideAnswer::masked(entry, overridden, told, call);
        match call.principal().role < AccessRole::Editor {
            true => masked,
            false => OverrideAnswer { who: entry.body.who.clone(), ..masked },
        }
    }

    /// Without values that may be secrets.
    fn masked(
        entry: &LiveEntry,
        overridden: &OverrideBody,
        told: Option<UnixMillis>,
        call: &ApiCall,
    ) -> OverrideAnswer {
        let masked = || serde_json::from_str(&shown_who(&entry.body.who)?.to_json()).ok();
        let used = call.control().live().override_use(&entry.id);
        let own = used.as_ref().and_then(|used| used.last_used()).map(unix_millis);
        OverrideAnswer {
            id: entry.id.clone(),
            who: masked().unwrap_or_default(),
            limit: overridden.limit.clone(),
            multiplier: overridden.times.map(|times| f64::from(times) / 100.0),
            sustained: overridden.sustained.clone(),
            burst: overridden.burst.clone(),
            until: entry.until.map(rfc3339),
            reason: entry.reason.clone(),
            created: rfc3339(entry.created_at),
            author: entry.author.clone(),
            last_used: own.max(told).map(rfc3339),
            refused: used.is_some_and(|used| used.is_refused()),
        }
    }
}
