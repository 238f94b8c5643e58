//! Limits that many nodes share, on Redis or Valkey.
//!
//! [`RedisStore`] is a [`Store`](tidegate::Store): the engine asks it as it asks the memory of one process. In
//! [`StoreMode::Strict`] every decision is one script call, however many limits it has. In [`StoreMode::Hybrid`] a node
//! leases tokens of busy keys ahead and decides from them without asking.
//!
//! A [`Link`] carries the calls: [`RedisClient`] to a real server, and whatever a test wants in its place.

mod breaker;
mod client;
mod denials;
mod errors;
mod give_back;
mod hands;
mod keys;
mod leases;
mod link;
mod options;
mod parts;
mod registry;
#[cfg_attr(not(feature = "testing"), allow(unreachable_pub, reason = "tests reach it"))]
mod scripts;
mod store;
mod strict;
mod table;
mod take;
mod tend;
#[cfg(feature = "testing")]
#[doc(hidden)]
pub mod testing;
#[cfg(test)]
mod tests;
#[cfg_attr(not(feature = "testing"), allow(unreachable_pub, reason = "tests reach it"))]
mod wire;

pub use client::{AddressError, MasterWatch, RedisClient, RedisClientError, RedisClientOptions};
pub use errors::{ErrorCounts, Health, StoreError};
pub use keys::BucketKey;
pub use link::{
    BucketEntry, CallAnswer, CallOutcome, CallVerb, FoundState, Link, LinkError, LogState, ScriptCall, State,
};
pub use options::{StoreMode, StoreOptions};
pub use store::{RedisStore, ServerCall};
