//! Decisions, leases and the client on real servers. One test binary, since linking takes long.

mod bursts;
mod fleet;
mod keys;
mod live;
mod nodes;
mod server;
mod strict_conformance;
mod strict_faults;
mod strict_golden;
mod strict_rollout;
#[path = "../support/mod.rs"]
mod support;
mod trust;
