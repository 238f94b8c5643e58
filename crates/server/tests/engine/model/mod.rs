//! The whole engine once more, as naively as it can be said.
//!
//! Written from what the policy format and the decisions promise, and sharing
//! no code with the product: exact fractions, plain histories, the document's
//! JSON looked at anew for each request. It is slow and obvious, and the judge.

mod bucket;
mod decide;
pub(crate) mod exact;
mod gates;
mod limits;
mod matching;
mod meter;
mod request;
pub(crate) mod tenants;
mod terms;
mod windows;

pub(crate) use decide::Model;
