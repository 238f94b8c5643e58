//! The effective numbers of a tenant: where each comes from, and what is left of them now.

use std::sync::Arc;

use serde::Serialize;
use tidegate::engine::{ExplainedTenant, Request};
use tidegate_policy::document::{BudgetMode, Sharing};
use tidegate_policy::{Numbers, Policy, ResolvedTenantLimit, RuleSet};
use utoipa::ToSchema;

use crate::control::RunningPolicy;
use crate::control::api::route::Answering;
use crate::control::api::{ApiAnswer, ApiCall, ApiError};
use crate::control::collection::Collection;
use crate::control::entry_edit::not_found;
use crate::control::subtree::Sight;

/// The numbers of a tenant.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct EffectiveNumbers {
    /// The tenant.
    tenant: String,
    /// Its ancestors, from the root down, and itself.
    chain: Vec<String>,
    /// Its numbers for all requests, then for single upstreams.
    limits: Vec<EffectiveLimit>,
    /// The buckets from which its requests take tokens, from the root down, and their state on this node.
    buckets: Vec<TenantBucketState>,
}

/// The numbers of a tenant for all requests, or for those to one upstream.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct EffectiveLimit {
    /// The upstream; null: for all requests.
    upstream: Option<String>,
    /// Whether the limit binds the tenants below: `private`, `inherit` or `enforce`.
    sharing: String,
    /// How its budget is used: `unlimited`, `allocated` or `shared`.
    budget: String,
    /// Its own numbers.
    own: Option<LimitNumbers>,
    /// The numbers that apply.
    effective: Option<LimitNumbers>,
    /// The tenants from which the effective rate and burst come.
    origin: Option<NumberOrigin>,
}

/// A rate and a burst.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LimitNumbers {
    /// Tokens in each window.
    rate: u64,
    /// The window.
    window_ms: u64,
    /// The capacity.
    burst: u32,
}

/// The tenants from which numbers come.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct NumberOrigin {
    /// That of the rate.
    rate: String,
    /// That of the burst.
    burst: String,
}

/// A bucket in the chain of a tenant.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TenantBucketState {
    /// The name of the limit, as in decisions.
    name: String,
    /// The tenant whose limit it is.
    tenant: String,
    /// The upstream that it is for; null: for all requests.
    upstream: Option<String>,
    /// What the bucket holds when it is full.
    limit: u64,
    /// What is left.
    remaining: u64,
    /// When it is full again.
    reset_after_ms: u64,
}

/// `GET /tenants/{id}/effective`
pub(in crate::control::api) fn effective(call: ApiCall) -> Answering {
    Box::pin(async move {
        let id = call.path.get(0);
        let (running, root) = call.control().document().await.ok_or(ApiError::Internal)?;
        let (shares, whole) = (call.node.limiter().rules(), whole_rules(&call, &running).await?);
        let rules: &RuleSet = whole.as_ref().unwrap_or(&shares);
        let sight = Sight::of(call.principal(), &root);
        let missing = || not_found(Collection::Tenants, id);
        let listed = rules.tenants().get(id).filter(|tenant| &*tenant.id == id && sight.has_tenant(id));
        let tenant = listed.ok_or_else(missing)?;
        let of_upstreams = tenant.upstreams.iter().map(|(number, limit)| (Some(*number), limit));
        let limits = std::iter::once((None, &tenant.limit)).chain(of_upstreams);
        let limits: Vec<EffectiveLimit> =
            limits.map(|(number, limit)| effective_limit(rules, id, number, limit)).collect();
        let mut buckets = buckets(&call, id, None).await?;
        for limit in &limits {
            let Some(upstream) = &limit.upstream else { continue };
            let of_upstream = self::buckets(&call, id, Some(upstream)).await?;
            buckets.extend(of_upstream.into_iter().filter(|bucket| bucket.upstream.is_some()));
        }
        let chain = rules.tenants().chain(id).iter().map(|tenant| tenant.id.to_string()).collect();
        let numbers = EffectiveNumbers { tenant: id.to_owned(), chain, limits, buckets };
        Ok(ApiAnswer::json(&numbers).version(running.version))
    })
}

/// The rules as the policy has them, where those in force have only this node's share of the numbers, since several nodes
/// divide each limit among them.
async fn whole_rules(call: &ApiCall, running: &RunningPolicy) -> Result<Option<RuleSet>, ApiError> {
    if call.node.settings().nodes <= 1 {
        return Ok(None);
    }
    let (text, now) = (Arc::clone(&running.text), call.now);
    let parsed = call.control().run_long(move || Policy::parse_at(&text, now).ok()).await;
    let policy = parsed.flatten().ok_or(ApiError::Internal)?;
    Ok(Some(policy.into()))
}

fn effective_limit(
    rules: &RuleSet,
    id: &str,
    number: Option<u32>,
    limit: &ResolvedTenantLimit,
) -> EffectiveLimit {
    let name = |number: u32| rules.upstreams().names().get(number as usize).map(ToString::to_string);
    let origin = rules.tenants().origins(id, number).filter(|_| limit.effective.is_some());
    EffectiveLimit {
        upstream: number.and_then(name),
        sharing: match limit.sharing {
            Sharing::Private => "private",
            Sharing::Inherit => "inherit",
            Sharing::Enforce => "enforce",
        }
        .to_owned(),
        budget: match limit.budget {
            BudgetMode::Unlimited => "unlimited",
            BudgetMode::Allocated => "allocated",
            BudgetMode::Shared => "shared",
        }
        .to_owned(),
        own: limit.own.map(numbers),
        effective: limit.effective.map(numbers),
        origin: origin.map(|(rate, burst)| NumberOrigin { rate: rate.to_owned(), burst: burst.to_owned() }),
    }
}

fn numbers(numbers: Numbers) -> LimitNumbers {
    LimitNumbers { rate: numbers.rate, window_ms: numbers.window.as_millis_ceil(), burst: numbers.capacity }
}

/// The buckets that a request of the tenant takes tokens from, and their state now.
async fn buckets(
    call: &ApiCall,
    id: &str,
    upstream: Option<&str>,
) -> Result<Vec<TenantBucketState>, ApiError> {
    let request = Request {
        tenant: Some(id.to_owned().into()),
        upstream: upstream.map(|upstream| upstream.to_owned().into()),
        ..Request::default()
    };
    let explained = call.node.limiter().explain_async(&request).await;
    let explained =
        explained.map_err(|error| ApiError::Unavailable(format!("the store does not answer: {error}")))?;
    Ok(explained.tenants.into_iter().filter_map(bucket).collect())
}

fn bucket(tenant: ExplainedTenant) -> Option<TenantBucketState> {
    let state = tenant.bucket?.before;
    Some(TenantBucketState {
        name: format!("{}{}", tidegate_policy::TENANT_PREFIX, tenant.name),
        tenant: tenant.id,
        upstream: tenant.upstream,
        limit: state.limit.into(),
        remaining: state.remaining.into(),
        reset_after_ms: state.reset_after.as_millis_ceil(),
    })
}
