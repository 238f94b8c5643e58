//! The gRPC listener: Envoy's rate limit service, its external authorization, health and reflection.
//!
//! It speaks gRPC on HTTP/2 itself, since its calls are short: a call whose message is already there is
//! answered in the same turn, and the answers of all calls that came together leave together.

mod authz;
mod health;
#[expect(unreachable_pub, clippy::enum_variant_names, reason = "it is generated")]
mod proto;
mod reflection;
mod rls;
mod told;
mod transport;

use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};

use crate::node::Node;
use crate::serve::Peer;

/// Answers one connection until it ends.
pub(crate) async fn serve<I>(node: Arc<Node>, io: I, peer: Peer)
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    transport::connection::serve(node, io, peer).await;
}

#[cfg(test)]
mod tests;
