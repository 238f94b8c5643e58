//! Burst penalties are listed and can be lifted.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use serde_json::Value;
use tidegate::engine::bursts::BurstState;
use tidegate::engine::{Decision, Request};
use tidegate_server::admin::AdminClient;
use tidegate_server::node::Node;
use tidegate_server::observe::{Origin, Protocol};
use tidegate_server::settings::Settings;

use super::client::{ask, get};
use super::{listen, listen_as, node};

const ORIGIN: Origin<'static> = Origin { protocol: Protocol::Http, traceparent: None };

/// The second request of a window is an offence.
const POLICY: &str = "
version: 1
limits: []
bursts:
  - { name: by-key, key: [user, \"header:x-api-key\"], window: 20ms, threshold: 1, penalty: 1h }
";

async fn send(node: &Node, user: &str) -> Decision {
    node.check(ORIGIN, &Request::new().user(user).header("x-api-key", "sk_live_0123456789")).await
}

/// Sends requests until a detector says so: windows follow the server's clock.
async fn send_until(node: &Node, user: &str, state: BurstState) -> Decision {
    loop {
        let decision = send(node, user).await;
        if decision.burst().is_some_and(|(told, _)| told == state) {
            return decision;
        }
        tokio::task::yield_now().await;
    }
}

async fn listed(address: SocketAddr, query: &str) -> Value {
    let reply = get(address, &format!("/debug/penalties{query}")).await;
    assert_eq!(reply.status, 200, "{}", reply.body);
    reply.json()
}

#[tokio::test]
async fn penalties_are_listed_without_secrets() {
    let node = Arc::new(node(POLICY, Settings::default()));
    let address = listen(&node).await;
    assert_eq!(listed(address, "").await, serde_json::json!({"items": [], "next": null}));
    let warned = send_until(&node, "warned", BurstState::WarningIssued).await;
    assert!(warned.is_allowed(), "{warned:?}");
    let refused = send_until(&node, "blocked", BurstState::BlockedTemporarily).await;
    assert_eq!(refused.violated_rule(), Some("by-key"));
    let all = listed(address, "").await;
    let items = all["items"].as_array().expect("a list");
    assert_eq!(items.len(), 2, "{all}");
    for (user, kind) in [("warned", "warning"), ("blocked", "block")] {
        let item = items.iter().find(|item| item["kind"] == kind).expect(kind);
        let key = item["key"].as_str().expect("text");
        assert!(key.starts_with(&format!("{user}, sk_l…#")) && !key.contains("live"), "{key}");
        assert_eq!(item["detector"], "by-key");
        assert!(item["until"].as_str().is_some_and(|until| until.ends_with('Z')), "{item}");
    }
    let first = listed(address, "?limit=1").await;
    let cursor = first["next"].as_str().expect("there is another page");
    let second = listed(address, &format!("?limit=1&cursor={cursor}")).await;
    assert_eq!([&first["items"][0], &second["items"][0]], [&items[0], &items[1]]);
    assert_eq!(second["next"], Value::Null);
    assert_eq!(get(address, "/debug/penalties?limit=0").await.status, 400);
}

#[tokio::test]
async fn a_penalty_is_lifted_once() {
    let node = Arc::new(node(POLICY, Settings::default()));
    let address = listen(&node).await;
    let _ = send_until(&node, "ann", BurstState::AlreadyBlocked).await;
    let id = listed(address, "").await["items"][0]["id"].as_str().expect("an id").to_owned();
    let path = format!("/debug/penalties/{id}");
    let looked = get(address, &path).await;
    assert_eq!((looked.status, looked.header("allow")), (405, Some("DELETE")));
    let lifted = ask(address, "DELETE", &path, "").await;
    assert_eq!((lifted.status, &lifted.json()["lifted"]["kind"]), (200, &"block".into()));
    assert_eq!(listed(address, "").await["items"], serde_json::json!([]));
    let next = send(&node, "ann").await;
    assert!(next.is_allowed(), "{next:?}");
    for id in [id.as_str(), "0", "zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz", ""] {
        let unknown = ask(address, "DELETE", &format!("/debug/penalties/{id}"), "").await;
        assert_eq!(unknown.status, 404, "{id}");
    }
}

#[tokio::test]
async fn penalties_are_not_for_everybody() {
    let settings = Settings { http_token: Some("open sesame".to_owned()), ..Settings::default() };
    let node = Arc::new(node(POLICY, settings));
    let far = AdminClient {
        address: IpAddr::V4(Ipv4Addr::new(203, 0, 113, 7)),
        on_loopback: false,
        is_encrypted: true,
    };
    let address = listen_as(&node, far).await;
    let token = "Authorization: Bearer open sesame\r\n";
    assert_eq!(get(address, "/debug/penalties").await.status, 401);
    assert_eq!(ask(address, "GET", "/debug/penalties", token).await.status, 200);
    let path = "/debug/penalties/00000000000000000000000000000000";
    assert_eq!(ask(address, "DELETE", path, "").await.status, 401);
    assert_eq!(ask(address, "DELETE", path, token).await.status, 404);
}
