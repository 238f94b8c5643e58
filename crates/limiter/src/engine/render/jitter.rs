//! The whole seconds of `Retry-After`, with jitter, so that clients that were denied together do not all retry
//! together.

use std::hash::Hasher;

use siphasher::sip::SipHasher13;
use tidegate_core::Nanos;

/// The most jitter, in millionths of the wait: half of it.
pub const JITTER_MAX: u32 = 500_000;

/// The seconds for the header: the wait rounded up, at least one, plus a jitter of zero to `jitter_millionths`
/// of the wait, in whole seconds.
///
/// The same identity always gets the same result, and jitter only adds: after that many seconds the client is
/// admitted. A jitter above [`JITTER_MAX`] is read as that; a wait too short for a whole second of jitter gets
/// none.
pub fn retry_after_secs(retry_after: Nanos, jitter_millionths: u32, identity: u64) -> u64 {
    let least = retry_after.as_secs_ceil().max(1);
    if jitter_millionths == 0 {
        return least;
    }
    let jitter = u128::from(jitter_millionths.min(JITTER_MAX));
    let most_added = u128::from(retry_after.get()) * jitter / (1_000_000 * u128::from(Nanos::SECOND.get()));
    // The identity, read as a fraction of 2⁶⁴, selects one of the possible seconds.
    let added = (u128::from(identity) * (most_added + 1)) >> 64;
    least + u64::try_from(added).expect("half of a span in seconds fits")
}

/// A hash of the client's identity, the same on every node and in every run. It spreads retries and protects
/// nothing, so it needs no secret.
pub fn identity<'a>(parts: impl Iterator<Item = &'a [u8]>) -> u64 {
    let mut hasher = SipHasher13::new();
    for part in parts {
        // The lengths make `ab, c` and `a, bc` different identities.
        hasher.write(&(part.len() as u64).to_le_bytes());
        hasher.write(part);
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(parts: &[&str]) -> u64 {
        identity(parts.iter().map(|part| part.as_bytes()))
    }

    #[test]
    fn without_jitter_the_wait_is_rounded_up_to_at_least_a_second() {
        for (wait, secs) in [(0, 1), (1, 1), (999, 1), (1_000, 1), (1_001, 2), (60_000, 60)] {
            assert_eq!(retry_after_secs(Nanos::from_millis(wait), 0, u64::MAX), secs, "{wait} ms");
        }
    }

    #[test]
    fn jitter_reaches_from_nothing_to_its_share() {
        let wait = Nanos::from_secs(100);
        assert_eq!(retry_after_secs(wait, 500_000, 0), 100);
        assert_eq!(retry_after_secs(wait, 500_000, u64::MAX), 150);
        assert_eq!(retry_after_secs(wait, 100_000, u64::MAX), 110);
        assert_eq!(retry_after_secs(wait, u32::MAX, u64::MAX), 150, "half is the most");
        assert_eq!(retry_after_secs(Nanos::MAX, 500_000, u64::MAX), 18_446_744_074 + 9_223_372_036);
    }

    #[test]
    fn identities_are_spread_over_all_seconds() {
        let mut seen = [0_u32; 6];
        for user in 0..6_000 {
            let secs = retry_after_secs(Nanos::from_secs(10), 500_000, of(&["user", &user.to_string()]));
            seen[secs as usize - 10] += 1;
        }
        assert!(seen.iter().all(|count| (850..=1_150).contains(count)), "{seen:?}");
    }

    #[test]
    fn an_identity_is_the_same_everywhere_and_knows_its_parts_apart() {
        assert_eq!(of(&["user", "42"]), PINNED);
        assert_ne!(of(&["ab", "c"]), of(&["a", "bc"]));
        assert_ne!(of(&["a"]), of(&["a", ""]));
    }

    /// Nodes of two versions must agree, so this number may never change. It was
    /// worked out by a second implementation of SipHash-1-3.
    const PINNED: u64 = 13_531_692_296_918_810_569;

    proptest! {
        #[test]
        fn jitter_only_adds_and_at_most_its_share(wait: u64, jitter in 0..=JITTER_MAX, identity: u64) {
            let plain = retry_after_secs(Nanos::new(wait), 0, identity);
            let spread = retry_after_secs(Nanos::new(wait), jitter, identity);
            prop_assert!(spread >= plain);
            let added_nanos = u128::from(spread - plain) * 1_000_000_000;
            prop_assert!(added_nanos * 1_000_000 <= u128::from(wait) * u128::from(jitter));
            prop_assert_eq!(spread, retry_after_secs(Nanos::new(wait), jitter, identity));
        }
    }
}
