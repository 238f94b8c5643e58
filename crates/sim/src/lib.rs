//! A deterministic world for Tidegate: nodes, clocks, a network and a server that all fail, from one seed.
//!
//! The nodes run the real code: [`tidegate_redis::RedisStore`] with its leases, its memory of denials and its
//! circuit breaker, over a link to a [`Model`] of the server. Oracles watch what they admit.

mod clients;
mod clock;
mod faults;
mod judge;
mod ledger;
mod model;
mod network;
mod node;
pub mod oracles;
pub mod report;
mod scenario;
mod stage;
mod trace;
mod world;

pub use clock::{Hands, NodeClock};
pub use faults::{Fault, Trouble};
pub use judge::{Outcome, play, run};
pub use ledger::{Account, Caller, Ledger};
pub use model::{Model, ModelLink, OutOfMemory};
pub use network::{Network, SimLink, Weather};
pub use node::{NodeLimiter, NodeStore, Said};
pub use scenario::{FAILOVERS, LimitSpec, Load, OnStoreError, Scenario, Shape};
pub use stage::{Alone, Asked, Notes, Stage};
pub use tidegate::testing::Random;
pub use trace::Trace;
pub use world::{START, TaskId, Until, World};
