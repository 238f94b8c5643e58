//! A deterministic simulation of Tidegate's shared store: nodes, clocks, a network and a Redis server that all fail,
//! from one seed.
//!
//! The nodes run the real code: [`tidegate_redis::RedisStore`] with its leases, remembered denials and circuit
//! breakers, over a link to a [`Model`] of the server. After a run, [`invariants`] checks what must hold, whatever
//! failed.

pub mod invariants;
mod model;
mod network;
pub mod report;
mod run;
mod scenario;
mod world;

pub use invariants::burst_record::{BurstEvents, BurstRecord, HeardBurst, ServerBurstEvent};
pub use invariants::served::{ServedCall, ServedEntry, ServerEvent, TaskPurpose};
pub use invariants::token_record::{BucketRecord, CallOrigin, TokenRecord};
pub use model::{Model, ModelLink, OutOfMemory};
pub use network::{Network, NetworkConditions, SimLink};
pub use run::node::{NodeAnswer, NodeLimiter, NodeTrial, SimNodeStore};
pub use run::{RunNotes, ScenarioRun, SeedOutcome, SimRequest, SoloEvent, run_scenario, run_seed};
pub use scenario::actions::SimKeyAction;
pub use scenario::bursts::{BurstSpec, PolicyEdit};
pub use scenario::faults::{Fault, FaultKind};
pub use scenario::overrides::OverrideChange;
pub use scenario::sabotage::Sabotage;
pub use scenario::{
    ArrivalShape, ClientLoad, FIRST_ACTION_SEED, FIRST_BURST_SEED, FIRST_CANDIDATE_SEED, FIRST_FAILOVER_SEED,
    FIRST_OVERRIDE_SEED, LimitSpec, Scenario, ScenarioFallback,
};
pub use tidegate::testing::Random;
pub use world::clock::{ClockDriver, NodeClock};
pub use world::event_log::EventLog;
pub use world::{START, TaskId, UntilInstant, World};
