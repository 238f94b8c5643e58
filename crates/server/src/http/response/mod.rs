//! Responses: decisions and problems as HTTP.

pub(super) mod answer;
pub(super) mod body;
pub(super) mod problem;
