//! The layer: what is limited, and how requests are read.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use http::Extensions;
use http::request::Parts;
use ipnet::IpNet;
use tidegate::engine::{Limiter, LimiterError, Request, RuleSet};
use tidegate::{Clock, Memory, MonotonicClock, Store};
use tidegate_proxies::ForwardedSource;
use tower_layer::Layer;

use crate::RateLimit;
use crate::describe::Describe;

/// Limits the services it is put around.
///
/// All clones and all services made by it share one limiter; keep an `Arc` of it
/// to change the policy at run time with [`Limiter::swap`].
pub struct RateLimitLayer<S = Memory, C = MonotonicClock> {
    limiter: Arc<Limiter<S, C>>,
    describe: Arc<Describe>,
}

impl RateLimitLayer {
    /// With a limiter of its own, in this process's memory.
    ///
    /// # Errors
    /// When the policy has more limits than a store can hold, or the memory cannot be reserved.
    pub fn for_policy(rules: impl Into<RuleSet>) -> Result<RateLimitLayer, LimiterError> {
        Ok(RateLimitLayer::new(Arc::new(Limiter::new(rules)?)))
    }
}

impl<S: Store, C: Clock> RateLimitLayer<S, C> {
    /// With a limiter on any store, which others may use as well.
    pub fn new(limiter: Arc<Limiter<S, C>>) -> RateLimitLayer<S, C> {
        RateLimitLayer { limiter, describe: Arc::default() }
    }

    /// The proxies whose word about a client's address is believed. Unless this
    /// is said, that is only this machine: `127.0.0.1/32` and `::1/128`.
    #[must_use]
    pub fn trusted_proxies(mut self, networks: impl IntoIterator<Item = IpNet>) -> Self {
        self.describe_mut().trusted = networks.into_iter().collect();
        self
    }

    /// Where trusted proxies tell a client's address: `X-Forwarded-For`, unless
    /// this says otherwise. Name the one header that your proxy sets; the other
    /// one is whatever the client wrote.
    #[must_use]
    pub fn client_address_from(mut self, source: ForwardedSource) -> Self {
        self.describe_mut().source = source;
        self
    }

    /// Finds the address of the connection in a request's extensions, for servers
    /// that tell it in a way of their own. Unless this is said, it is that of
    /// [`PeerAddr`](crate::PeerAddr), or, with the feature `axum`, that of
    /// `ConnectInfo<SocketAddr>`.
    ///
    /// `None` is a request without an address: limits by `ip` do not apply to it.
    #[must_use]
    pub fn peer_address(
        mut self,
        find: impl Fn(&Extensions) -> Option<IpAddr> + Send + Sync + 'static,
    ) -> Self {
        self.describe_mut().find_peer = Some(Arc::new(find));
        self
    }

    /// Adds what only the application knows: user, tenant, plan, verified claims,
    /// trust, cost. It is called once a request, with all that the layer has found
    /// out by itself, and may change that too.
    ///
    /// ```
    /// # use tidegate_tower::{RateLimitLayer, tidegate::engine::Policy};
    /// struct Account {
    ///     id: String,
    ///     plan: &'static str,
    /// }
    ///
    /// # let policy = Policy::parse("version: 1\nlimits: []\n").expect("it is a policy");
    /// let layer = RateLimitLayer::for_policy(policy)?.with_request(|parts, request| {
    ///     // Left there by the middleware that checks who asks, which runs before.
    ///     match parts.extensions.get::<Account>() {
    ///         Some(account) => request.user(&account.id).plan(account.plan),
    ///         None => request.plan("anonymous"),
    ///     }
    /// });
    /// # Ok::<(), tidegate_tower::tidegate::engine::LimiterError>(())
    /// ```
    #[must_use]
    pub fn with_request(
        mut self,
        complete: impl for<'p> Fn(&'p Parts, Request<'p>) -> Request<'p> + Send + Sync + 'static,
    ) -> Self {
        self.describe_mut().complete = Some(Arc::new(complete));
        self
    }

    /// The limiter.
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

// By hand, since a derived one would ask for `S: Clone` and `C: Clone`.
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
