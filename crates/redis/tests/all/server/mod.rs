//! The client against real servers that are killed, suspended, full, locked, clustered or failed over.

pub(crate) mod access;
mod beside;
pub(crate) mod calls;
mod cluster;
mod conformance;
mod failures;
mod healing;
mod maintenance;
mod process;
mod sentinel;
mod sharing;
pub(crate) mod together;
mod together_apart;
mod wake_ups;
