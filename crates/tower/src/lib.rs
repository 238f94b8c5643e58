//! Limits HTTP and gRPC services by a Tidegate policy: a [`tower_layer::Layer`]
//! for axum, tonic, hyper and whatever else is made of tower services.
//!
//! ```
//! use tidegate_tower::RateLimitLayer;
//! use tidegate_tower::tidegate::engine::Policy;
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
//! let ask = || http::Request::builder().header("x-api-key", "k").body(String::new());
//! let answer = limited.clone().oneshot(ask()?).await?;
//! assert_eq!(answer.headers()["x-ratelimit-remaining"], "0");
//!
//! let refusal = limited.oneshot(ask()?).await?;
//! assert_eq!(refusal.status(), 429);
//! assert_eq!(refusal.headers()["retry-after"], "60");
//! # Ok(())
//! # }
//! ```
//!
//! # What a policy sees
//!
//! Method, host, path, query and headers as the request has them, and the
//! client's address. What only the application knows (who the user is, the plan,
//! claims that were verified) is added by [`RateLimitLayer::with_request`]; a
//! client's own word for it is never taken.
//!
//! **The client's address** begins with that of the connection, which the server
//! must tell: put a [`PeerAddr`] into the extensions of each request, or turn the
//! feature `axum` on and serve with
//! `into_make_service_with_connect_info::<SocketAddr>()`, or say where to look by
//! [`RateLimitLayer::peer_address`]:
//!
//! ```
//! # use tidegate_tower::RateLimitLayer;
//! use tonic::transport::server::TcpConnectInfo;
//!
//! # fn told_by_tonic(layer: RateLimitLayer) -> RateLimitLayer {
//! layer.peer_address(|extensions| {
//!     extensions.get::<TcpConnectInfo>()?.remote_addr().map(|peer| peer.ip())
//! })
//! # }
//! ```
//!
//! Without it a request has no address, and limits by `ip` do not apply. Behind
//! proxies, name them by [`RateLimitLayer::trusted_proxies`]; the module
//! [`proxies`] says how the client is found then.
//!
//! # What a client sees
//!
//! - An admitted request goes to the service. The headers that the policy asks
//!   for are added to the response; where the service has set one of the same
//!   name, it is replaced.
//! - A refused request is answered with 429, or 503 where the server is short of
//!   something, with `Retry-After` and an `application/problem+json` body. The
//!   service is not asked.
//! - A request whose [credential](tidegate::engine::Credential) is said not to
//!   hold is answered with 401 and `WWW-Authenticate`.
//! - A gRPC request is refused as gRPC has it: `RESOURCE_EXHAUSTED` instead of
//!   429, `UNAVAILABLE` instead of 503, `UNAUTHENTICATED` instead of 401, the same
//!   headers, and `grpc-retry-pushback-ms`.
//! - Where a limit's strategy is `queue`, the request waits. If the client goes
//!   away meanwhile, its place and its tokens are given back.
//! - Where it is `degrade`, the service finds [`Degraded`] in the extensions of
//!   the request, and the response has `X-RateLimit-Degraded`.
//!
//! The service finds the decision as [`RateLimitInfo`] in the extensions of the
//! request; layers further out find it in those of the response. Of two of these
//! layers around each other (say, by address before the user is known, and by
//! user after), both must admit a request, and the tighter one's headers are
//! told.
//!
//! # Features
//!
//! - `axum`: finds what axum knows by itself: the peer's address and, within
//!   nested routers, the whole path.

mod answer;
mod body;
mod describe;
mod extensions;
mod layer;
mod service;

pub use body::ResponseBody;
pub use extensions::{Degraded, PeerAddr, RateLimitInfo, Tightest};
pub use layer::RateLimitLayer;
pub use service::{RateLimit, ResponseFuture};
/// The limiter and its policy, in the version that this crate is made for.
pub use tidegate;
/// Finds the client behind trusted proxies.
pub use tidegate_proxies as proxies;
pub use tidegate_proxies::{ForwardedSource, IpNet, TrustedProxies, client_address};

/// The example of the README is tested like those here.
#[cfg(doctest)]
mod readme {
    #[doc = include_str!("../README.md")]
    struct Crate;
}
