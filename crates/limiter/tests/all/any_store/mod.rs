//! The engine on a store that is slow, has a clock of its own, and fails.

mod agreeing;
mod beside;
mod failing;
mod flaky;
mod joint;
mod overriding;
mod sharing;
mod tags;
mod waiting;
