//! Rate limits for axum, tonic, hyper and every other [tower](tower_layer::Layer) service, decided by Tidegate.
//!
//! Ten requests per second from each client address:
//!
//! ```
//! # async fn serve(listener: tokio::net::TcpListener) -> Result<(), Box<dyn std::error::Error>> {
//! use tidegate_tower::RateLimitLayer;
//!
//! let layer = RateLimitLayer::per_ip(10, std::time::Duration::from_secs(1))?;
//! let app = axum::Router::new().route("/", axum::routing::get(async || "hello")).layer(layer);
//! axum::serve(listener, app.into_make_service_with_connect_info::<std::net::SocketAddr>()).await?;
//! # Ok(())
//! # }
//! ```
//!
//! The layer is built from
//!
//! - a rate: [`RateLimitLayer::per_ip`];
//! - limits written in Rust: [`RateLimitLayer::for_limits`] with [`LimitBuilder`]s;
//! - a policy, from YAML, JSON or a [`PolicyBuilder`]: [`RateLimitLayer::for_policy`], or
//!   [`RateLimitLayer::with_store`] for state that several processes share;
//! - a limiter that the program uses elsewhere too: [`RateLimitLayer::new`].
//!
//! ```
//! use tidegate_tower::{Policy, RateLimitLayer};
//! use tower::{ServiceBuilder, ServiceExt, service_fn};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let policy = Policy::parse(
//!     "version: 1\n\
//!      limits:\n\
//!      - { name: per-key, key: [\"header:x-api-key\"], sustained: { rate: 1, window: minute } }\n",
//! )?;
//! let hello = service_fn(async |_: http::Request<String>| {
//!     Ok::<_, std::convert::Infallible>(http::Response::new("hello".to_owned()))
//! });
//! let limited = ServiceBuilder::new().layer(RateLimitLayer::for_policy(policy)?).service(hello);
//!
//! let request = || http::Request::builder().header("x-api-key", "k").body(String::new());
//! let response = limited.clone().oneshot(request()?).await?;
//! assert_eq!(response.headers()["x-ratelimit-remaining"], "0");
//!
//! let refusal = limited.oneshot(request()?).await?;
//! assert_eq!(refusal.status(), 429);
//! assert_eq!(refusal.headers()["retry-after"], "60");
//! # Ok(())
//! # }
//! ```
//!
//! # What limits can match
//!
//! Method, host, path, query and headers of the request, and the client's address. What only the application knows (the
//! user, the plan, verified claims) is added by [`RateLimitLayer::with_request`], or read from the sources of
//! [`RateLimitLayer::identity`], such as a header that a trusted proxy sets. Otherwise the layer never takes it from the
//! client.
//!
//! **The client's address** is found from the peer address of the connection, which the server must provide in one of
//! three ways:
//!
//! - with the feature `axum`, serve with `into_make_service_with_connect_info::<SocketAddr>()`;
//! - insert a [`PeerAddr`] into the extensions of each request;
//! - tell the layer where the address is, by [`RateLimitLayer::peer_address`]:
//!
//! ```
//! # use tidegate_tower::RateLimitLayer;
//! use tonic::transport::server::TcpConnectInfo;
//!
//! # fn for_tonic(layer: RateLimitLayer) -> RateLimitLayer {
//! layer.peer_address(|extensions| {
//!     extensions.get::<TcpConnectInfo>()?.remote_addr().map(|peer| peer.ip())
//! })
//! # }
//! ```
//!
//! **A request without a peer address has no client address, and limits by `ip` do not apply to it.** If the policy has
//! such limits, the layer says so once, as a warning of [`tracing`](https://docs.rs/tracing). Behind proxies, name their
//! networks by [`RateLimitLayer::trusted_proxies`]; the crate [`proxies`] describes how the client is found
//! then.
//!
//! # What clients get
//!
//! - An admitted request goes to the service. The headers that the policy selects are added to the response; they
//!   replace headers of the same name that the service has set.
//! - A refused request is answered with 429, or with 503 if it cannot wait in a queue or the store fails, with
//!   `Retry-After` and an `application/problem+json` body. The service is not called.
//! - A request whose [credential](tidegate::engine::Credential) is marked as invalid is answered with 401 and
//!   `WWW-Authenticate`.
//! - A gRPC request is refused with a gRPC status: `RESOURCE_EXHAUSTED` for 429, `UNAVAILABLE` for 503,
//!   `UNAUTHENTICATED` for 401, with the same headers and `grpc-retry-pushback-ms`.
//! - A request over a limit with the strategy `queue` waits. If the client disconnects meanwhile, its place in the
//!   queue and its tokens are given back.
//! - A request over a limit with the strategy `degrade` is admitted. The service finds [`Degraded`] in its extensions,
//!   and the response has `X-RateLimit-Degraded`.
//!
//! The service finds the decision as [`RateLimitInfo`] in the extensions of the request, and outer layers find it in
//! those of the response. Two of these layers can be put around each other (say, by address before authentication and
//! by user after it): then both must admit a request, and the response has the headers of the tighter one.
//!
//! # Features
//!
//! - `axum`: finds the peer address in axum's `ConnectInfo`, and the whole path within nested routers.

mod address_check;
mod body;
mod describe;
mod extensions;
mod layer;
mod outcome;
mod service;

pub use body::ResponseBody;
pub use extensions::{Degraded, PeerAddr, RateLimitInfo, Tightest};
pub use layer::{LayerError, RateLimitLayer};
pub use service::{RateLimit, ResponseFuture};
/// The limiter, in the version that this crate uses.
pub use tidegate;
pub use tidegate::engine::{
    IdentityMember, IdentitySource, IdentitySources, KeyHolder, LimitBuilder, Policy, PolicyBuilder,
};
/// Finds the client behind trusted proxies.
pub use tidegate_proxies as proxies;
pub use tidegate_proxies::{ForwardedSource, IpNet, TrustedProxies, client_address};

/// The examples of the README are tested like those here.
#[cfg(doctest)]
mod readme {
    #[doc = include_str!("../README.md")]
    struct Crate;
}
