//! The policy: a document, checked and compiled to an immutable rule set.
//!
//! [`Policy::parse`] reads a YAML or JSON document; [`PolicyBuilder`] builds the same policy in Rust. Both report every
//! problem at once. The result is a [`RuleSet`], which finds the limits that apply to a [`Request`].

mod builder;
mod compile;
pub mod document;
mod identity;
mod matching;
mod path;
mod policy;
mod request;
mod rules;

pub use builder::{
    DetectorBuilder, GateBuilder, LimitBuilder, PolicyBuilder, RouteBuilder, TenantBuilder, UpstreamBuilder,
};
pub use compile::{ENTRIES_MAX, TENANT_DEPTH_MAX, compile};
pub use document::{
    COLLECTIONS, EntryChange, MemberChange, NamedEntry, OnStoreError, PolicyChange, TENANT_PREFIX,
    content_id, entry_index, json_schema, name_field, named_entries, policy_changes, read, read_node,
    reference, with_name,
};
pub use identity::{
    HostTemplate, Identified, IdentifiedMember, IdentityEvidence, IdentityFault, IdentityMember,
    IdentitySource, IdentitySources, KeyHolder, QueryFault, SourceError, single_query_value,
};
pub use matching::{Condition, HostError, HostPattern};
pub use path::{PathSpelling, Pattern, PatternError, Segment, normalise};
pub use policy::{Policy, PolicyError};
pub use request::{
    Credential, Descriptor, Facts, GateStage, KeyBytes, Pairs, Priority, Request, Trust, query_value,
    values_of_key,
};
pub use rules::{
    Allocation, Applicability, BoundOverride, CostRule, DetectorRule, Gate, GateRule, Group, Judgement,
    LimitOverrides, Numbers, OverrideRule, OverrideUse, Overrides, Plan, PlanItem, PlanOverrides,
    ResolvedTenantLimit, Rule, RuleSet, Strategy, TagRule, Tenant, TenantAllocation, TenantBucket,
    TenantCharge, Tenants, Tier, Upstreams, override_share,
};
pub use tidegate_core::{Algorithm, Carry};
pub use tidegate_document::{Problem, Severity, Span, Spanned};

/// The example of the README is tested like those here.
#[cfg(doctest)]
mod readme {
    #[doc = include_str!("../README.md")]
    struct Crate;
}
