//! What the admin listener serves: on loopback, where other machines reach it, with TLS, and with `--admin-insecure`.

use std::sync::Arc;

use tidegate_server::admin::AdminClient;
use tidegate_server::settings::Settings;

use super::client::{ask, get};
use super::{POLICY, listen, listen_as, node};

/// Where a listener is, and how the server was started.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Reach {
    Loopback,
    /// Other machines reach it, and it has no TLS.
    Plain,
    /// The same with `--admin-insecure`.
    Insecure,
    /// Other machines reach it by TLS.
    Encrypted,
}

use Reach::{Encrypted, Insecure, Loopback, Plain};

/// Where a path is served at all.
const EVERYWHERE: &[Reach] = &[Loopback, Plain, Insecure, Encrypted];
const NOT_PLAIN: &[Reach] = &[Loopback, Insecure, Encrypted];
const PRIVATE: &[Reach] = &[Loopback, Encrypted];

/// Each path of the listener. Paths of the admin API are refused all alike, before the route is looked for.
const PATHS: &[(&str, &str, &[Reach])] = &[
    ("GET", "/healthz", EVERYWHERE),
    ("GET", "/readyz", EVERYWHERE),
    ("GET", "/metrics", EVERYWHERE),
    ("GET", "/", NOT_PLAIN),
    ("GET", "/nothing", NOT_PLAIN),
    ("GET", "/debug/hot-keys", NOT_PLAIN),
    ("GET", "/debug/trust", NOT_PLAIN),
    ("GET", "/debug/penalties", NOT_PLAIN),
    ("DELETE", "/debug/penalties/00000000000000000000000000000000", NOT_PLAIN),
    ("GET", "/api/v1/openapi.json", NOT_PLAIN),
    ("GET", "/api/v1/limits", NOT_PLAIN),
    ("DELETE", "/api/v1/tokens/x", NOT_PLAIN),
    ("GET", "/api/v2/anything", NOT_PLAIN),
    ("GET", "/console/", PRIVATE),
    ("POST", "/console/login", PRIVATE),
    ("POST", "/console/logout", PRIVATE),
];

#[tokio::test]
async fn each_path_is_served_where_nobody_else_can_read_it() {
    for reach in [Loopback, Plain, Insecure, Encrypted] {
        let settings = Settings { admin_insecure: reach == Insecure, ..Settings::default() };
        let node = Arc::new(node(POLICY, settings));
        let caller = AdminClient {
            address: [203, 0, 113, 7].into(),
            on_loopback: reach == Loopback,
            is_encrypted: reach == Encrypted,
        };
        let address = listen_as(&node, caller).await;
        for (method, path, served) in PATHS {
            let answer = ask(address, method, path, "").await;
            let is_refused = answer.status == 403 && answer.body.contains("`tls`");
            assert_eq!(!is_refused, served.contains(&reach), "{reach:?} {method} {path}: {}", answer.body);
        }
    }
}

#[tokio::test]
async fn every_endpoint_is_in_the_table() {
    let node = Arc::new(node(POLICY, Settings::default()));
    let missing = get(listen(&node).await, "/nothing").await.json();
    for endpoint in missing["endpoints"].as_array().expect("a list") {
        let is_listed = PATHS.iter().any(|(_, path, _)| endpoint == path);
        assert!(is_listed, "{endpoint} has a row above");
    }
}
