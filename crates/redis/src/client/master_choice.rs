//! Which master to go by where Sentinels do not agree.
//!
//! Every failover makes a configuration with a higher epoch, which a majority of the Sentinels has agreed to; from the
//! one that led it the others hear within seconds, if they are not cut off. So whoever has the highest epoch is right,
//! be it a single one. A lower epoch than the one we go by is old news, unless a majority of all Sentinels says so:
//! then they were set up anew.

use super::address::HostPort;

/// Where a master is said to be, and the epoch of the configuration that says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MasterClaim {
    pub(super) place: HostPort,
    /// Zero where a Sentinel does not tell it.
    pub(super) epoch: u64,
}

/// Whom to go by, of all that is `said` by so many of `sentinels`, for who goes by `present` so far.
pub(super) fn choose(
    said: &[&MasterClaim],
    sentinels: usize,
    present: Option<&MasterClaim>,
) -> Option<MasterClaim> {
    let votes = |place: &HostPort| said.iter().filter(|named| named.place == *place).count();
    let is_present = |place: &HostPort| present.is_some_and(|present| present.place == *place);
    let newest = said.iter().map(|named| named.epoch).max();
    let best = said
        .iter()
        .filter(|named| Some(named.epoch) == newest)
        // Who is gone by already is left only for more.
        .max_by_key(|named| (votes(&named.place), is_present(&named.place)));
    match (best, present) {
        (None, present) => present.cloned(),
        (Some(best), Some(present)) if best.epoch <= present.epoch && votes(&best.place) * 2 <= sentinels => {
            Some(present.clone())
        }
        (Some(&best), _) => Some(best.clone()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn named(host: &str, epoch: u64) -> MasterClaim {
        MasterClaim { place: HostPort { host: host.into(), port: 6_379 }, epoch }
    }

    fn chosen(said: &[MasterClaim], sentinels: usize, present: Option<&MasterClaim>) -> Option<MasterClaim> {
        choose(&said.iter().collect::<Vec<_>>(), sentinels, present)
    }

    #[test]
    fn the_newest_configuration_wins_be_it_told_by_one() {
        let said = [named("old", 4), named("old", 4), named("new", 5)];
        assert_eq!(chosen(&said, 3, Some(&named("old", 4))), Some(named("new", 5)));
        assert_eq!(chosen(&said, 3, None), Some(named("new", 5)));
    }

    #[test]
    fn whoever_is_cut_off_with_old_news_persuades_nobody() {
        let present = named("new", 5);
        assert_eq!(chosen(&[named("old", 4)], 3, Some(&present)), Some(present.clone()));
        assert_eq!(chosen(&[], 3, Some(&present)), Some(present));
        assert_eq!(chosen(&[named("old", 4)], 3, None), Some(named("old", 4)), "all that is known");
        assert_eq!(chosen(&[], 3, None), None);
    }

    #[test]
    fn a_majority_that_was_set_up_anew_is_believed() {
        let said = [named("other", 0), named("other", 0)];
        assert_eq!(chosen(&said, 3, Some(&named("new", 5))), Some(named("other", 0)));
        assert_eq!(chosen(&said, 4, Some(&named("new", 5))), Some(named("new", 5)), "half are no majority");
    }

    #[test]
    fn where_epochs_are_not_told_the_majority_is_right() {
        let said = [named("old", 0), named("new", 0), named("new", 0)];
        assert_eq!(chosen(&said, 3, Some(&named("old", 0))), Some(named("new", 0)));
        assert_eq!(chosen(&said[..2], 3, Some(&named("old", 0))), Some(named("old", 0)));
    }

    proptest! {
        /// Failovers one after the other, of which each Sentinel knows up to some: whoever hears some of them, in
        /// whatever order, never goes back, and has the last as soon as one that knows it is heard.
        #[test]
        fn a_node_never_goes_back_and_arrives(
            heard in prop::collection::vec(prop::collection::vec(prop::option::of(0..8_u64), 5), 1..20),
        ) {
            let mut present: Option<MasterClaim> = None;
            let mut known = [0; 5];
            for said in heard {
                let mut answers = Vec::new();
                for (known, epoch) in known.iter_mut().zip(said) {
                    let Some(epoch) = epoch else { continue };
                    // A Sentinel itself never goes back either.
                    *known = epoch.max(*known);
                    answers.push(named(&format!("master-{known}"), *known));
                }
                let newest = answers.iter().map(|named| named.epoch).max();
                let before = present.as_ref().map(|present| present.epoch);
                present = chosen(&answers, 5, present.as_ref());
                let after = present.as_ref().map(|present| present.epoch);
                prop_assert!(after >= newest, "{newest:?} was told, {after:?} is gone by");
                let majority = |named: &MasterClaim| answers.iter().filter(|other| *other == named).count() > 2;
                prop_assert!(after >= before || present.as_ref().is_some_and(majority));
            }
        }
    }
}
