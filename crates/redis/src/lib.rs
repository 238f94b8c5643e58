//! Tidegate's limits on Redis or Valkey, shared by many processes.
//!
//! [`RedisStore`] implements [`tidegate::Store`], so the engine uses it like the store in memory. There are two modes:
//!
//! - [`StoreMode::Strict`]: every decision is one script call on the server, however many limits it charges.
//! - [`StoreMode::Hybrid`]: a node leases tokens of busy keys ahead, and decides from its leases without a call.
//!
//! [`RedisStore::connect`] returns the store and a [`MaintenanceGuard`], which runs the store's background work:
//! heartbeats, lease renewals, hand-backs and probes of a server that failed.
//!
//! ```no_run
//! use tidegate::engine::{LimitBuilder, Limiter, PolicyBuilder, Request};
//! use tidegate_redis::{RedisClientOptions, RedisStore, StoreMode, StoreOptions};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let client = RedisClientOptions::new("redis://127.0.0.1:6379");
//! let (store, maintenance) = RedisStore::connect(client, StoreOptions::new(StoreMode::Strict))?;
//! let policy = PolicyBuilder::new().limit(LimitBuilder::per_second("per-user", 10).key(["user"])).build()?;
//! let clock = store.clock().clone();
//! let limiter = Limiter::with_store(policy, store, clock)?;
//! let decision = limiter.check_async(&Request::new().user("alice")).await;
//! println!("allowed: {}", decision.is_allowed());
//! maintenance.shutdown().await;
//! # Ok(())
//! # }
//! ```

mod bursts;
mod calls;
mod client;
mod deciding;
mod failures;
mod fleet;
mod live;
mod maintenance;
mod registry;
mod store;
#[cfg(feature = "testing")]
#[doc(hidden)]
pub mod testing;
#[cfg(test)]
mod tests;
mod trust;

pub use calls::LinkError;
pub use calls::fleet::{KeptFleetSteps, ToldByNode};
pub use calls::live::{
    NewLiveEntry, SharedLiveChange, SharedLiveEntry, SharedLiveHead, SharedLiveOutcome, SharedLivePage,
};
pub use calls::trust::{
    SharedAccount, SharedAccountEdit, SharedTrustChange, SharedTrustOutcome, SharedTrustPage,
};
pub use client::{
    AddressError, MasterWatch, RedisClient, RedisClientError, RedisClientOptions, WakeTopic, WakeUps,
};
pub use failures::{ErrorCounts, Health, StoreError};
pub use maintenance::MaintenanceGuard;
pub use store::{RedisStore, ServerCall, StoreMode, StoreOptions, new_call_times};

// The interface between a store and its server. Only `RedisClient`, the simulator and tests implement `Link`, so it is
// no part of the documented interface.
#[doc(hidden)]
pub use calls::{
    BucketEntry, BurstAnswer, BurstCall, BurstCallEntry, CallAnswer, CallOutcome, CallVerb, FoundState,
    Heartbeat, Link, LogState, PenaltyListAnswer, PenaltyListCall, PenaltyListEntry, PenaltyListOperation,
    ScriptCall, State,
};
#[doc(hidden)]
pub use registry::BucketKey;

/// The examples of the README are tests too.
#[cfg(doctest)]
mod readme {
    #[doc = include_str!("../README.md")]
    struct Examples;
}
