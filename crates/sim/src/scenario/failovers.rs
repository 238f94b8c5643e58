//! Failover scenarios: the server is replaced while denials have waits of hours.

use tidegate_core::{Limit, Nanos, Quota};

use super::{ArrivalShape, ClientLoad, LimitSpec, Scenario, ScenarioFallback, bucket};
use crate::scenario::faults::{Fault, FaultKind};
use crate::{Random, START};

/// How long these runs go on after the last fault: longer than nodes remember denials.
const AFTERWARDS: Nanos = Nanos::from_secs(8);

impl Scenario {
    /// One limit with few tokens, requested all the time, on a server that loses its state, lags, or has two masters.
    pub(super) fn of_failovers(seed: u64) -> Scenario {
        let mut random = Random::new(seed ^ 0x6661_696c_6f76_6572);
        let base = Scenario::of_faults(random.between(0, u64::from(u32::MAX)));
        let nodes = base.nodes;
        let limit = if random.chance(600) { slow(&mut random) } else { bucket(&mut random) };
        let choices = [ScenarioFallback::Local, ScenarioFallback::Open, ScenarioFallback::Closed];
        let on_store_error = *random.pick(&choices);
        let keys = random.between(1, 2) as usize;
        let gap = random.between(5_000, 60_000) * nodes as u64;
        let faults = faults(&mut random, nodes);
        let healed = faults.last().map_or(START, |fault| fault.until);
        Scenario {
            seed,
            limits: vec![LimitSpec { name: "limit-0".into(), limit, on_store_error, keys }],
            load: ClientLoad { shape: ArrivalShape::Steady, gap, cost_max: 1, all_limits_permille: 0 },
            has_slots: false,
            faults,
            healed,
            end: healed.saturating_add(AFTERWARDS),
            ..base
        }
    }
}

/// A bucket that refills one token in a minute to a day.
fn slow(random: &mut Random) -> Limit {
    let per_token = Nanos::from_secs(*random.pick(&[60, 3_600, 86_400]));
    let capacity = random.between(3, 40) as u32;
    Quota::new(1, per_token, capacity).expect("small numbers are in range").into()
}

/// Two faults, the second while nodes may remember denials from before the first.
fn faults(random: &mut Random, nodes: usize) -> Vec<Fault> {
    let mut begin = START;
    let draw = |_| {
        let from = begin.saturating_add(Nanos::from_millis(random.between(300, 2_500)));
        let until = from.saturating_add(Nanos::from_millis(random.between(20, 1_500)));
        let lag = Nanos::from_millis(random.between(1, 200));
        let what = match random.between(0, 2) {
            0 => FaultKind::Restart { empty: true },
            1 => FaultKind::Failover { lag },
            _ => FaultKind::TwoMasters { lag, stay: random.between(1, (1 << nodes) - 1) },
        };
        begin = until;
        Fault { from, until, what }
    };
    (0..2).map(draw).collect()
}
