//! A small axum application with rate limits: `cargo run -p tidegate-tower --example axum`.

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::extract::Extension;
use axum::routing::get;
use tidegate_tower::{Degraded, Policy, RateLimitInfo, RateLimitLayer};
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // The simple way: ten requests per second from each client address.
    let simple = RateLimitLayer::per_ip(10, Duration::from_secs(1))?;
    let hello = Router::new().route("/", get(async || "hello\n")).layer(simple);

    // A policy: limits by plan, and a search that degrades.
    let api = Router::new().route("/api", get(api)).route("/search", get(search)).layer(by_plan()?);

    let wanted = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:3000".to_owned());
    let listener = TcpListener::bind(&wanted).await.map_err(|error| format!("{wanted}: {error}"))?;
    let address = listener.local_addr()?;
    println!("Listening on http://{address}. Try, each several times:");
    println!("  curl -i http://{address}/                                 # 10 per second");
    println!("  curl -i http://{address}/api                              # three at once, then 429");
    println!("  curl -i http://{address}/api -H 'x-api-key: alice-key'    # 100 per minute");
    println!("  curl -i http://{address}/search -H 'x-api-key: bob-key'   # degraded, not refused");

    // With the peer's address: without it, limits by `ip` do not apply.
    let app = hello.merge(api).into_make_service_with_connect_info::<SocketAddr>();
    axum::serve(listener, app).await?;
    Ok(())
}

/// Three limits: by API key for paying clients, by address for all others, and one for searches, beyond which they are
/// answered from a cache instead of being refused.
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

/// The API keys of paying clients; a real application has them in a database.
const PAID_KEYS: [&str; 2] = ["alice-key", "bob-key"];

fn by_plan() -> Result<RateLimitLayer, Box<dyn std::error::Error>> {
    let layer = RateLimitLayer::for_policy(Policy::parse(POLICY)?)?;
    Ok(layer.with_request(|parts, request| {
        let key = parts.headers.get("x-api-key").and_then(|key| key.to_str().ok());
        // Only a known key has a plan, so an invented one gains nothing.
        if key.is_some_and(|key| PAID_KEYS.contains(&key)) { request.plan("paid") } else { request }
    }))
}

async fn api(Extension(info): Extension<RateLimitInfo>) -> String {
    match info.tightest {
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
