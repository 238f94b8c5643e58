//! The client against real servers that are killed, suspended, full, locked, clustered or failed over.

mod access;
mod calls;
mod cluster;
mod conformance;
mod failures;
mod healing;
mod maintenance;
mod process;
mod sentinel;
mod sharing;
mod wake_ups;
