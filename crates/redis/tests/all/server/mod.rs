//! The link to real servers: what is killed, stopped, full, locked, spread or handed over.

mod access;
mod calls;
mod cluster;
mod conformance;
mod failures;
mod healing;
mod process;
mod sentinel;
mod sharing;
