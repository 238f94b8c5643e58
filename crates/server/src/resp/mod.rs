//! The listener for Redis clients.
//!
//! ```text
//! bytes ─ decode ─→ CommandArgs ─ table ─→ session, housekeeping │ throttle, check ─ reply ─→ bytes
//! ```
//!
//! `connection.rs` reads and writes; everything behind it is a plain function of the bytes.

mod commands;
mod connection;
mod exchange;
mod later;
mod protocol;
mod session;

pub use exchange::{Exchange, ExchangeProgress};
pub use protocol::decode::{CommandArgs, CommandRefusal, DecodeStep, Decoder, FramingError};

pub(crate) use connection::serve;
