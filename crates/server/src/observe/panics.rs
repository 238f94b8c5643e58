//! Faults of the server: whichever thread or task one ends, it is counted and logged.

use std::sync::{Arc, Weak};

use crate::node::Node;

/// From now on panics of this process are told by the log and counted for this node, in place of what was
/// done about them before. Libraries that catch those of their tasks hide none.
pub fn tell_panics(node: &Arc<Node>) {
    let node: Weak<Node> = Arc::downgrade(node);
    std::panic::set_hook(Box::new(move |panic| {
        if let Some(node) = node.upgrade() {
            node.metrics().panicked();
        }
        let message = panic.payload_as_str().unwrap_or("of another kind");
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        let thread = std::thread::current().name().unwrap_or_default().to_owned();
        tracing::error!(message = "a fault in the server", panic = message, place, thread);
    }));
}
