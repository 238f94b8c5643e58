//! Tests of the engine as `tidegate simulate` runs it, against a naive model and hand-written cases.

mod candidates;
mod cases;
mod crowd;
mod engine;
mod events;
mod generate;
mod keys;
mod live;
mod model;
mod overridden;
mod properties;
mod trusted_run;
