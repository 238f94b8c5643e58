//! Health, readiness, hot keys, and refused requests.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use tidegate::engine::Request;
use tidegate::engine::trust::score::SuccessRate;
use tidegate::engine::trust::{AccountFacts, TrustOptions};
use tidegate::{Clock, Nanos};
use tidegate_server::admin::{AdminClient, answer_connection};
use tidegate_server::node::lifecycle::{Phase, ReloadedPart};
use tidegate_server::observe::{Origin, Protocol, metrics_page};
use tidegate_server::settings::{ReadinessRule, Settings, TrustSettings};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::client::{ask, get, raw};
use super::{POLICY, listen, listen_as, node};

const ORIGIN: Origin<'static> = Origin { protocol: Protocol::Http, traceparent: None };
const LOCAL: AdminClient =
    AdminClient { address: IpAddr::V4(Ipv4Addr::LOCALHOST), on_loopback: true, is_encrypted: false };

#[tokio::test]
async fn it_says_that_it_is_alive_and_what_there_is() {
    let node = Arc::new(node(POLICY, Settings::default()));
    let address = listen(&node).await;
    let alive = get(address, "/healthz").await;
    assert_eq!((alive.status, alive.body.as_str()), (200, "alive\n"));
    assert_eq!(alive.header("cache-control"), Some("no-store"));
    let index = get(address, "/").await;
    assert_eq!(index.status, 200);
    let missing = get(address, "/nothing").await;
    assert_eq!(missing.status, 404);
    assert_eq!(missing.header("content-type"), Some("application/problem+json"));
    for path in ["/healthz", "/readyz", "/metrics", "/debug/hot-keys", "/debug/penalties"] {
        assert!(index.body.contains(path), "the index names {path}");
        assert!(missing.json()["endpoints"].as_array().expect("a list").contains(&path.into()), "{path}");
        assert_eq!(get(address, path).await.status, 200, "{path}");
    }
}

#[tokio::test]
async fn only_looking_is_allowed() {
    let node = Arc::new(node(POLICY, Settings::default()));
    let address = listen(&node).await;
    for method in ["POST", "PUT", "DELETE", "OPTIONS"] {
        let refused = ask(address, method, "/metrics", "Content-Length: 0\r\n").await;
        assert_eq!((refused.status, refused.header("allow")), (405, Some("GET, HEAD")), "{method}");
        assert_eq!(refused.header("access-control-allow-origin"), None);
    }
    let head = ask(address, "HEAD", "/metrics", "").await;
    assert_eq!((head.status, head.body.as_str()), (200, ""));
    assert!(head.header("content-length").is_some_and(|length| length != "0"));
}

#[tokio::test]
async fn readiness_follows_the_life_of_the_server() {
    let node = Arc::new(node(POLICY, Settings::default()));
    let address = listen(&node).await;
    node.lifecycle().enter(Phase::Starting);
    let starting = get(address, "/readyz").await;
    assert_eq!((starting.status, &starting.json()["status"]), (503, &"unready".into()));
    assert_eq!(starting.json()["unready"][0]["reason"], "starting");

    node.lifecycle().enter(Phase::Serving);
    let serving = get(address, "/readyz").await;
    assert_eq!((serving.status, &serving.json()["status"]), (200, &"ready".into()));
    assert_eq!(
        (&serving.json()["degraded"], &serving.json()["policy_version"]),
        (&serde_json::json!([]), &1.into())
    );

    node.lifecycle()
        .set_problem(ReloadedPart::Policy, Some("policy.yaml:3: unknown field \"rat\"".to_owned()));
    node.limiter().set_kill_switch(true);
    let degraded = get(address, "/readyz").await;
    assert_eq!((degraded.status, &degraded.json()["status"]), (200, &"degraded".into()));
    let reasons = &degraded.json()["degraded"];
    assert_eq!((&reasons[0]["reason"], &reasons[1]["reason"]), (&"policy".into(), &"kill_switch".into()));
    assert!(
        reasons[0]["detail"].as_str().is_some_and(|detail| detail.contains("policy.yaml:3")),
        "{reasons}"
    );

    node.lifecycle().set_problem(ReloadedPart::Policy, None);
    node.lifecycle().enter(Phase::Draining);
    let draining = get(address, "/readyz").await;
    assert_eq!((draining.status, &draining.json()["unready"][0]["reason"]), (503, &"draining".into()));
    assert_eq!(get(address, "/healthz").await.status, 200, "it is still alive");
}

#[tokio::test]
async fn strict_readiness_minds_files_and_not_the_kill_switch() {
    let strict = Settings { readiness: ReadinessRule::Strict, ..Settings::default() };
    let node = Arc::new(node(POLICY, strict));
    let address = listen(&node).await;
    node.limiter().set_kill_switch(true);
    let killed = get(address, "/readyz").await;
    assert_eq!(
        (killed.status, &killed.json()["status"]),
        (200, &"degraded".into()),
        "it is on in an emergency"
    );
    node.lifecycle().set_problem(ReloadedPart::Policy, Some("policy.yaml:3: no".to_owned()));
    let invalid = get(address, "/readyz").await;
    assert_eq!((invalid.status, &invalid.json()["status"]), (503, &"unready".into()));
    assert_eq!(invalid.json()["degraded"][0]["reason"], "policy");
}

#[tokio::test]
async fn hot_keys_are_told_printable() {
    let node = Arc::new(node(POLICY, Settings::default()));
    let address = listen(&node).await;
    for (user, times) in [("busy\n\u{1b}[2J\"", 5), ("calm", 1)] {
        for _ in 0..times {
            let _ = node.check(ORIGIN, &Request::new().user(user)).await;
        }
    }
    let reply = get(address, "/debug/hot-keys?limit=1").await;
    assert_eq!(reply.status, 200);
    assert!(!reply.body.trim_end().contains(char::is_control), "{:?}", reply.body);
    let told = reply.json();
    assert_eq!(told["consumers"].as_array().expect("a list").len(), 1);
    let denied = &told["denied"][0];
    assert_eq!(
        (&denied["limit"], &denied["count"], &denied["error"]),
        (&"per-user".into(), &3.into(), &0.into())
    );
    assert_eq!(denied["key"], r#"busy\n\u{1b}[2J""#);
    assert_eq!(get(address, "/debug/hot-keys?limit=0").await.status, 400);
    assert_eq!(get(address, "/debug/hot-keys?limit=1000").await.status, 400);
}

#[tokio::test]
async fn hot_keys_are_not_for_everybody() {
    let settings = Settings { http_token: Some("open sesame".to_owned()), ..Settings::default() };
    let node = Arc::new(node(POLICY, settings));
    let far = AdminClient {
        address: IpAddr::V4(Ipv4Addr::new(203, 0, 113, 7)),
        on_loopback: false,
        is_encrypted: true,
    };
    let address = listen_as(&node, far).await;
    let hot_keys = async |headers: &str| ask(address, "GET", "/debug/hot-keys", headers).await;
    let nameless = hot_keys("").await;
    assert_eq!((nameless.status, nameless.header("www-authenticate")), (401, Some("Bearer")));
    assert_eq!(hot_keys("Authorization: Bearer open says me\r\n").await.status, 401);
    assert_eq!(hot_keys("Authorization: Basic b3BlbiBzZXNhbWU=\r\n").await.status, 401);
    assert_eq!(hot_keys("Authorization: Bearer open sesame\r\n").await.status, 200);
    assert_eq!(get(address, "/metrics").await.status, 200, "metrics contain no keys");
    let near = listen(&node).await;
    let forwarded = ask(near, "GET", "/debug/hot-keys", "X-Forwarded-For: 203.0.113.7\r\n").await;
    assert_eq!(forwarded.status, 401, "a proxy on this machine forwards for other machines");
}

#[tokio::test]
async fn without_a_token_no_token_opens() {
    let node = Arc::new(node(POLICY, Settings::default()));
    let far = AdminClient {
        address: IpAddr::V4(Ipv4Addr::new(203, 0, 113, 7)),
        on_loopback: false,
        is_encrypted: true,
    };
    let address = listen_as(&node, far).await;
    for token in ["", "x"] {
        let header = format!("Authorization: Bearer {token}\r\n");
        let refused = ask(address, "GET", "/debug/hot-keys", &header).await;
        assert_eq!(refused.status, 401, "{token:?}");
    }
}

#[tokio::test]
async fn names_that_point_here_by_a_trick_are_refused() {
    let node = Arc::new(node(POLICY, Settings::default()));
    let address = listen(&node).await;
    for host in ["localhost", "localhost:9090", "127.0.0.1:1", "[::1]:9090"] {
        assert_eq!(ask(address, "GET", "/metrics", &format!("Host: {host}\r\n")).await.status, 200, "{host}");
    }
    for host in ["evil.example", "evil.example:9090", "localhost.evil.example"] {
        assert_eq!(ask(address, "GET", "/metrics", &format!("Host: {host}\r\n")).await.status, 403, "{host}");
    }
    let absolute = ask(address, "GET", "http://evil.example/metrics", "").await;
    assert_eq!(absolute.status, 403);
}

#[tokio::test]
async fn who_asks_by_a_name_asks_by_one_of_the_settings() {
    let admin_hosts = vec!["tidegate.monitoring.svc".to_owned()];
    let node = Arc::new(node(POLICY, Settings { admin_hosts, ..Settings::default() }));
    let far = AdminClient {
        address: IpAddr::V4(Ipv4Addr::new(203, 0, 113, 7)),
        on_loopback: false,
        is_encrypted: false,
    };
    for caller in [LOCAL, AdminClient { on_loopback: false, ..LOCAL }, far] {
        let address = listen_as(&node, caller).await;
        for host in ["tidegate.monitoring.svc", "Tidegate.Monitoring.svc.:9090", "10.0.0.5:9090", "localhost"]
        {
            let headers = format!("Host: {host}\r\n");
            assert_eq!(ask(address, "GET", "/metrics", &headers).await.status, 200, "{caller:?} {host}");
        }
        for host in ["tidegate.example", "monitoring.svc", "tidegate.monitoring.svc.evil.example:9090"] {
            for path in ["/metrics", "/healthz", "/readyz", "/debug/hot-keys", "/"] {
                let refused = ask(address, "GET", path, &format!("Host: {host}\r\n")).await;
                assert_eq!(refused.status, 403, "{caller:?} {host} {path}");
                assert!(refused.body.contains("admin.hosts"), "{}", refused.body);
            }
        }
    }
}

#[tokio::test]
async fn too_many_and_too_long_headers_are_refused() {
    let node = Arc::new(node(POLICY, Settings::default()));
    let address = listen(&node).await;
    let many: String = (0..65).map(|number| format!("X-{number}: y\r\n")).collect();
    let long = format!("X-Long: {}\r\n", "y".repeat(64 * 1_024));
    for headers in [many, long] {
        let reply = raw(address, &format!("GET /healthz HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n")).await;
        assert!(reply.is_empty() || reply.starts_with("HTTP/1.1 431"), "{reply}");
    }
    assert_eq!(raw(address, "nonsense\r\n\r\n").await.get(..12), Some("HTTP/1.1 400"));
    let page = get(address, "/metrics").await.body;
    assert!(page.contains("tidegate_protocol_errors_total{listener=\"admin\"} 3"), "all three are counted");
}

#[tokio::test(start_paused = true)]
async fn slow_clients_are_not_waited_for() {
    let node = Arc::new(node(POLICY, Settings::default()));
    let (mut client, server) = tokio::io::duplex(1_024);
    let answering = tokio::spawn(answer_connection(Arc::clone(&node), server, LOCAL));
    client.write_all(b"GET /healthz HTTP/1.1\r\nHost: loc").await.expect("it reads");
    let waited = tokio::time::timeout(Duration::from_secs(6), answering).await;
    waited.expect("the connection ends on its own").expect("without a panic");
    assert!(metrics_page(&node).contains("tidegate_protocol_errors_total{listener=\"admin\"} 1"));
}

#[tokio::test(start_paused = true)]
async fn pausing_between_requests_is_no_error() {
    let node = Arc::new(node(POLICY, Settings::default()));
    let (mut client, server) = tokio::io::duplex(1_024);
    let answering = tokio::spawn(answer_connection(Arc::clone(&node), server, LOCAL));
    client.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").await.expect("it reads");
    answering.await.expect("the connection ends on its own");
    assert!(metrics_page(&node).contains("tidegate_protocol_errors_total{listener=\"admin\"} 0"));
}

#[tokio::test(start_paused = true)]
async fn who_does_not_read_is_not_waited_for_for_ever() {
    let node = Arc::new(node(POLICY, Settings::default()));
    let (mut client, server) = tokio::io::duplex(256);
    let answering = tokio::spawn(answer_connection(Arc::clone(&node), server, LOCAL));
    client.write_all(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n").await.expect("it reads");
    let waited = tokio::time::timeout(Duration::from_secs(310), answering).await;
    waited.expect("the connection ends on its own").expect("without a panic");
}

#[tokio::test]
async fn idle_connections_end_when_the_server_does() {
    let node = Arc::new(node(POLICY, Settings::default()));
    let (mut client, server) = tokio::io::duplex(1_024);
    let answering = tokio::spawn(answer_connection(Arc::clone(&node), server, LOCAL));
    client.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").await.expect("it reads");
    let mut answer = [0; 12];
    client.read_exact(&mut answer).await.expect("it answers");
    assert_eq!(&answer, b"HTTP/1.1 200");
    node.lifecycle().enter(Phase::Draining);
    node.lifecycle().close();
    // Much less than the idle timeout.
    let ended = tokio::time::timeout(Duration::from_secs(20), answering).await;
    ended.expect("it ends at once").expect("without a panic");
}

#[tokio::test]
async fn a_trust_score_is_shown_with_its_terms() {
    let plain = Arc::new(node(POLICY, Settings::default()));
    assert_eq!(get(listen(&plain).await, "/debug/trust?user=42").await.status, 404, "it is not computed");
    let trust = Some(TrustSettings { file: None, options: TrustOptions::default() });
    let node = Arc::new(node(POLICY, Settings { trust, ..Settings::default() }));
    let now = node.limiter().clock().wall();
    let created = Some(now.saturating_sub(Nanos::from_secs(73 * 86_400)));
    let facts = AccountFacts { created, email_verified: Some(true), success_rate: SuccessRate::parse("0.9") };
    let book = node.limiter().trust_book().expect("it is computed");
    book.set_facts("a b", facts, now);
    book.record_violation("a b", now);
    let address = listen(&node).await;
    let shown = get(address, "/debug/trust?user=a%20b").await;
    assert_eq!(shown.status, 200);
    let shown = shown.json();
    assert_eq!(
        (&shown["user"], &shown["known"], &shown["applied"]),
        (&"a b".into(), &true.into(), &true.into())
    );
    assert_eq!(shown["trust"], 0.8);
    let terms = serde_json::json!(
        {"account_age": 0.2, "email_verified": 0.2, "success_rate": 0.45, "violations": -0.05}
    );
    assert_eq!(shown["terms"], terms);
    let inputs = serde_json::json!(
        {"account_age_days": 73, "email_verified": true, "success_rate": 0.9, "violations_30d": 1}
    );
    assert_eq!(shown["inputs"], inputs);
    let stranger = get(address, "/debug/trust?user=c").await.json();
    assert_eq!((&stranger["known"], &stranger["trust"]), (&false.into(), &0.0.into()));
    assert_eq!(get(address, "/debug/trust").await.status, 400);
    let caller = AdminClient { address: [203, 0, 113, 9].into(), on_loopback: false, is_encrypted: false };
    let refused = get(listen_as(&node, caller).await, "/debug/trust?user=42").await;
    assert!([401, 403].contains(&refused.status), "it tells about users: {}", refused.status);
}
