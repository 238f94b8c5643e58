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

pub use clock::{ClockDriver, NodeClock};
pub use faults::{Fault, FaultKind};
pub use judge::{SeedOutcome, play, run};
pub use ledger::{BucketAccount, CallOrigin, Ledger};
pub use model::{Model, ModelLink, OutOfMemory};
pub use network::{Network, NetworkConditions, SimLink};
pub use node::{NodeAnswer, NodeLimiter, SimNodeStore};
pub use scenario::{ArrivalShape, ClientLoad, FAILOVERS, LimitSpec, Scenario, ScenarioFallback};
pub use stage::{RunNotes, ScenarioRun, SimRequest, SoloEvent};
pub use tidegate::testing::Random;
pub use trace::Trace;
pub use world::{START, TaskId, UntilInstant, World};
