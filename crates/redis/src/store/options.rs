//! The settings of a store.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use tidegate::Nanos;

use crate::maintenance::HEARTBEAT_EVERY;

/// A node whose last heartbeat is younger than this counts as alive: it may miss two heartbeats.
const ALIVE_WITHIN: Nanos = Nanos::from_millis(3_500);

/// How nodes share limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreMode {
    /// Every decision is one call to the server.
    Strict,
    /// Busy keys are decided from tokens that the node has leased from the server.
    Hybrid {
        /// The longest that a lease is used: [`StoreOptions::LEASE_LIFE`] fits most. The longer it is, the fewer calls
        /// are made, and the further all nodes together may exceed a limit
        /// ([`RedisStore::overshoot_bounds`](crate::RedisStore::overshoot_bounds)).
        life: Duration,
    },
}

/// The settings of a [`RedisStore`](crate::RedisStore). [`StoreOptions::new`] has the defaults.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// Strict or hybrid.
    pub mode: StoreMode,
    /// The prefix of all keys on the server. Nodes with the same prefix share their limits.
    pub prefix: String,
    /// For about how many keys this node remembers denials and leases.
    pub max_remembered: usize,
    /// How long a charge is retried while states on the server are migrated to other numbers. No further call starts
    /// after this time. The deadline of one call is a good value.
    pub retry_for: Duration,
    /// The id of this node among those that share the store. It must be unique; the default is random.
    pub node: u128,
    /// Uses the `now` of each call instead of the server's clock: for the conformance suite, so it has an effect with the
    /// feature `testing` only. The field is always there, since a feature must not change how a struct is built.
    #[doc(hidden)]
    pub given_time: bool,
}

impl StoreOptions {
    /// The usual life of a lease.
    pub const LEASE_LIFE: Duration = Duration::from_millis(100);

    /// The default of [`StoreOptions::retry_for`].
    pub const RETRY_FOR: Duration = Duration::from_millis(20);

    /// The default settings: prefix `tidegate`, a random node id, a million remembered keys.
    pub fn new(mode: StoreMode) -> StoreOptions {
        let random = || u128::from(RandomState::new().hash_one(0_u64));
        StoreOptions {
            mode,
            prefix: "tidegate".into(),
            max_remembered: 1_000_000,
            retry_for: Self::RETRY_FOR,
            node: random() << 64 | random(),
            given_time: false,
        }
    }

    /// How long a node counts as alive after its last heartbeat. A node that crashed must count for as long as its
    /// leases may be used: it may have leased right before its next heartbeat was due.
    pub(crate) fn alive_within(&self) -> Nanos {
        match self.mode {
            StoreMode::Strict => ALIVE_WITHIN,
            StoreMode::Hybrid { life } => ALIVE_WITHIN.max(Nanos::from(life).saturating_add(HEARTBEAT_EVERY)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_counts_as_long_as_its_leases_live() {
        let alive_within = |mode| StoreOptions::new(mode).alive_within();
        assert_eq!(alive_within(StoreMode::Strict), ALIVE_WITHIN);
        assert_eq!(alive_within(StoreMode::Hybrid { life: StoreOptions::LEASE_LIFE }), ALIVE_WITHIN);
        let life = Duration::from_secs(10);
        assert_eq!(alive_within(StoreMode::Hybrid { life }), Nanos::from_secs(11));
    }
}
