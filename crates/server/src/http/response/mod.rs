//! HTTP responses: [`decision`] renders decisions, [`problem`] errors, [`body`] is the body type of both.

pub(super) mod body;
pub(super) mod decision;
pub(super) mod problem;
