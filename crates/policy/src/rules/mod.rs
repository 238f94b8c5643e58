//! The compiled policy: rules, gates and tenants, ready to be applied to requests.

mod gate;
mod judge;
mod limit_owner;
mod named_keys;
mod numbers;
mod overrides;
mod rule;
mod rule_set;
mod share;
mod tenants;
mod upstreams;

pub use gate::{Gate, GateRule};
pub use judge::{Applicability, Judgement};
pub use numbers::Numbers;
pub(crate) use numbers::WindowLength;
pub use overrides::{
    BoundOverride, LimitOverrides, OverrideRule, OverrideUse, Overrides, PlanOverrides, override_share,
};
pub(crate) use rule::excepts;
pub use rule::{CostRule, Group, Rule, Strategy, TagRule, Tier};
pub(crate) use rule_set::{CompiledRoute, Routes};
pub use rule_set::{DetectorRule, Plan, PlanItem, RuleSet};
pub use tenants::{
    Allocation, ResolvedTenantLimit, Tenant, TenantAllocation, TenantBucket, TenantCharge, Tenants,
};
pub use upstreams::Upstreams;
