//! The listener for Redis clients, which speaks RESP2 and RESP3.
//!
//! ```text
//! bytes ─ decode ─→ CommandArgs ─ command table ─→ Session, throttle, check, … ─ ReplyWriter ─→ bytes
//! ```
//!
//! `connection` reads from and writes to the socket. `exchange` answers all commands of one read, without IO.
//! `session` is the state of a client, `transaction` its commands between `MULTI` and `EXEC`, `commands` the table of
//! commands, `protocol` the encoding.

mod commands;
mod connection;
mod exchange;
mod pending;
mod protocol;
mod session;
mod transaction;

pub use exchange::{Exchange, ExchangeProgress};
pub use protocol::decode::{CommandArgs, CommandRefusal, DecodeStep, Decoder, FramingError};

pub(crate) use connection::serve;
