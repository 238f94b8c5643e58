//! Says once that requests have no client address while a limit needs one. Such a limit applies to no request, which is
//! easily overlooked: a server that provides no peer address looks just like one that nobody overloads.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tidegate::Store;
use tidegate::engine::Limiter;

/// Whether it has been said, and which policy was looked at last.
#[derive(Debug, Default)]
pub(crate) struct AddressCheck {
    said: AtomicBool,
    /// The version of the policy that was looked at; versions start at 1.
    looked_at: AtomicU64,
}

impl AddressCheck {
    /// To be called for each request without a client address. Nearly always it only compares two numbers.
    pub(crate) fn without_address<S: Store, C: tidegate::Clock>(&self, limiter: &Limiter<S, C>) {
        let version = limiter.version();
        if self.said.load(Ordering::Relaxed) || self.looked_at.load(Ordering::Relaxed) == version {
            return;
        }
        self.looked_at.store(version, Ordering::Relaxed);
        let rules = limiter.rules();
        let Some(limit) = rules.limit_by_address() else { return };
        if !self.said.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                limit = &*limit.name,
                "requests have no client address, so limits by `ip` do not apply to them: serve axum with \
                 `into_make_service_with_connect_info::<SocketAddr>()`, insert `PeerAddr` into the extensions of \
                 each request, or use `RateLimitLayer::peer_address`"
            );
        }
    }
}
