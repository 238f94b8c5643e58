//! A naive model of the whole engine, against which the real one is tested.
//!
//! It is written from the specification of policies and decisions, and shares no code with the engine: exact fractions,
//! plain histories, and the JSON of the policy is interpreted anew for each request. It is slow and obvious.

mod bucket;
mod decide;
pub(crate) mod exact;
mod forgetting;
mod gates;
mod limits;
mod matching;
mod meter;
pub(crate) mod overrides;
mod rendered;
mod request;
pub(crate) mod tenants;
mod terms;
mod trust;
mod upstreams;
mod windows;

pub(crate) use decide::Model;
