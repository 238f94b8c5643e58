//! gRPC over HTTP/2. A [`connection`] accepts calls from its [`wire`], each [`call`] reads its message from its
//! [`body`] in a [`frame`], dispatches to a service, and sends a [`reply`] or an [`error`]. [`keepalive`] ends
//! connections, and [`guard`] checks which peers are trusted.

pub(super) mod body;
pub(super) mod call;
pub(super) mod connection;
pub(super) mod error;
pub(super) mod frame;
pub(super) mod guard;
pub(super) mod keepalive;
pub(super) mod reply;
pub(super) mod wire;
