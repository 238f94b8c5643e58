//! The pieces an engine for a whole policy is made of.

pub mod bursts;
pub mod counters;
pub mod headers;
pub mod hot_keys;
pub mod jitter;
pub mod problem_body;
pub mod trust_score;
