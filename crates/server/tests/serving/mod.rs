//! The real binary on free ports: start, reload, stop.

mod answers;
mod asking;
mod demo;
mod events;
mod reloading;
mod starting;
mod stopping;
mod tls;
