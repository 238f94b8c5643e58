//! The layer: its constructors, and how requests are described to the limiter.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use http::Extensions;
use http::request::Parts;
use tidegate::engine::{
    IdentitySources, LimitBuilder, Limiter, LimiterError, PolicyBuilder, PolicyError, Request, RuleSet,
};
use tidegate::{Clock, LimitError, Memory, MonotonicClock, Store};
use tidegate_proxies::{ForwardedSource, IpNet};
use tower_layer::Layer;

use crate::RateLimit;
use crate::describe::Describe;

/// Limits the requests of the services it is put around.
///
/// All clones of a layer, and all services made by them, share one limiter. Use [`RateLimitLayer::limiter`] and
/// [`Limiter::swap`] to change the policy at run time.
///
/// The limiter keeps its state in the memory of this process by default (`S = Memory`). Any other [`Store`] works too:
/// see [`RateLimitLayer::with_store`].
#[must_use = "a layer limits nothing until it is put around a service"]
pub struct RateLimitLayer<S = Memory, C = MonotonicClock> {
    limiter: Arc<Limiter<S, C>>,
    describe: Arc<Describe>,
}

/// Why a layer could not be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LayerError {
    /// The limits are not valid.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// There are too many limits, or there is no memory for them.
    #[error(transparent)]
    Limiter(#[from] LimiterError),
}

impl RateLimitLayer {
    /// Admits this many requests per window from each client address, and as many at once.
    ///
    /// IPv6 clients are limited by their /64 network. A request whose address is not known is not limited; the crate
    /// documentation says how the address is found. For other bursts and keys, see [`RateLimitLayer::for_limits`].
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidegate_tower::RateLimitLayer;
    ///
    /// let ten_per_second = RateLimitLayer::per_ip(10, Duration::from_secs(1))?;
    /// # Ok::<(), tidegate_tower::LayerError>(())
    /// ```
    ///
    /// # Errors
    /// When `requests` is zero or too large, when the window is not a whole number of milliseconds or is too long, or
    /// when there is no memory for the limiter.
    pub fn per_ip(requests: u64, window: Duration) -> Result<RateLimitLayer, LayerError> {
        RateLimitLayer::for_limits([LimitBuilder::new("per-ip", requests, window).key(["ip"])])
    }

    /// Admits a request if all of these limits admit it.
    ///
    /// ```
    /// use tidegate_tower::{LimitBuilder, RateLimitLayer};
    ///
    /// let layer = RateLimitLayer::for_limits([
    ///     LimitBuilder::per_second("per-ip", 10).key(["ip"]).burst(50),
    ///     LimitBuilder::per_minute("per-key", 1_000).key(["header:x-api-key"]),
    ///     LimitBuilder::per_minute("uploads", 5).key(["ip"]).when("path", ["/upload/**"]),
    /// ])?;
    /// # Ok::<(), tidegate_tower::LayerError>(())
    /// ```
    ///
    /// # Errors
    /// When a limit is not valid, when there are more limits than the limiter can hold, or when there is no memory for
    /// it.
    pub fn for_limits(limits: impl IntoIterator<Item = LimitBuilder>) -> Result<RateLimitLayer, LayerError> {
        let policy = limits.into_iter().fold(PolicyBuilder::new(), PolicyBuilder::limit).build()?;
        Ok(RateLimitLayer::for_policy(policy)?)
    }

    /// Decides by this policy, with the state in the memory of this process.
    ///
    /// # Errors
    /// When the policy has more limits than the limiter can hold, or there is no memory for it.
    pub fn for_policy(rules: impl Into<RuleSet>) -> Result<RateLimitLayer, LimiterError> {
        Ok(RateLimitLayer::new(Arc::new(Limiter::new(rules)?)))
    }
}

impl<S: Store> RateLimitLayer<S> {
    /// Decides by this policy, with the state in this store. With the store of the crate `tidegate-redis`, all
    /// processes that use it share the limits.
    ///
    /// ```
    /// use tidegate_tower::tidegate::{Memory, MemoryOptions};
    /// use tidegate_tower::{LimitBuilder, PolicyBuilder, RateLimitLayer};
    ///
    /// let policy = PolicyBuilder::new().limit(LimitBuilder::per_second("per-ip", 10).key(["ip"])).build()?;
    /// let store = Memory::new(MemoryOptions { max_keys: 10_000, ..MemoryOptions::default() })?;
    /// let layer = RateLimitLayer::with_store(policy, store)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// The limiter gets a clock of its own. To share one with the store, make the [`Limiter`] and use
    /// [`RateLimitLayer::new`].
    ///
    /// # Errors
    /// When the policy has more limits than the store can hold.
    pub fn with_store(rules: impl Into<RuleSet>, store: S) -> Result<RateLimitLayer<S>, LimitError> {
        Ok(RateLimitLayer::new(Arc::new(Limiter::with_store(rules, store, MonotonicClock::new())?)))
    }
}

impl<S: Store, C: Clock> RateLimitLayer<S, C> {
    /// Decides by this limiter, which other parts of the program may use as well.
    pub fn new(limiter: Arc<Limiter<S, C>>) -> RateLimitLayer<S, C> {
        RateLimitLayer { limiter, describe: Arc::default() }
    }

    /// The networks of your proxies, whose headers are believed. By default only this machine is trusted:
    /// `127.0.0.1/32` and `::1/128`.
    pub fn trusted_proxies(mut self, networks: impl IntoIterator<Item = IpNet>) -> Self {
        self.describe_mut().trusted = networks.into_iter().collect();
        self
    }

    /// The header in which trusted proxies pass on the client's address; by default `X-Forwarded-For`. Choose the one
    /// that your proxy sets: it passes the other one on as the client wrote it.
    pub fn client_address_from(mut self, source: ForwardedSource) -> Self {
        self.describe_mut().source = source;
        self
    }

    /// How to find the peer address of the connection in a request's extensions. By default it is that of
    /// [`PeerAddr`](crate::PeerAddr) or, with the feature `axum`, of `ConnectInfo<SocketAddr>`.
    ///
    /// Where this returns `None`, the request has no address and limits by `ip` do not apply to it.
    pub fn peer_address(
        mut self,
        find: impl Fn(&Extensions) -> Option<IpAddr> + Send + Sync + 'static,
    ) -> Self {
        self.describe_mut().find_peer = Some(Arc::new(find));
        self
    }

    /// Adds what only the application knows: user, tenant, plan, verified claims, trust, cost. The function is called
    /// once for each request, with everything that the layer has found, and may change that too.
    ///
    /// ```
    /// # use tidegate_tower::{Policy, RateLimitLayer};
    /// struct Account {
    ///     id: String,
    ///     plan: &'static str,
    /// }
    ///
    /// # let policy = Policy::parse("version: 1\nlimits: []\n").expect("the policy is valid");
    /// let layer = RateLimitLayer::for_policy(policy)?.with_request(|parts, request| {
    ///     // An authentication middleware outside this layer has inserted the account.
    ///     match parts.extensions.get::<Account>() {
    ///         Some(account) => request.user(&account.id).plan(account.plan),
    ///         None => request.plan("anonymous"),
    ///     }
    /// });
    /// # Ok::<(), tidegate_tower::tidegate::engine::LimiterError>(())
    /// ```
    pub fn with_request(
        mut self,
        complete: impl for<'p> Fn(&'p Parts, Request<'p>) -> Request<'p> + Send + Sync + 'static,
    ) -> Self {
        self.describe_mut().complete = Some(Arc::new(complete));
        self
    }

    /// Where the user, tenant, plan and so on of a request come from, if the application does not set them by
    /// [`RateLimitLayer::with_request`]. For each member the first source that has a value is used:
    ///
    /// - `header:<name>`, believed only from [`trusted_proxies`](RateLimitLayer::trusted_proxies), which must set or remove
    ///   this header in the requests of their clients;
    /// - `query:<name>`, `host:{tenant}.api.example.com`: as the client wrote them;
    /// - `jwt:<claim>`: one of the verified claims that `with_request` has added;
    /// - `api_key`: the [`KeyHolder`](crate::KeyHolder) in the extensions of the request, put there by a middleware that has
    ///   checked the key.
    ///
    /// A value that cannot be used, such as a trust of `1.5`, is answered with 400, and with `INVALID_ARGUMENT` for gRPC.
    ///
    /// ```
    /// use tidegate_tower::{IdentityMember, IdentitySources, Policy, RateLimitLayer};
    ///
    /// # let policy = Policy::parse("version: 1\nlimits: []\n")?;
    /// let sources = IdentitySources::new()
    ///     .with(IdentityMember::Tenant, ["header:x-tenant", "host:{tenant}.api.example.com"])?
    ///     .with(IdentityMember::Plan, ["api_key"])?;
    /// let layer = RateLimitLayer::for_policy(policy)?.identity(sources);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn identity(mut self, sources: IdentitySources) -> Self {
        self.describe_mut().identity = sources;
        self
    }

    /// The limiter, for example to change the policy or to read its statistics.
    pub fn limiter(&self) -> &Arc<Limiter<S, C>> {
        &self.limiter
    }

    fn describe_mut(&mut self) -> &mut Describe {
        Arc::make_mut(&mut self.describe)
    }
}

impl<I, S, C> Layer<I> for RateLimitLayer<S, C> {
    type Service = RateLimit<I, S, C>;

    fn layer(&self, inner: I) -> RateLimit<I, S, C> {
        RateLimit::new(inner, Arc::clone(&self.limiter), Arc::clone(&self.describe))
    }
}

// Not derived: a derived `Clone` would require `S: Clone` and `C: Clone`.
impl<S, C> Clone for RateLimitLayer<S, C> {
    fn clone(&self) -> Self {
        RateLimitLayer { limiter: Arc::clone(&self.limiter), describe: Arc::clone(&self.describe) }
    }
}

impl<S, C> fmt::Debug for RateLimitLayer<S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimitLayer")
            .field("limiter", &self.limiter)
            .field("describe", &self.describe)
            .finish()
    }
}
