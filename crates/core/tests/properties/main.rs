//! Properties of every algorithm, judged by naive exact models.
//!
//! The models (see [`model`]) are written from what the algorithms promise, in
//! big rationals and plain histories, and share no code with the crate. Random
//! runs of charges, refunds and clock steps must agree with them in every
//! number of every decision; what is promised over a whole run is checked on
//! the run itself.

mod alternating;
mod bucket;
mod carry;
mod exact;
mod handing_back;
mod log;
mod model;
mod quotas;
mod real;
mod refusal;
mod reservations;
mod run;
mod steps;
mod trust;
mod windows;

use proptest::prelude::ProptestConfig;

/// So many random cases.
fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, ..ProptestConfig::default() }
}
