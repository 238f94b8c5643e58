//! The admin listener of the program itself.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use crate::client::get;
use crate::exposition::Page;

/// The program, until it is dropped.
struct Running {
    child: Child,
    admin: SocketAddr,
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended on its own.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

fn start() -> Running {
    let mut child = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(["serve", "--http", "off", "--grpc", "off", "--resp", "off", "--admin", "127.0.0.1:0"])
        .env_remove("TIDEGATE_LOG")
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the binary runs");
    let lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
    let mut words = lines.map(|line| line.expect("it prints text")).filter_map(|line| {
        let address = line.trim().strip_prefix("admin")?.trim().strip_prefix("http://")?.to_owned();
        address.parse().ok()
    });
    let admin = words.next().expect("it says where the admin listener is");
    Running { child, admin }
}

#[tokio::test]
async fn the_program_answers_on_its_admin_listener() {
    let running = start();
    assert_eq!(get(running.admin, "/healthz").await.status, 200);
    let ready = get(running.admin, "/readyz").await;
    assert!([200, 503].contains(&ready.status), "it may just be starting");
    let page = Page::parse(&get(running.admin, "/metrics").await.body);
    assert_eq!(page.value("tidegate_policy_limits", &[]), 1.0, "the quick-start policy has one");
}

#[test]
fn a_level_that_does_not_exist_is_refused() {
    let output = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(["serve", "--http", "off", "--grpc", "off", "--resp", "off", "--admin", "127.0.0.1:0"])
        .env("TIDEGATE_LOG", "loud")
        .output()
        .expect("the binary runs");
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("TIDEGATE_LOG=\"loud\" is no level"), "{said}");
}
