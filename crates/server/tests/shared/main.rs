//! Servers that share their limits on a real Redis, and what they do when it is gone.

mod asking;
mod failing;
#[path = "../serving/home.rs"]
#[allow(dead_code, reason = "other tests use the rest of it")]
mod home;
mod hybrid;
mod redis;
#[path = "../serving/server.rs"]
#[allow(dead_code, reason = "other tests use the rest of it")]
mod server;
mod starting;
mod strict;
