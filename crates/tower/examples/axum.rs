//! A small axum application behind a policy: `cargo run -p tidegate-tower --example axum`.

use std::net::SocketAddr;

use axum::Router;
use axum::extract::Extension;
use axum::routing::get;
use tidegate_tower::tidegate::engine::Policy;
use tidegate_tower::{Degraded, RateLimitInfo, RateLimitLayer};
use tokio::net::TcpListener;

/// Three limits. Whoever has a key is limited by its plan, everybody else by
/// address; a search beyond its limit is not refused but answered cheaply.
const POLICY: &str = "
version: 1
limits:
  - name: paid
    group: plan
    match: { plan: paid }
    key: ['header:x-api-key']
    sustained: { rate: 100, window: minute }
  - name: anonymous
    group: plan
    key: [ip]
    sustained: { rate: 10, window: minute }
    burst: { capacity: 3 }
  - name: search
    match: { path: /search }
    key: [ip]
    sustained: { rate: 1, window: 10s }
    strategy: degrade
    degrade: { tag: cached }
";

/// The keys that were sold. Yours are in a database.
const PAID_KEYS: [&str; 2] = ["alice-key", "bob-key"];

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let layer = RateLimitLayer::for_policy(Policy::parse(POLICY)?)?.with_request(|parts, request| {
        let key = parts.headers.get("x-api-key").and_then(|key| key.to_str().ok());
        // Only a key that is known has a plan: a made-up one buys nothing.
        if key.is_some_and(|key| PAID_KEYS.contains(&key)) { request.plan("paid") } else { request }
    });
    let router = Router::new().route("/", get(home)).route("/search", get(search)).layer(layer);

    let wanted = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:3000".to_owned());
    let listener = TcpListener::bind(&wanted).await.map_err(|error| format!("{wanted}: {error}"))?;
    let address = listener.local_addr()?;
    println!("Listening on http://{address}. Try, each a few times:");
    println!("  curl -i http://{address}/                              # three at once, then 429");
    println!("  curl -i http://{address}/ -H 'x-api-key: alice-key'    # 100 a minute");
    println!("  curl -i http://{address}/search -H 'x-api-key: bob-key'    # degraded, not refused");

    // With the peer's address, or limits by `ip` would have nothing to go by.
    axum::serve(listener, router.into_make_service_with_connect_info::<SocketAddr>()).await?;
    Ok(())
}

async fn home(Extension(standing): Extension<RateLimitInfo>) -> String {
    match standing.tightest {
        Some(limit) => format!("{} of {} left in {}\n", limit.remaining, limit.limit, limit.name),
        None => "no limit applies\n".to_owned(),
    }
}

async fn search(degraded: Option<Extension<Degraded>>) -> String {
    match degraded {
        Some(Extension(Degraded(tag))) => format!("an old answer ({tag})\n"),
        None => "a fresh answer\n".to_owned(),
    }
}
