//! The engine as `tidegate simulate` runs it, judged by a naive model and by
//! hand-written cases.

mod cases;
mod engine;
mod generate;
mod model;
mod properties;
