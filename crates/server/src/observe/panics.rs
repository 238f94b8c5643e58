//! Counts and logs panics of the server, whichever thread or task they end.

use std::sync::{Arc, Weak};

use crate::node::Node;

/// Installs a panic hook that logs every panic of this process and counts it in the metrics of this node. It also sees
/// panics that tokio and other libraries catch.
pub fn install_panic_hook(node: &Arc<Node>) {
    let node: Weak<Node> = Arc::downgrade(node);
    std::panic::set_hook(Box::new(move |panic| {
        if let Some(node) = node.upgrade() {
            node.metrics().panicked();
        }
        let message = panic.payload_as_str().unwrap_or("no message");
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        let thread = std::thread::current().name().unwrap_or_default().to_owned();
        tracing::error!(message = "the server panicked; this is a bug", panic = message, place, thread);
    }));
}
