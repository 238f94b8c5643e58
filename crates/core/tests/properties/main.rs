//! Properties of every algorithm, checked against naive exact models.
//!
//! The models (see [`model`]) are written from the guarantees of the algorithms, in big rationals and plain
//! histories, and share no code with the crate. Random runs of charges, refunds and clock steps must agree with
//! them in every number of every decision; guarantees over a whole run are checked on the run itself.

mod alternating;
mod bucket;
mod carry;
mod delayed_charges;
mod exact;
mod handing_back;
mod log;
mod model;
mod overriding;
mod quotas;
mod real;
mod refusal;
mod run;
mod steps;
mod trust;
mod windows;

use proptest::prelude::ProptestConfig;

/// The number of random cases.
fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, ..ProptestConfig::default() }
}
