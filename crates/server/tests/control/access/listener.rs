//! What the admin listener serves where other machines reach it.

use std::net::{Ipv4Addr, SocketAddr};

use super::client::{ApiReply, ask};
use crate::support::server::{Server, listening_only};

struct Open {
    server: Server,
    token: String,
}

/// A server whose admin listener is on all addresses.
fn open(more: &[&str]) -> Open {
    let mut command = listening_only("admin", "0.0.0.0:0");
    command.args(more);
    let server = Server::start_with(command);
    let token = server.printed("admin token").split_whitespace().last().expect("a token").to_owned();
    Open { server, token }
}

impl Open {
    fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> ApiReply {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.server.socket("admin").port()));
        ask(address, method, path, headers, "")
    }
}

#[test]
fn without_tls_it_serves_health_and_metrics_only() {
    let open = open(&[]);
    let bearer = format!("Bearer {}", open.token);
    for path in ["/healthz", "/readyz", "/metrics"] {
        assert_eq!(open.ask("GET", path, &[]).status, 200, "{path}");
    }
    for (method, path) in
        [("GET", "/api/v1/whoami"), ("GET", "/api/v1/openapi.json"), ("POST", "/console/login")]
    {
        let refused = open.ask(method, path, &[("Authorization", &bearer)]);
        assert_eq!(refused.status, 403, "{path}");
        let detail = refused.json()["detail"].as_str().expect("it says why").to_owned();
        assert!(detail.contains("`tls`") && detail.contains("--admin-insecure"), "{detail}");
    }
    assert!(open.server.banner.contains("the admin API is off"), "{}", open.server.banner);
}

#[test]
fn insecure_it_serves_tokens_and_no_sessions() {
    let open = open(&["--admin-insecure"]);
    let bearer = format!("Bearer {}", open.token);
    assert_eq!(open.ask("GET", "/api/v1/whoami", &[("Authorization", &bearer)]).status, 200);
    let refused = open.ask("POST", "/console/login", &[("Authorization", &bearer)]);
    assert_eq!(refused.status, 403);
    assert!(refused.json()["detail"].as_str().expect("it says why").contains("`tls`"));
    assert_eq!(open.ask("GET", "/api/v1/whoami", &[("Cookie", "__Host-tidegate=tgs_x")]).status, 401);
}
