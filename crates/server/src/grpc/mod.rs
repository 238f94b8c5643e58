//! The gRPC listener: Envoy's rate limit service (RLS), its external authorization, health and reflection.
//!
//! `http2` is the protocol below, written by hand because the calls are short, and `transport` is gRPC on top of it:
//! it accepts all calls that have arrived, answers those whose message is complete in the same poll, and sends their
//! responses together. `rls`, `authz`, `health` and `reflection` decode and answer the calls; `render` writes
//! decisions for Envoy.

mod authz;
mod health;
mod http2;
#[expect(unreachable_pub, clippy::enum_variant_names, reason = "it is generated")]
mod proto;
mod reflection;
mod render;
mod rls;
mod transport;

pub use http2::Http2Trial;

use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};

use crate::node::Node;
use crate::serve::Peer;

/// Serves one connection until it ends.
pub(crate) async fn serve<I>(node: Arc<Node>, io: I, peer: Peer)
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    transport::connection::serve(node, io, peer).await;
}

#[cfg(test)]
mod tests;
