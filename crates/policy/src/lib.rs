//! The policy: a document, checked and compiled to an immutable rule set.

mod builder;
mod compile;
mod descriptor;
pub mod document;
mod facts;
pub mod form;
mod gate;
mod json_text;
mod judge;
mod matching;
mod nearest;
pub mod node;
mod numbers;
mod path;
mod policy;
mod problem;
mod read;
mod reference;
mod request;
mod rule;
mod ruleset;
mod schema;
mod shape;
mod share;
mod span;
mod spelling;
mod tenants;
mod text;

pub use builder::{LimitBuilder, PolicyBuilder};
pub use compile::{ENTRIES_MAX, compile};
pub use descriptor::{Descriptor, GateStage};
pub use document::OnStoreError;
pub use facts::{Facts, KeyBytes};
pub use gate::{Gate, GateRule};
pub use json_text::JsonText;
pub use judge::{Applicability, Judgement};
pub use matching::Condition;
pub use nearest::nearest;
pub use numbers::Numbers;
pub use path::{Pattern, PatternError, Segment};
pub use policy::{Policy, PolicyError};
pub use problem::{Problem, Severity};
pub use read::{read, read_node};
pub use reference::reference;
pub use request::{Credential, Pairs, Request, Trust};
pub use rule::{CostRule, Group, Rule, Strategy, TagRule, Tier};
pub use ruleset::{DetectorRule, Plan, PlanItem, RuleSet};
pub use schema::json_schema;
pub use shape::unmapped;
pub use span::{Span, Spanned};
pub use spelling::{PathSpelling, normalise};
pub use tenants::{Tenant, Tenants};

/// The example of the README is tested like those here.
#[cfg(doctest)]
mod readme {
    #[doc = include_str!("../README.md")]
    struct Crate;
}
