//! The policy-driven [`Limiter`] (feature `policy`).
//!
//! A [`Policy`] is read from a document and compiled; a [`Limiter`] decides [`Request`]s by it:
//! [`check`](Limiter::check), [`peek`](Limiter::peek), [`refund`](Limiter::refund),
//! [`explain`](Limiter::explain). A [`Decision`] has the reason, the limit and the wait, and renders itself as
//! JSON, as headers and as a problem body. [`swap`](Limiter::swap) replaces the policy while requests are
//! served.
//!
//! ```
//! use tidegate::engine::{Limiter, Policy, Reason, Request};
//!
//! let policy = Policy::parse("
//! version: 1
//! limits:
//!   - { name: free, group: plan, match: { plan: free }, key: [user], sustained: { rate: 1, window: minute } }
//!   - { name: paid, group: plan, key: [user], sustained: { rate: 100 } }
//! block:
//!   - { ip: 203.0.113.0/24, reason: abuse }
//! ")?;
//! let limiter = Limiter::new(policy)?;
//!
//! let free = Request::new().user("42").plan("free");
//! assert!(limiter.check(&free).is_allowed());
//! let denied = limiter.check(&free);
//! assert_eq!((denied.violated_rule(), denied.status()), (Some("free"), 429));
//! denied.headers(|name, value| println!("{name}: {value}"));
//!
//! let blocked = limiter.check(&Request::new().ip([203, 0, 113, 7]));
//! assert_eq!(blocked.reason(), Reason::Blocked);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod active;
mod ad_hoc;
pub mod beside;
pub mod bursts;
pub mod counting;
mod decide;
mod decision;
mod keys;
mod limit_handle;
mod limiter;
mod live_gates;
pub mod masking;
mod observe;
mod overrides;
#[cfg_attr(not(feature = "async"), allow(dead_code, reason = "only `async` can wait in a queue"))]
mod queue;
mod reason;
pub mod render;
pub mod trust;

pub use ad_hoc::{AdHocAnswer, AdHocBuckets, AdHocError, AdHocLimit, AdHocRequest};
pub use counting::limiter_stats::RulesInForce;
pub use counting::routes::{RouteCount, RouteOutcome};
pub use counting::stats::{BusyKey, BusyKeys, CountedLimits};
pub use counting::unlimited::MissingCount;
pub use decide::entered::Entered;
pub use decide::explain::{
    ExplainedBucket, ExplainedDetector, ExplainedGate, ExplainedLimit, ExplainedOverride, ExplainedTenant,
    Explanation,
};
pub use decide::fallback::{FallbackError, StoreFailures};
pub use decide::joint::{Joint, JointBy, JointDecision};
pub use decision::{Decision, LimitStanding};
pub use keys::{ChosenLimits, TouchedLimit};
pub use limiter::{BURST_KEYS_MAX, InvalidCredentials, Limiter, LimiterError};
pub use observe::{AdHocDenial, Incident, IncidentKind, Observer};
pub use queue::places::QueuePlace;
pub use reason::Reason;
pub use tidegate_document::unmapped;
pub use tidegate_policy::document::{BudgetMode, HeaderFamily, Missing, OnStoreError, Sharing};
pub use tidegate_policy::{
    Credential, Descriptor, DetectorBuilder, GateBuilder, IdentityEvidence, IdentityFault, IdentityMember,
    IdentitySource, IdentitySources, KeyHolder, LimitBuilder, OverrideRule, OverrideUse, Overrides,
    PathSpelling, Policy, PolicyBuilder, PolicyError, Priority, Problem, Request, RouteBuilder, RuleSet,
    SourceError, TENANT_PREFIX, TenantBuilder, Trust, UpstreamBuilder,
};
