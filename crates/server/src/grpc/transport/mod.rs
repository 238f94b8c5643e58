//! gRPC over HTTP/2: connections, calls, frames, statuses.

pub(super) mod body;
pub(super) mod call;
pub(super) mod connection;
pub(super) mod error;
pub(super) mod frame;
pub(super) mod guard;
pub(super) mod keeper;
pub(super) mod reply;
