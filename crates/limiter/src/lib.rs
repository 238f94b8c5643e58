//! A rate limiter to embed: exact, lock-free, in memory of a fixed size.
//!
//! # A bucket
//!
//! A [`Quota`] is a sustained rate and a burst on top of it. A [`Bucket`] enforces one quota for everything
//! that shares it:
//!
//! ```
//! use std::time::Duration;
//! use tidegate::{Bucket, Cost, Quota};
//!
//! // 6,000 per minute, up to 600 of them at once.
//! let quota = Quota::new(6_000, Duration::from_secs(60), 600)?;
//! let bucket = Bucket::new(quota);
//!
//! let decision = bucket.take(Cost::new(10));
//! assert!(decision.is_allowed());
//! assert_eq!(decision.limit, 600);
//! # Ok::<(), tidegate::QuotaError>(())
//! ```
//!
//! The [`LimitDecision`] has everything that a client needs to know: what is left, when all of it is back, and after a
//! denial how long to wait ([`RetryAfter`]). That wait is exact: after it, if nothing else was charged
//! meanwhile, the request is admitted. A cost above the capacity is [`Outcome::Never`], since no wait would
//! help.
//!
//! # A bucket for each key
//!
//! [`Keyed`] applies the same limits to each user, address or any other hashable key, in memory that is
//! allocated once:
//!
//! ```
//! use std::net::{IpAddr, Ipv4Addr};
//! use tidegate::{Cost, Keyed, MemoryOptions, MonotonicClock, Quota};
//!
//! let options = MemoryOptions { max_keys: 100_000, ..MemoryOptions::default() };
//! let per_address: Keyed<IpAddr> =
//!     Keyed::with(Quota::per_minute(60)?, options, MonotonicClock::new())?.and(Quota::per_hour(600)?)?;
//!
//! let client = IpAddr::from(Ipv4Addr::LOCALHOST);
//! let decision = per_address.take(&client, Cost::ONE);
//! assert_eq!(decision.remaining, 59, "the decision of the tighter limit is returned");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Other algorithms
//!
//! Wherever a [`Limit`] is expected, every algorithm can be used: a [`Quota`] is a token bucket,
//! [`Limit::sliding_window`] and [`Limit::fixed_window`] count in windows, and a [`LogQuota`] stores every
//! request.
//!
//! ```
//! use std::time::Duration;
//! use tidegate::{Cost, Keyed, Limit, WindowQuota};
//!
//! let five_a_minute = WindowQuota::new(5, Duration::from_secs(60))?;
//! let logins: Keyed<str> = Keyed::new(Limit::sliding_window(five_a_minute))?;
//! assert!((0..5).all(|_| logins.take("alice", Cost::ONE).is_allowed()));
//! assert!(!logins.take("alice", Cost::ONE).is_allowed());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Several limits at once
//!
//! Limits over different keys (this user, this tenant, everybody) are charged together through a [`Store`]: all
//! of them, or none.
//!
//! ```
//! use tidegate::{Carry, Charge, Clock, Cost, Intent, Memory, MemoryOptions, Quota, Store};
//!
//! let store = Memory::new(MemoryOptions::default())?;
//! let now = store.clock().now();
//! let per_user = store.limit("per-user", Quota::per_second(10)?.into(), Carry::AsIs, now)?;
//! let overall = store.limit("overall", Quota::per_second(1_000)?.into(), Carry::AsIs, now)?;
//!
//! let charges = [Charge::new(&per_user, b"alice", Cost::ONE), Charge::new(&overall, b"", Cost::ONE)];
//! let verdict = store.charge_now(Intent::Take, &charges, now);
//! assert!(verdict.allowed);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # A whole policy
//!
//! With the feature `policy`, limits come from a YAML or JSON document, or from a `PolicyBuilder` in Rust:
//! groups, tenants with budgets, costs by route, gates, burst detection, trust. See the module `engine`.
//!
#![cfg_attr(feature = "policy", doc = "```")]
#![cfg_attr(not(feature = "policy"), doc = "```ignore")]
//! use tidegate::engine::{Limiter, Policy, Request};
//!
//! let policy = Policy::parse(
//!     "version: 1\n\
//!      limits:\n\
//!      - { name: per-user, key: [user], sustained: { rate: 10 }, burst: { capacity: 50 } }\n",
//! )?;
//! let limiter = Limiter::new(policy)?;
//! let decision = limiter.check(&Request::new().user("42").path("/api/videos"));
//! assert!(decision.is_allowed());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Time
//!
//! Everything takes its time from a [`Clock`]. The default one is monotonic and costs a few nanoseconds per
//! reading; tests use a [`ManualClock`] and never sleep. A clock that steps back refills nothing.
//!
//! # What it costs, and what happens under attack
//!
//! A key takes 23 bytes and a decision one cache miss. Keys are not stored: a slot holds a fingerprint of 43
//! bits under a secret that is new in each process, and the position in the table adds about twenty bits. If
//! two keys ever agree in all of them, they share one budget; neither gets more than that.
//!
//! A key whose bucket is full need not be stored, so its slot can go to another key without loss. If more than
//! `max_keys` keys are in use at once, those without a slot share one overflow bucket per limit: a flood of
//! keys can neither grow memory nor refill any bucket. [`Keyed::stats`] counts all of this. Nothing is kept on
//! disk: after a restart every bucket is full.
//!
//! # Features
//!
//! - `async`: [`Bucket::take_within`] and [`Keyed::take_within`] wait for tokens, up to a timeout, on a tokio
//!   runtime.
//! - `policy`: the policy-driven limiter, in `tidegate::engine`; with `async` it can also queue requests.
//! - `testing`: the conformance suite for stores, in `tidegate::testing`.
//!
//! All features only add items; none is on by default.

mod bucket;
mod charge;
mod clock;
#[cfg(feature = "policy")]
pub mod engine;
pub mod history;
mod keyed;
pub mod measure;
mod memory;
mod now_or_later;
mod shared_bursts;
mod store;
#[cfg(feature = "testing")]
pub mod testing;
#[cfg(feature = "async")]
mod wait;

pub use bucket::Bucket;
pub use charge::{Charge, Intent, OwnedCharge, Role, Verdict};
#[cfg(feature = "async")]
pub use clock::Sleep;
pub use clock::{Clock, ManualClock, MonotonicClock};
pub use keyed::Keyed;
pub use memory::{Memory, MemoryError, MemoryOptions, MemoryStats};
pub use now_or_later::{Later, NowOrLater};
pub use shared_bursts::{
    BurstAction, BurstCount, BurstCounts, BurstDetector, BurstSubject, BurstVerdict, KnownBurst, LateBurst,
    SHARED_PENALTIES_MAX, SharedBursts, SharedPenalty, SharedPenaltyPage,
};
pub use store::{LimitError, LimitRef, NamedLimit, Store};
pub use tidegate_core::{
    Algorithm, Carry, Cost, Limit, LimitDecision, LimitVariant, LogQuota, Meter, Nanos, Outcome,
    OverrideNumbers, Quota, QuotaError, Rate, RetryAfter, WindowQuota,
};

/// All limiters can be shared between threads, whatever the key type.
const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<Bucket>();
    shared::<Keyed<str>>();
    shared::<Keyed<std::rc::Rc<str>>>();
    shared::<Memory>();
};

/// Runs the examples of the README files as doc tests.
#[cfg(doctest)]
mod readme {
    #[doc = include_str!("../README.md")]
    struct Crate;
    #[doc = include_str!("../../../README.md")]
    struct Project;
}
