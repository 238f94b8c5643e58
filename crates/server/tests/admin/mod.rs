//! The admin listener on real sockets, the metrics page, and traces.

mod client;
mod dashboards;
mod endpoints;
mod exposition;
mod listener;
mod metrics;
mod panics;
mod penalties;
mod running;
mod traces;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use tidegate::engine::Policy;
use tidegate_server::admin::{AdminClient, answer_connection};
use tidegate_server::identity::Identity;
use tidegate_server::node::Node;
use tidegate_server::node::lifecycle::Phase;
use tidegate_server::settings::Settings;

/// A policy with a little of everything.
const POLICY: &str = "
version: 1
limits:
  - { name: per-user, key: [user], sustained: { rate: 1, window: hour }, burst: { capacity: 2 } }
  - { name: watched, key: [user], mode: shadow, sustained: { rate: 1, window: hour } }
  - { name: marked, match: { plan: free }, key: [user], strategy: degrade, sustained: { rate: 1, window: hour } }
tenants:
  - { id: acme, rate_limit: { sustained: { rate: 100, window: minute } } }
allow: [{ client: friend }]
adaptive: { trust: true }
";

/// A node with a policy, serving.
fn node(policy: &str, settings: Settings) -> Node {
    let policy = Policy::parse(policy).expect("the policy is valid");
    let settings = Settings { max_keys: 1_000, ..settings };
    let identity = Identity::new(&settings).expect("there is nothing to read");
    let node = Node::new(settings, policy.into(), identity).expect("the limits fit");
    node.lifecycle().enter(Phase::Serving);
    node
}

/// Serves the admin listener of a node to clients on loopback.
async fn listen(node: &Arc<Node>) -> SocketAddr {
    listen_as(
        node,
        AdminClient { address: IpAddr::V4(Ipv4Addr::LOCALHOST), on_loopback: true, is_encrypted: false },
    )
    .await
}

/// The same, for clients with another address.
async fn listen_as(node: &Arc<Node>, caller: AdminClient) -> SocketAddr {
    let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
    let (address, node) = (listener.local_addr().expect("it is bound"), Arc::clone(node));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer_connection(Arc::clone(&node), stream, caller));
        }
    });
    address
}
