//! The admin listener of the real binary.

use super::client::get;
use super::exposition::Page;
use crate::support::server::{Server, listening_only, run};

#[tokio::test]
async fn the_program_answers_on_its_admin_listener() {
    let running = Server::start_with(listening_only("admin", "127.0.0.1:0"));
    let admin = running.socket("admin");
    assert_eq!(get(admin, "/healthz").await.status, 200);
    let ready = get(admin, "/readyz").await;
    assert!([200, 503].contains(&ready.status), "it may just be starting");
    let page = Page::parse(&get(admin, "/metrics").await.body);
    assert_eq!(page.value("tidegate_policy_limits", &[]), 2.0, "the quick-start policy has two");
}

#[test]
fn a_level_that_does_not_exist_is_refused() {
    let mut command = listening_only("admin", "127.0.0.1:0");
    command.env("TIDEGATE_LOG", "loud");
    let ran = run(command);
    assert_eq!(ran.code, Some(2));
    assert!(ran.err.contains("TIDEGATE_LOG=\"loud\" is not a log level"), "{}", ran.err);
}
