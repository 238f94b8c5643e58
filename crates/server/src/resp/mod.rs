//! The listener for Redis clients.
//!
//! ```text
//! bytes ─ decode ─→ Args ─ table ─→ session, housekeeping │ throttle, check ─ reply ─→ bytes
//! ```
//!
//! `connection.rs` reads and writes; everything behind it is a plain function of the bytes.

mod check;
mod client;
mod connection;
mod decode;
mod describe;
mod exchange;
mod info;
mod inline;
mod later;
mod number;
mod reply;
mod session;
mod table;
mod throttle;

pub use decode::{Args, Broken, Decoder, Refusal, Step};
pub use exchange::{Exchange, Progress};

pub(crate) use connection::serve;
