//! What `explain` prints about one limit of a tenant.

use std::fmt::Write;

use serde_json::{Value, json};
use tidegate::engine::ExplainedTenant;
use tidegate_policy::document::{BudgetMode, Sharing};

/// Its sharing mode and its budget.
pub(super) fn about(tenant: &ExplainedTenant) -> String {
    format!("{}, budget {}", sharing(tenant.sharing), budget(tenant.budget))
}

/// Its role, its own numbers, and those that apply to it.
pub(super) fn numbers(out: &mut String, tenant: &ExplainedTenant) -> std::fmt::Result {
    writeln!(out, "      {}", tenant.part)?;
    let none = || "none".to_owned();
    writeln!(out, "      own limit: {}", tenant.own.clone().unwrap_or_else(none))?;
    if tenant.effective != tenant.own {
        let effective = tenant.effective.clone().unwrap_or_else(none);
        writeln!(out, "      lowest on the way from the root: {effective}")?;
    }
    Ok(())
}

pub(super) fn json(tenant: &ExplainedTenant, bucket: Option<Value>) -> Value {
    json!({
        "name": tenant.name,
        "id": tenant.id,
        "upstream": tenant.upstream,
        "sharing": sharing(tenant.sharing),
        "budget": budget(tenant.budget),
        "own": tenant.own,
        "effective": tenant.effective,
        "part": tenant.part,
        "bucket": bucket,
    })
}

fn sharing(sharing: Sharing) -> &'static str {
    match sharing {
        Sharing::Private => "private",
        Sharing::Inherit => "inherit",
        Sharing::Enforce => "enforce",
    }
}

fn budget(budget: BudgetMode) -> &'static str {
    match budget {
        BudgetMode::Unlimited => "unlimited",
        BudgetMode::Allocated => "allocated",
        BudgetMode::Shared => "shared",
    }
}
