//! Servers that share their limits on a real Redis, also while it is down.

mod asking;
mod bursts;
mod failing;
mod hybrid;
mod starting;
mod strict;
