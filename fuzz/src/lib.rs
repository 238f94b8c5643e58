//! A mutation fuzzer that needs only stable Rust.
//!
//! It mutates the examples and keeps inputs for which a target reports a new kind of outcome, and so
//! gets further than random inputs alone. It does not measure coverage; instead it has strict oracles: a
//! target must not only not panic, its results must be right.

mod bodies;
pub mod corpus;
mod cost;
mod dictionary;
mod forwarded;
mod http2;
mod identity;
mod mutate;
mod policy;
mod resp;
mod run;
mod target;
mod timer;
mod trace;
mod wire_words;

pub use run::{FuzzTally, RunError, fuzz, try_some};
pub use target::{FuzzFailure, FuzzTarget};
pub use tidegate::testing::Random;
