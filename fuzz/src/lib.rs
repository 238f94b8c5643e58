//! A fuzzer that needs nothing but stable Rust.
//!
//! It mutates the examples and keeps what makes a target answer in a new way, so that it gets
//! further than chance alone. It has no coverage to go by; what it has are strict oracles: a target
//! that does not panic must still be right.

mod bodies;
pub mod corpus;
mod cost;
mod dictionary;
mod forwarded;
mod mutate;
mod policy;
mod resp;
mod run;
mod target;
mod trace;
mod watch;
mod wire_words;

pub use run::{FuzzTally, RunError, fuzz, try_some};
pub use target::{FuzzFailure, FuzzTarget};
pub use tidegate::testing::Random;
