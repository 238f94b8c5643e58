//! One HTTP connection: [`detect`] finds out the protocol, [`drive`] runs the connection until it is idle too long or
//! the server shuts down, [`activity`] counts its requests for that, and [`hyper_io`] is the socket that hyper sees.

pub(super) mod activity;
pub(super) mod detect;
pub(super) mod drive;
pub(super) mod hyper_io;
