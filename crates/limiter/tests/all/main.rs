//! The limiter as programs use it. Tests that need a process or the machine for themselves are separate
//! binaries.

mod any_store;
mod bursts;
mod conformance;
mod forgotten;
mod missing_keys;
mod policy;
mod queueing;
mod waiting;
