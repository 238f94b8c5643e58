//! Panics of the server. The test replaces the panic hook of the process, and restores it.

use std::sync::Arc;

use tidegate_server::observe::{install_panic_hook, metrics_page};
use tidegate_server::settings::Settings;

use super::{POLICY, node};

#[tokio::test]
async fn a_panic_is_counted_though_a_task_keeps_it_to_itself() {
    let node = Arc::new(node(POLICY, Settings::default()));
    assert!(metrics_page(&node).contains("\ntidegate_panics_total 0\n"));
    let before = std::panic::take_hook();
    install_panic_hook(&node);
    let ended = tokio::spawn(async { panic!("on purpose") }).await;
    std::panic::set_hook(before);
    assert!(ended.is_err_and(|error| error.is_panic()));
    assert!(metrics_page(&node).contains("\ntidegate_panics_total 1\n"));
}
