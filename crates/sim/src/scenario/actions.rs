//! Scenarios in which keys are reset and get tokens, as somebody asks one of the nodes to do.

use tidegate_core::Nanos;

use super::{ArrivalShape, ClientLoad, LimitSpec, REQUESTS_A_SECOND_MAX, Scenario, counting_to};
use crate::{Random, START};

/// A reset or a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SimKeyAction {
    /// When somebody asks for it.
    pub at: Nanos,
    /// The node that is asked.
    pub node: usize,
    /// The limit.
    pub limit: usize,
    /// The key of the limit.
    pub key: usize,
    /// The tokens to grant; `None` makes the key unused.
    pub tokens: Option<u32>,
    /// After how long the other nodes forget what they remember about the key.
    pub heard: Nanos,
}

impl Scenario {
    /// Any faults, and resets and grants of the keys that clients use.
    pub(super) fn of_actions(seed: u64) -> Scenario {
        let mut random = Random::new(seed ^ 0x7265_7365_746b_6579);
        let base = Scenario::of_faults(random.between(0, u64::from(u32::MAX)));
        let base = if random.chance(300) { with_full_windows(base, &mut random) } else { base };
        let length = base.end.saturating_sub(START).as_millis_ceil();
        let mut actions: Vec<SimKeyAction> = (0..random.between(3, 20))
            .map(|_| {
                let limit = random.between(0, base.limits.len() as u64 - 1) as usize;
                let spec = &base.limits[limit];
                let capacity = u64::from(spec.limit.capacity());
                let tokens = random.chance(500).then(|| random.between(1, capacity * 2) as u32);
                SimKeyAction {
                    at: START.saturating_add(Nanos::from_millis(random.between(50, length - 50))),
                    node: random.between(0, base.nodes as u64 - 1) as usize,
                    limit,
                    // The first key of a limit is the busiest.
                    key: if random.chance(600) {
                        0
                    } else {
                        random.between(0, spec.keys as u64 - 1) as usize
                    },
                    tokens,
                    heard: Nanos::from_millis(random.between(1, 900)),
                }
            })
            .collect();
        actions.sort_by_key(|action| action.at);
        Scenario { seed, actions, ..base }
    }
}

/// The same with one limit that counts in windows or in a log, which clients exceed: elsewhere these are seldom full, and
/// what is put into them makes no difference.
fn with_full_windows(base: Scenario, random: &mut Random) -> Scenario {
    let (most, window) = (random.between(20, 200), *random.pick(&[200, 500, 1_000]));
    let wanted = (most * 1_000 / window * random.between(2, 4)).min(REQUESTS_A_SECOND_MAX);
    let limit = counting_to(random, most as u32, Nanos::from_millis(window));
    let spec = LimitSpec { limit, keys: 2, ..base.limits[0].clone() };
    let gap = 1_000_000 * base.nodes as u64 / wanted;
    let load = ClientLoad { shape: ArrivalShape::Steady, gap, cost_max: 2, all_limits_permille: 0 };
    Scenario { limits: vec![spec], load, ..base }
}

#[cfg(test)]
mod tests {
    use tidegate_core::Algorithm;
    use tidegate_redis::StoreMode;

    use super::*;
    use crate::scenario::FIRST_ACTION_SEED;

    #[test]
    fn windows_and_logs_are_full_in_some() {
        let worlds: Vec<Scenario> = (FIRST_ACTION_SEED..FIRST_ACTION_SEED + 100).map(Scenario::of).collect();
        for algorithm in [Algorithm::SlidingWindow, Algorithm::FixedWindow, Algorithm::SlidingLog] {
            assert!(
                worlds.iter().any(|world| world.limits[0].limit.algorithm() == algorithm),
                "{algorithm:?}"
            );
        }
    }

    #[test]
    fn keys_are_reset_and_get_tokens_in_both_modes_with_and_without_faults() {
        let worlds: Vec<Scenario> = (FIRST_ACTION_SEED..FIRST_ACTION_SEED + 100).map(Scenario::of).collect();
        for is_reset in [true, false] {
            for is_strict in [true, false] {
                for is_calm in [true, false] {
                    let is_it = |world: &&Scenario| {
                        (world.mode == StoreMode::Strict) == is_strict && world.is_calm() == is_calm
                    };
                    let acts = |world: &Scenario| {
                        world.actions.iter().any(|action| action.tokens.is_none() == is_reset)
                    };
                    assert!(worlds.iter().filter(is_it).any(acts), "{is_reset} {is_strict} {is_calm}");
                }
            }
        }
    }
}
