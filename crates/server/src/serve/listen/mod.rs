//! From socket to worker: [`bind`] opens all listeners, [`accept`] accepts connections within the bounds of
//! [`connections`] and [`open_files`], and [`workers`] runs each on the thread with the fewest, after the handshake if
//! the listener uses [`tls`].

pub(super) mod accept;
pub(super) mod bind;
pub(super) mod connections;
pub(super) mod open_files;
pub(super) mod tls;
pub(super) mod workers;
