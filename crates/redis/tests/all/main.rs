//! Decisions and leases on real servers, and the link to them. One binary, since linking takes long.

mod nodes;
mod server;
mod strict_conformance;
mod strict_faults;
mod strict_golden;
mod strict_rollout;
#[path = "../support/mod.rs"]
mod support;
