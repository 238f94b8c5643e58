//! Override scenarios: the numbers of a limit are lowered and raised for some keys, and the nodes learn of it one after the
//! other.

use std::time::Duration;

use tidegate_core::{Nanos, Quota};
use tidegate_redis::StoreMode;

use super::{ArrivalShape, ClientLoad, LimitSpec, Scenario, ScenarioFallback};
use crate::{Random, START};

/// A change of the overrides. Each multiplies the rate and the burst of the limit by so many hundredths, for the busiest
/// key or for all others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OverrideChange {
    /// When the first node learns of it.
    pub at: Nanos,
    /// The multiplier for the busiest key.
    pub busiest: Option<u16>,
    /// The multiplier for all other keys.
    pub others: Option<u16>,
}

impl OverrideChange {
    /// The same with a tenth more in every override.
    pub(crate) fn raised_by_a_tenth(&self) -> OverrideChange {
        let raised = |times: Option<u16>| times.map(|times| times + (times / 10).max(1));
        OverrideChange { at: self.at, busiest: raised(self.busiest), others: raised(self.others) }
    }
}

impl Scenario {
    /// A quota in the largest numbers of its overrides; as it is if none is larger.
    pub(crate) fn raised(&self, quota: &Quota) -> Quota {
        let multipliers = self.overrides.iter().flat_map(|change| [change.busiest, change.others]).flatten();
        let highest = u64::from(multipliers.max().unwrap_or(100).max(100));
        if highest == 100 {
            return *quota;
        }
        let (tokens, nanos) = (quota.rate().tokens() * highest, Nanos::new(quota.rate().nanos() * 100));
        let capacity = u64::from(quota.capacity()) * highest / 100;
        Quota::new(tokens, nanos, capacity as u32).expect("ten times small numbers are in range")
    }

    /// The lowest multiplier of its overrides, in hundredths; 100 if none is lower.
    pub(crate) fn lowest_override(&self) -> u16 {
        let multipliers = self.overrides.iter().flat_map(|change| [change.busiest, change.others]).flatten();
        multipliers.min().unwrap_or(100).min(100)
    }

    /// One limit that the clients exceed, with overrides that come and go.
    pub(super) fn of_overrides(seed: u64) -> Scenario {
        let mut random = Random::new(seed ^ 0x6f76_6572_7269_6465);
        let base = Scenario::of_faults(random.between(0, u64::from(u32::MAX)));
        let life = Duration::from_millis(*random.pick(&[20, 100, 200]));
        let mode = if random.chance(500) { StoreMode::Hybrid { life } } else { StoreMode::Strict };
        let rate = *random.pick(&[40, 200, 1_000]);
        // Large enough that a hundredth is exact.
        let capacity = (rate * random.between(5, 25) / 10).next_multiple_of(100) as u32;
        let quota = Quota::new(rate, Nanos::SECOND, capacity).expect("small numbers are in range");
        let on_store_error = *random.pick(&[ScenarioFallback::Local, ScenarioFallback::Closed]);
        // More than most overrides allow, and less than the largest.
        let wanted = (rate * random.between(2, 6)).min(2_000);
        let gap = 1_000_000 * base.nodes as u64 / wanted;
        let span = base.healed.saturating_sub(START).get() / 1_000_000 + 1_500;
        let choices = [
            None,
            None,
            Some(1),
            Some(10),
            Some(50),
            Some(100),
            Some(150),
            Some(250),
            Some(400),
            Some(1_000),
        ];
        let mut overrides: Vec<OverrideChange> = (0..random.between(2, 8))
            .map(|_| OverrideChange {
                at: START.saturating_add(Nanos::from_millis(random.between(100, span))),
                busiest: *random.pick(&choices),
                others: *random.pick(&choices),
            })
            .collect();
        overrides.sort_by_key(|change| change.at);
        Scenario {
            seed,
            mode,
            limits: vec![LimitSpec { name: "limit-0".into(), limit: quota.into(), on_store_error, keys: 2 }],
            load: ClientLoad { shape: ArrivalShape::Steady, gap, cost_max: 2, all_limits_permille: 0 },
            overrides,
            ..base
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::FIRST_OVERRIDE_SEED;

    #[test]
    fn numbers_are_lowered_and_raised_in_every_mode() {
        let worlds: Vec<Scenario> =
            (FIRST_OVERRIDE_SEED..FIRST_OVERRIDE_SEED + 100).map(Scenario::of).collect();
        let changes = || worlds.iter().flat_map(|world| &world.overrides);
        assert!(changes().any(|change| change.busiest.is_some() && change.others.is_none()));
        assert!(changes().any(|change| change.busiest.is_none() && change.others.is_some()));
        let is_raised = |world: &Scenario| {
            world.overrides.windows(2).any(|pair| pair[0].busiest < Some(100) && pair[1].busiest > Some(100))
        };
        let is_lowered = |world: &Scenario| {
            world.overrides.windows(2).any(|pair| pair[0].busiest > Some(100) && pair[1].busiest < Some(100))
        };
        for is_strict in [true, false] {
            let of_mode = || worlds.iter().filter(|world| (world.mode == StoreMode::Strict) == is_strict);
            assert!(of_mode().any(is_raised) && of_mode().any(is_lowered), "strict: {is_strict}");
        }
        assert!(worlds.iter().any(|world| world.mode == StoreMode::Strict && world.faults.is_empty()));
        assert!(worlds.iter().any(|world| world.mode != StoreMode::Strict && !world.faults.is_empty()));
    }
}
