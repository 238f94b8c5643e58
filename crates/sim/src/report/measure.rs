//! The measurements of the page: the same load on one bucket, by each way of sharing it, over node counts and lease
//! lives.

use std::time::Duration;

use tidegate_core::{Limit, Nanos, Quota};
use tidegate_redis::StoreMode;

use super::push_pull;
use crate::{
    ArrivalShape, ClientLoad, LimitSpec, NetworkConditions, START, Scenario, ScenarioFallback, run_scenario,
};

/// The node counts of the page.
pub const NODES: [usize; 5] = [1, 2, 4, 8, 16];

/// The lease lives of the page, in milliseconds; for push and pull, the intervals.
pub const LIVES: [u64; 7] = [10, 20, 50, 100, 200, 500, 1_000];

/// Tokens a second, and the capacity.
pub(super) const RATE: u64 = 400;
pub(super) const CAPACITY: u32 = 200;

/// The demand, in multiples of the rate.
const DEMAND: u64 = 5;

const LENGTH: Nanos = Nanos::from_secs(6);

/// The result of one way of sharing a bucket.
#[derive(Clone, Copy, Debug, Default)]
pub struct Point {
    /// The worst excess over *B + R·t*, in tokens.
    pub excess: u64,
    /// The published bound, if there is one.
    pub bound: Option<u64>,
    /// How many requests there were under steady load.
    pub requests: u64,
    /// How many of them were admitted.
    pub admitted: u64,
    /// How many commands the server received for them.
    pub commands: u64,
}

impl Point {
    /// Commands per thousand decisions.
    pub fn commands_per_thousand(&self) -> f64 {
        1_000.0 * self.commands as f64 / self.requests.max(1) as f64
    }

    /// The admitted requests, in multiples of what the rate allows.
    pub fn times_the_rate(&self) -> f64 {
        let allowed = RATE * LENGTH.get() / Nanos::SECOND.get();
        self.admitted as f64 / allowed as f64
    }
}

/// All measurements of the page.
#[derive(Clone, Debug, Default)]
pub struct ReportData {
    /// By [`NODES`].
    pub strict: Vec<Point>,
    /// By [`NODES`], then by [`LIVES`].
    pub hybrid: Vec<Vec<Point>>,
    /// By [`NODES`], then by [`LIVES`].
    pub push_pull: Vec<Vec<Point>>,
}

/// Runs all measurements; takes some seconds.
pub fn measure() -> ReportData {
    let gap = Nanos::new(Nanos::SECOND.get() / (RATE * DEMAND));
    let hybrid = |nodes| {
        let point = |life| shared(nodes, StoreMode::Hybrid { life: Duration::from_millis(life) }, life);
        LIVES.iter().map(|&life| point(life)).collect()
    };
    let sketch = |nodes| {
        let point = |millis| push_pull::measure(&quota(), nodes, Nanos::from_millis(millis), gap, LENGTH);
        LIVES.iter().map(|&millis| point(millis)).collect()
    };
    ReportData {
        strict: NODES.iter().map(|&nodes| shared(nodes, StoreMode::Strict, 100)).collect(),
        hybrid: NODES.iter().map(|&nodes| hybrid(nodes)).collect(),
        push_pull: NODES.iter().map(|&nodes| sketch(nodes)).collect(),
    }
}

fn quota() -> Quota {
    Quota::new(RATE, Nanos::SECOND, CAPACITY).expect("small numbers are in range")
}

/// The excess is the worst of a steady load and an ambush; the other numbers are of the steady load.
fn shared(nodes: usize, mode: StoreMode, life: u64) -> Point {
    // The worst case for leases: a busy phase with a nearly full bucket, so that much is leased; then a pause in which
    // the bucket fills beside the leases; then a burst at all nodes.
    let burst = u64::from(CAPACITY) * 2 / nodes as u64 + 1;
    let ambush = ArrivalShape::Ambush { on: 2 * life + 50, off: life * 6 / 10, burst };
    let steady = run_scenario(scenario(nodes, mode, ArrivalShape::Steady, RATE * DEMAND), false);
    let ambush = run_scenario(scenario(nodes, mode, ambush, RATE * 3 / 4), false);
    Point {
        excess: steady.excess.0.max(ambush.excess.0),
        bound: Some(steady.excess.1.max(ambush.excess.1)),
        requests: steady.requests,
        admitted: steady.admitted,
        commands: steady.commands,
    }
}

fn scenario(nodes: usize, mode: StoreMode, shape: ArrivalShape, demand: u64) -> Scenario {
    let limit = LimitSpec {
        name: "limit-0".into(),
        limit: Limit::token_bucket(quota()),
        on_store_error: ScenarioFallback::Closed,
        keys: 1,
    };
    let end = START.saturating_add(LENGTH);
    Scenario {
        seed: 1,
        nodes,
        mode,
        deadline: Nanos::from_millis(20),
        has_slots: false,
        drifts: vec![0; nodes],
        limits: vec![limit],
        load: ClientLoad {
            shape,
            gap: 1_000_000 * nodes as u64 / demand,
            cost_max: 1,
            all_limits_permille: 0,
        },
        conditions: NetworkConditions::FAIR,
        faults: Vec::new(),
        healed: end,
        end,
        bursts: None,
        edits: Vec::new(),
        actions: Vec::new(),
        overrides: Vec::new(),
        candidate: Vec::new(),
        refuses_candidate: false,
        sabotage: None,
    }
}
