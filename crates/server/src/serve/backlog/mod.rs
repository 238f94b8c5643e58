//! Bounds the responses that clients have not read.
//!
//! [`unsent`] keeps the bytes that the socket did not accept, [`response_backlog`] counts the unread responses of a
//! connection against its limit and the budget of all connections, and [`stall_guard`] ends a connection whose client
//! reads nothing.

pub(super) mod response_backlog;
pub(super) mod stall_guard;
pub(super) mod unsent;
