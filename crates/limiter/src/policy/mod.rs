//! A whole policy, decided: the policy-driven [`Limiter`] (feature `policy`).
//!
//! A [`Policy`] is read from a document and compiled; a [`Limiter`] decides
//! [`Request`]s by it: [`check`](Limiter::check), [`peek`](Limiter::peek),
//! [`refund`](Limiter::refund), [`explain`](Limiter::explain). A [`Decision`]
//! tells why, by which limit, and how long to wait, and says it as JSON, as
//! headers and as a problem body. [`swap`](Limiter::swap) puts another policy
//! into force while requests go on.
//!
//! ```
//! use tidegate::policy::{Limiter, Policy, Reason, Request};
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

mod account;
mod active;
mod ad_hoc;
#[cfg(feature = "async")]
mod admitting;
pub mod bursts;
mod concluding;
pub mod counters;
mod deciding;
mod decision;
pub mod durations;
mod entering;
mod explain;
mod fallback;
pub mod headers;
pub mod hot_keys;
pub mod jitter;
mod joint;
mod json;
mod limiter;
#[cfg_attr(not(feature = "async"), allow(dead_code, reason = "without it nobody can wait in a line"))]
mod line;
mod opening;
pub mod problem_body;
#[cfg_attr(not(feature = "async"), allow(dead_code, reason = "without it nobody can wait in a line"))]
mod queue;
mod respond;
#[cfg_attr(not(feature = "async"), allow(dead_code, reason = "without it nobody can wait in a line"))]
mod room;
mod stats;
pub mod trust_score;
mod waiting;

pub use account::RulesInForce;
pub use ad_hoc::{AdHocAnswer, AdHocBuckets, AdHocError, AdHocLimit, AdHocRequest};
pub use decision::{Decision, LimitStanding, Reason};
pub use entering::Entered;
pub use explain::{
    ExplainedBucket, ExplainedDetector, ExplainedGate, ExplainedLimit, ExplainedTenant, Explanation,
};
pub use fallback::{FallbackError, StoreFailures};
pub use joint::{Joint, JointBy, JointDecision};
pub use limiter::{BURST_KEYS_MAX, InvalidCredentials, Limiter};
pub use stats::BusyKey;
pub use tidegate_policy::{Credential, Policy, PolicyError, Problem, Request, RuleSet, Trust, unmapped};
pub use waiting::QueuePlace;
