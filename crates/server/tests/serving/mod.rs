//! The server as people run it: the real binary, on ports of its own choosing.

mod answers;
mod asking;
mod reloading;
mod starting;
mod stopping;
mod tls;
