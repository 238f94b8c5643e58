//! How a store is to work.

use std::hash::{BuildHasher, RandomState};

use tidegate_core::Nanos;

use crate::tend::BEAT_EVERY;

/// How long a node counts without a beat, at least: long enough to miss two.
const ALIVE_WITHIN: Nanos = Nanos::from_millis(3_500);

/// How nodes share limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreMode {
    /// Every decision asks the server, once.
    Strict,
    /// Busy keys are decided from leases that live this long at most.
    Hybrid {
        /// The life of a lease.
        life: Nanos,
    },
}

/// How a store is to work.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// Strict or hybrid.
    pub mode: StoreMode,
    /// How keys begin: one store, one prefix.
    pub prefix: String,
    /// About how many keys a node remembers denials and leases of.
    pub max_known: usize,
    /// How long a question may be put again, where states have to be brought up to other numbers first: no further
    /// call is begun after that. The deadline of a call is right for it.
    pub patience: Nanos,
    /// What this node is known by among those that share the store; no two may have the same.
    pub node: u128,
    /// Go by the `now` of each call instead of the server's clock: for the conformance suite.
    #[cfg(feature = "testing")]
    pub given_time: bool,
}

impl StoreOptions {
    /// The life of a lease unless somebody says otherwise.
    pub const LIFE: Nanos = Nanos::from_millis(100);

    /// How long a question may be put again unless somebody says otherwise.
    pub const PATIENCE: Nanos = Nanos::from_millis(20);

    /// The usual ones.
    pub fn new(mode: StoreMode) -> StoreOptions {
        let random = || u128::from(RandomState::new().hash_one(0_u64));
        StoreOptions {
            mode,
            prefix: "tidegate".into(),
            max_known: 1_000_000,
            patience: Self::PATIENCE,
            node: random() << 64 | random(),
            #[cfg(feature = "testing")]
            given_time: false,
        }
    }

    /// How long a node counts without a beat. One that is gone still counts while what it leased may be used: it
    /// may have asked for it right before its next beat was due.
    pub(crate) fn alive_within(&self) -> Nanos {
        match self.mode {
            StoreMode::Strict => ALIVE_WITHIN,
            StoreMode::Hybrid { life } => ALIVE_WITHIN.max(life.saturating_add(BEAT_EVERY)),
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
        assert_eq!(alive_within(StoreMode::Hybrid { life: StoreOptions::LIFE }), ALIVE_WITHIN);
        let life = Nanos::from_secs(10);
        assert_eq!(alive_within(StoreMode::Hybrid { life }), Nanos::from_secs(11));
    }
}
