//! Burst scenarios: clients that are warned and blocked, policies that are edited meanwhile, and two faults at once.

use std::time::Duration;

use tidegate_core::{Limit, Meter, Nanos, Quota};
use tidegate_redis::StoreMode;

use super::{ArrivalShape, ClientLoad, LimitSpec, Scenario, ScenarioFallback};
use crate::scenario::faults::{Fault, FaultKind, random_fault};
use crate::{Random, START};

/// A burst detector, and the users whose requests it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BurstSpec {
    /// The length of a window.
    pub window: Nanos,
    /// The most requests of a user in a window.
    pub threshold: u32,
    /// How long a warning lasts.
    pub penalty: Nanos,
    /// How many users there are. The first sends most requests.
    pub users: usize,
}

/// A change of the policy. The nodes read it one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PolicyEdit {
    /// When the first node reads it.
    pub at: Nanos,
    /// The detector from then on.
    pub bursts: BurstSpec,
    /// Does the limit have half of its numbers from then on?
    pub is_halved: bool,
}

/// How long after another a node reads an edit.
pub(crate) const EDIT_STAGGER: Nanos = Nanos::from_millis(40);

impl Scenario {
    /// One limit that is large enough for everybody, and a detector that some users overstep.
    pub(super) fn of_bursts(seed: u64) -> Scenario {
        let mut random = Random::new(seed ^ 0x6275_7273_7473);
        let base = Scenario::of_faults(random.between(0, u64::from(u32::MAX)));
        let nodes = base.nodes;
        let life = Duration::from_millis(*random.pick(&[20, 100, 200]));
        let mode = if random.chance(500) { StoreMode::Hybrid { life } } else { StoreMode::Strict };
        let gap = random.between(3_000, 12_000) * nodes as u64;
        let bursts = bursts(&mut random, 1_000_000 * nodes as u64 / gap);
        let healed = START.saturating_add(Nanos::from_millis(random.between(2_500, 3_500)));
        let faults = if random.chance(750) { pairs(&mut random, &base, healed) } else { Vec::new() };
        let edits = if random.chance(500) { edits(&mut random, bursts, healed) } else { Vec::new() };
        // Even numbers, so that halves are exact.
        let quota = Quota::new(2_000, Nanos::SECOND, 2_000).expect("small numbers are in range");
        let on_store_error =
            *random.pick(&[ScenarioFallback::Local, ScenarioFallback::Open, ScenarioFallback::Closed]);
        Scenario {
            seed,
            mode,
            limits: vec![LimitSpec { name: "limit-0".into(), limit: quota.into(), on_store_error, keys: 2 }],
            load: ClientLoad { shape: ArrivalShape::Steady, gap, cost_max: 1, all_limits_permille: 0 },
            faults,
            healed,
            end: healed.saturating_add(Nanos::from_millis(4_000)),
            bursts: Some(bursts),
            edits,
            ..base
        }
    }

    /// The policy from an edit on.
    pub fn edited_policy(&self, edit: &PolicyEdit) -> String {
        let mut edited = Scenario { bursts: Some(edit.bursts), ..self.clone() };
        for spec in edited.limits.iter_mut().filter(|_| edit.is_halved) {
            spec.limit = halved(&spec.limit);
        }
        edited.policy()
    }
}

/// A bucket with half of the rate and half of the capacity. It fills in the same time, so over any time the two together
/// admit no more than the whole one alone.
fn halved(limit: &Limit) -> Limit {
    let Limit::Meter(Meter::TokenBucket(quota)) = limit else { return *limit };
    let rate = quota.rate();
    Quota::new(rate.tokens(), Nanos::new(rate.nanos() * 2), quota.capacity() / 2)
        .expect("half of small numbers is in range")
        .into()
}

/// A detector that the first user oversteps in most worlds, the others in some. `rate` is the requests of all a second.
fn bursts(random: &mut Random, rate: u64) -> BurstSpec {
    let window = *random.pick(&[200, 300, 500]);
    // The first user sends more than half of all requests.
    let often = (rate * window * 600 / 1_000_000).max(2);
    BurstSpec {
        window: Nanos::from_millis(window),
        threshold: random.between(often / 3, often * 3 / 2).max(1) as u32,
        penalty: Nanos::from_millis(*random.pick(&[600, 1_000, 1_500])),
        users: random.between(1, 4) as usize,
    }
}

fn edits(random: &mut Random, bursts: BurstSpec, healed: Nanos) -> Vec<PolicyEdit> {
    let span = healed.saturating_sub(START).get() / 1_000_000;
    let mut edits: Vec<PolicyEdit> = (0..random.between(1, 3))
        .map(|_| PolicyEdit {
            at: START.saturating_add(Nanos::from_millis(random.between(200, span))),
            bursts: BurstSpec {
                window: if random.chance(300) { Nanos::from_millis(400) } else { bursts.window },
                threshold: (bursts.threshold * random.between(5, 20) as u32 / 10).max(1),
                penalty: if random.chance(500) { Nanos::from_millis(800) } else { bursts.penalty },
                ..bursts
            },
            is_halved: random.chance(500),
        })
        .collect();
    edits.sort_by_key(|edit| edit.at);
    edits
}

/// One or two pairs of faults; the faults of a pair overlap.
fn pairs(random: &mut Random, base: &Scenario, healed: Nanos) -> Vec<Fault> {
    let span = healed.saturating_sub(START).get() / 1_000_000;
    let count = random.between(1, 2);
    let mut faults = Vec::new();
    for nth in 0..count {
        let at = |millis: u64| START.saturating_add(Nanos::from_millis(millis));
        let (begin, end) = (span * nth / count + 100, span * (nth + 1) / count - 50);
        let middle = random.between(begin + 100, end - 100);
        let first = random_fault(random, base.nodes, base.conditions);
        let second = loop {
            let other = random_fault(random, base.nodes, base.conditions);
            if concerns(&other) != concerns(&first) {
                break other;
            }
        };
        let mut from_until = || (random.between(begin, middle), random.between(middle + 1, end));
        for what in [first, second] {
            let (from, until) = from_until();
            faults.push(Fault { from: at(from), until: at(until), what });
        }
    }
    faults.sort_by_key(|fault| fault.from);
    faults
}

/// What a fault changes. Two faults that change the same could not both be undone.
fn concerns(fault: &FaultKind) -> &'static str {
    match fault {
        FaultKind::NetworkConditions(_) => "network",
        FaultKind::Partition(_) => "partition",
        FaultKind::Restart { .. } | FaultKind::Failover { .. } | FaultKind::TwoMasters { .. } => "server",
        FaultKind::ScriptFlush => "scripts",
        FaultKind::OutOfMemory => "memory",
        FaultKind::ServerStep(_) => "server clock",
        FaultKind::NodeStep(..) | FaultKind::Suspend { .. } | FaultKind::Crash(_) | FaultKind::Leave(_) => {
            "node"
        }
        FaultKind::Poison => "values",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::FIRST_BURST_SEED;

    fn worlds() -> Vec<Scenario> {
        (FIRST_BURST_SEED..FIRST_BURST_SEED + 300).map(Scenario::of).collect()
    }

    #[test]
    fn faults_overlap_in_every_combination_that_can_be_undone() {
        let mut seen = std::collections::BTreeSet::new();
        for world in worlds() {
            for (nth, fault) in world.faults.iter().enumerate() {
                let overlapping = world.faults[..nth].iter().filter(|other| fault.from < other.until);
                for other in overlapping {
                    assert_ne!(concerns(&fault.what), concerns(&other.what), "{world:?}");
                    seen.insert((fault.what.kind(), other.what.kind()));
                }
                assert!(fault.until <= world.healed, "{world:?}");
            }
        }
        assert!(seen.len() > 60, "{} combinations", seen.len());
        for pair in [("restart", "partition"), ("server-step", "weather")] {
            assert!(seen.contains(&pair) || seen.contains(&(pair.1, pair.0)), "{pair:?}");
        }
    }

    #[test]
    fn policies_are_edited_and_stay_valid() {
        let worlds = worlds();
        let edits = worlds.iter().flat_map(|world| world.edits.iter().map(move |edit| (world, edit)));
        let texts: Vec<String> = edits.map(|(world, edit)| world.edited_policy(edit)).collect();
        assert!(texts.len() > 100, "{} edits", texts.len());
        for text in texts {
            let policy = tidegate::engine::Policy::parse(&text).expect("it is a policy");
            assert_eq!(policy.rules.detectors().len(), 1, "{text}");
        }
        assert!(worlds.iter().any(|world| world.is_calm()), "some have neither faults nor edits");
    }
}
