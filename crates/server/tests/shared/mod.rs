//! Servers that share their limits on a real Redis, and what they do when it is gone.

mod asking;
mod failing;
mod hybrid;
mod starting;
mod strict;
