//! What a tenant's parent has allotted: told to whoever creates or changes a tenant.

use serde_json::{Value, json};
use tidegate::Nanos;
use tidegate_policy::{Problem, RuleSet, TenantAllocation, compile, read};

use super::api::ApiError;
use super::told_problems::ToldProblems;

/// The allocation of the budget that a tenant's numbers count in; null if no budget is allotted there.
pub(super) fn told(rules: &RuleSet, tenant: &str) -> Value {
    let allocations = rules.tenants().allocations(tenant);
    let of_parent = allocations.iter().find(|of| of.upstream.is_none() && of.tenant != tenant);
    of_parent.or(allocations.first()).map_or(Value::Null, |of| allocation_json(rules, of))
}

/// The answer to a change that makes the policy invalid. If the reason is a budget of the changed tenant or of its
/// parent, the answer has its numbers.
pub(super) fn refusal(
    text: &str,
    tenant: Option<&str>,
    now: Nanos,
    told: &ToldProblems,
    problems: Vec<Problem>,
) -> ApiError {
    let Some(tenant) = tenant else { return told.refusal(problems) };
    let (document, _) = read(text);
    let (rules, _) = compile(&document, now);
    let allocations = rules.tenants().allocations(tenant);
    let Some(exceeded) = allocations.iter().find(|of| of.allocation.is_exceeded) else {
        return told.refusal(problems);
    };
    let numbers = exceeded.allocation;
    let detail = format!(
        "the budget of `{}` does not suffice: its tenants would be allotted {}, and its total is {}",
        exceeded.tenant, numbers.sum, numbers.total
    );
    let more = json!({
        "allocation": allocation_json(&rules, exceeded),
        "problems": told.json(&problems),
    });
    ApiError::Unprocessable { detail, pointer: "/rate_limit".to_owned(), more }
}

fn allocation_json(rules: &RuleSet, of: &TenantAllocation<'_>) -> Value {
    let numbers = of.allocation;
    let mut json = json!({
        "parent": of.tenant,
        "sum": numbers.sum,
        "total": numbers.total,
        "overcommit_ratio": numbers.overcommit_millionths as f64 / 1e6,
        "left": numbers.left,
    });
    if let Some(upstream) = of.upstream.and_then(|number| rules.upstreams().names().get(number as usize)) {
        json["upstream"] = (&**upstream).into();
    }
    json
}
