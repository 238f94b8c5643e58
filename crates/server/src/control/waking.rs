//! Wake-ups by the shared store: a node that has changed something in the database tells the others to look there at once.
//!
//! They are hints. If the store does not answer, nodes find out by the database itself.

use std::sync::Arc;
use std::time::Duration;

use tidegate_redis::{RedisClientOptions, WakeTopic, WakeUps};

use super::ControlPlane;
use crate::node::Node;
use crate::settings::SharedStoreSettings;

/// How often it is looked whether messages arrive, and how long a node that has just connected is not asked.
const LOG_INTERVAL: Duration = Duration::from_secs(1);

/// Connects to the channel, on the runtime of the control plane.
pub(super) fn connect(control: &ControlPlane, shared: &SharedStoreSettings) {
    let _context = control.runtime().enter();
    let options = RedisClientOptions {
        url: shared.url.clone(),
        deadline: shared.deadline.into(),
        ca: shared.ca.clone(),
    };
    match WakeUps::connect(&options, &shared.prefix) {
        Ok(wake_ups) => {
            let _connected_before = control.wake_ups.set(wake_ups);
        }
        // The store itself has connected by the same settings, so this is a file that has changed since.
        Err(error) => tracing::warn!(%error, "other nodes cannot wake this one by the store"),
    }
}

/// Wakes the other nodes, and does not wait for it.
pub(super) fn wake(node: &Arc<Node>, topic: WakeTopic) {
    let Some(control) = node.control().filter(|control| control.wake_ups().is_some()) else { return };
    let node = Arc::clone(node);
    control.runtime().spawn(async move {
        if let Some(wake_ups) = node.control().and_then(ControlPlane::wake_ups) {
            let _found_out_later = wake_ups.wake(topic).await;
        }
    });
}

/// Logs when messages stop to arrive, and when they arrive again; for ever.
pub(super) async fn log_changes(node: Arc<Node>) {
    let mut was_silent = false;
    loop {
        tokio::time::sleep(LOG_INTERVAL).await;
        let Some(wake_ups) = node.control().and_then(ControlPlane::wake_ups) else { return };
        match (wake_ups.problem(), was_silent) {
            (Some(problem), false) => {
                tracing::warn!(problem, "the store wakes no nodes; they find changes by the database itself");
                was_silent = true;
            }
            (None, true) => {
                tracing::info!("the store wakes nodes again");
                was_silent = false;
            }
            _ => {}
        }
    }
}
