//! A decision as clients read it: headers, status, problem body, JSON.

pub mod headers;
pub mod jitter;
pub(super) mod json;
pub mod problem_body;
pub(super) mod respond;
