//! The engine on a store that takes its time, has a clock of its own, and fails.

mod agreeing;
mod failing;
mod flaky;
mod joint;
mod sharing;
mod tags;
mod waiting;
