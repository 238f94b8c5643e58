//! Chooses the master when Sentinels disagree.
//!
//! Every failover creates a configuration with a higher epoch, to which a majority of the Sentinels has agreed. The
//! leader passes it on to the others within seconds, unless they are cut off. So the highest epoch is right, even if
//! only one Sentinel reports it. A lower epoch than the current one is outdated, unless a majority of all Sentinels
//! reports it: then the Sentinels were set up anew.

use crate::client::address::HostPort;

/// The address of a master by one Sentinel, and the epoch of its configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MasterClaim {
    pub(super) address: HostPort,
    /// Zero if the Sentinel does not report it.
    pub(super) epoch: u64,
}

/// The master to use, given the claims of those of `sentinels` that answer, and the current one.
pub(super) fn choose(
    claims: &[&MasterClaim],
    sentinels: usize,
    current: Option<&MasterClaim>,
) -> Option<MasterClaim> {
    let votes = |address: &HostPort| claims.iter().filter(|claim| claim.address == *address).count();
    let is_current = |address: &HostPort| current.is_some_and(|current| current.address == *address);
    let newest = claims.iter().map(|claim| claim.epoch).max();
    let best = claims
        .iter()
        .filter(|claim| Some(claim.epoch) == newest)
        // With equal votes, keep the current master.
        .max_by_key(|claim| (votes(&claim.address), is_current(&claim.address)));
    match (best, current) {
        (None, current) => current.cloned(),
        (Some(best), Some(current))
            if best.epoch <= current.epoch && votes(&best.address) * 2 <= sentinels =>
        {
            Some(current.clone())
        }
        (Some(&best), _) => Some(best.clone()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn claim(host: &str, epoch: u64) -> MasterClaim {
        MasterClaim { address: HostPort { host: host.into(), port: 6_379 }, epoch }
    }

    fn chosen(
        claims: &[MasterClaim],
        sentinels: usize,
        current: Option<&MasterClaim>,
    ) -> Option<MasterClaim> {
        choose(&claims.iter().collect::<Vec<_>>(), sentinels, current)
    }

    #[test]
    fn the_newest_configuration_wins_be_it_told_by_one() {
        let claims = [claim("old", 4), claim("old", 4), claim("new", 5)];
        assert_eq!(chosen(&claims, 3, Some(&claim("old", 4))), Some(claim("new", 5)));
        assert_eq!(chosen(&claims, 3, None), Some(claim("new", 5)));
    }

    #[test]
    fn whoever_is_cut_off_with_old_news_persuades_nobody() {
        let current = claim("new", 5);
        assert_eq!(chosen(&[claim("old", 4)], 3, Some(&current)), Some(current.clone()));
        assert_eq!(chosen(&[], 3, Some(&current)), Some(current));
        assert_eq!(chosen(&[claim("old", 4)], 3, None), Some(claim("old", 4)), "all that is known");
        assert_eq!(chosen(&[], 3, None), None);
    }

    #[test]
    fn a_majority_that_was_set_up_anew_is_believed() {
        let claims = [claim("other", 0), claim("other", 0)];
        assert_eq!(chosen(&claims, 3, Some(&claim("new", 5))), Some(claim("other", 0)));
        assert_eq!(chosen(&claims, 4, Some(&claim("new", 5))), Some(claim("new", 5)), "half are no majority");
    }

    #[test]
    fn where_epochs_are_not_told_the_majority_is_right() {
        let claims = [claim("old", 0), claim("new", 0), claim("new", 0)];
        assert_eq!(chosen(&claims, 3, Some(&claim("old", 0))), Some(claim("new", 0)));
        assert_eq!(chosen(&claims[..2], 3, Some(&claim("old", 0))), Some(claim("old", 0)));
    }

    proptest! {
        /// A sequence of failovers, of which each Sentinel knows some: a client that learns of them in any order never
        /// goes back to an older one, and uses the newest as soon as one Sentinel reports it.
        #[test]
        fn a_node_never_goes_back_and_arrives(
            replies in prop::collection::vec(prop::collection::vec(prop::option::of(0..8_u64), 5), 1..20),
        ) {
            let mut current: Option<MasterClaim> = None;
            let mut known = [0; 5];
            for claims in replies {
                let mut answers = Vec::new();
                for (known, epoch) in known.iter_mut().zip(claims) {
                    let Some(epoch) = epoch else { continue };
                    // A Sentinel never goes back to an older configuration either.
                    *known = epoch.max(*known);
                    answers.push(claim(&format!("master-{known}"), *known));
                }
                let newest = answers.iter().map(|claim| claim.epoch).max();
                let before = current.as_ref().map(|current| current.epoch);
                current = chosen(&answers, 5, current.as_ref());
                let after = current.as_ref().map(|current| current.epoch);
                prop_assert!(after >= newest, "{newest:?} was reported, {after:?} is used");
                let majority = |claim: &MasterClaim| answers.iter().filter(|other| *other == claim).count() > 2;
                prop_assert!(after >= before || current.as_ref().is_some_and(majority));
            }
        }
    }
}
