//! The limiter as programs use it. What needs a process, or the machine, to itself has a binary of its own.

mod any_store;
mod conformance;
mod policy;
mod queueing;
mod waiting;
