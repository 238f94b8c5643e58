//! Rendering a decision for clients. [`headers`], [`problem_body`] and `json` are the formats, [`jitter`]
//! spreads retries, and `respond` puts them together for a [`Decision`](super::Decision).

pub mod headers;
pub mod jitter;
pub(super) mod json;
pub mod problem_body;
pub(super) mod respond;
