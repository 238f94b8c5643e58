//! A scenario: everything that the seed decides before the run begins.

pub(crate) mod actions;
pub(crate) mod bursts;
mod candidates;
mod failovers;
pub(crate) mod faults;
pub(crate) mod overrides;
pub(crate) mod sabotage;

use std::time::Duration;

use tidegate_core::{Limit, LogQuota, Meter, Nanos, Quota, WindowQuota};
use tidegate_redis::StoreMode;

use crate::scenario::actions::SimKeyAction;
use crate::scenario::bursts::{BurstSpec, PolicyEdit};
use crate::scenario::faults::{Fault, Faults};
use crate::scenario::overrides::OverrideChange;
use crate::scenario::sabotage::Sabotage;
use crate::{NetworkConditions, Random, START};

/// A scenario to be run.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The seed it follows from.
    pub seed: u64,
    /// How many nodes share the limits.
    pub nodes: usize,
    /// How they share them.
    pub mode: StoreMode,
    /// The longest that an answer of the server may take.
    pub deadline: Nanos,
    /// Are keys spread over slots?
    pub has_slots: bool,
    /// How much each node's clock gains, in parts per million.
    pub drifts: Vec<i64>,
    /// The limits; no two have the same numbers.
    pub limits: Vec<LimitSpec>,
    /// What the clients do.
    pub load: ClientLoad,
    /// The network and the server while there is no fault.
    pub conditions: NetworkConditions,
    /// The faults.
    pub faults: Vec<Fault>,
    /// When the last fault has ended.
    pub healed: Nanos,
    /// When it ends.
    pub end: Nanos,
    /// A burst detector, if the policy has one.
    pub bursts: Option<BurstSpec>,
    /// Changes of the policy, in the order of time.
    pub edits: Vec<PolicyEdit>,
    /// Resets and grants, in the order of time.
    pub actions: Vec<SimKeyAction>,
    /// Changes of the overrides, in the order of time.
    pub overrides: Vec<OverrideChange>,
    /// The limits of a draft that every node tries out; none if there is no draft.
    pub candidate: Vec<LimitSpec>,
    /// Does the server refuse what nodes ask for to try out the draft? No seed has that.
    pub refuses_candidate: bool,
    /// A deliberate mistake. No seed has one.
    pub sabotage: Option<Sabotage>,
}

/// A limit of a scenario.
#[derive(Clone, Debug)]
pub struct LimitSpec {
    /// Its name.
    pub name: String,
    /// Its numbers.
    pub limit: Limit,
    /// What it does while the store fails.
    pub on_store_error: ScenarioFallback,
    /// How many keys the clients use. There is one more, for the client that tests the retry promise.
    pub keys: usize,
}

/// What a limit does while the store fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScenarioFallback {
    /// Each node decides by its share.
    Local,
    /// It admits.
    Open,
    /// It denies.
    Closed,
}

impl ScenarioFallback {
    /// The word in a policy.
    pub fn word(self) -> &'static str {
        match self {
            ScenarioFallback::Local => "local",
            ScenarioFallback::Open => "open",
            ScenarioFallback::Closed => "closed",
        }
    }
}

/// What the clients of each node do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientLoad {
    /// How requests are spread over time.
    pub shape: ArrivalShape,
    /// The mean time between two requests at a busy node, in microseconds.
    pub gap: u64,
    /// The largest cost.
    pub cost_max: u32,
    /// How many requests of a thousand charge all limits; the others charge the first.
    pub all_limits_permille: u64,
}

/// How requests are spread over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArrivalShape {
    /// At a constant rate.
    Steady,
    /// Busy and idle in turn.
    Waves {
        /// Busy, in milliseconds.
        on: u64,
        /// Idle, in milliseconds.
        off: u64,
    },
    /// Busy to get leases, then idle until these have nearly expired, then a burst.
    Ambush {
        /// Busy, in milliseconds.
        on: u64,
        /// Idle, in milliseconds.
        off: u64,
        /// The requests of the burst, at each node.
        burst: u64,
    },
}

/// The lives of leases in hybrid mode, in milliseconds.
const LIVES: [u64; 6] = [10, 20, 50, 100, 200, 500];

/// Seeds from this one on are failover scenarios: the server is replaced while denials have long waits.
pub const FIRST_FAILOVER_SEED: u64 = 1 << 32;

/// Seeds from this one on are burst scenarios: users are warned and blocked, policies are edited, and faults overlap.
pub const FIRST_BURST_SEED: u64 = 2 << 32;

/// Seeds from this one on are scenarios in which keys are reset and get tokens, while any fault may happen.
pub const FIRST_ACTION_SEED: u64 = 3 << 32;

/// Seeds from this one on are candidate scenarios: every node tries out a draft of the policy beside it.
pub const FIRST_CANDIDATE_SEED: u64 = 4 << 32;

/// Seeds from this one on are override scenarios: the numbers of a limit are lowered and raised for some keys.
pub const FIRST_OVERRIDE_SEED: u64 = 5 << 32;

impl Scenario {
    /// The scenario of a seed.
    pub fn of(seed: u64) -> Scenario {
        match seed {
            FIRST_OVERRIDE_SEED.. => Scenario::of_overrides(seed),
            FIRST_CANDIDATE_SEED.. => Scenario::of_candidates(seed),
            FIRST_ACTION_SEED.. => Scenario::of_actions(seed),
            FIRST_BURST_SEED.. => Scenario::of_bursts(seed),
            FIRST_FAILOVER_SEED.. => Scenario::of_failovers(seed),
            _ => Scenario::of_faults(seed),
        }
    }

    /// A scenario in which any fault may happen.
    fn of_faults(seed: u64) -> Scenario {
        let mut random = Random::new(seed ^ 0x7469_6465_6761_7465);
        let nodes = random.between(1, 5) as usize;
        let life = *random.pick(&LIVES);
        let is_hybrid = random.chance(650);
        let mode = if is_hybrid {
            StoreMode::Hybrid { life: Duration::from_millis(life) }
        } else {
            StoreMode::Strict
        };
        let limits = limits(&mut random);
        let load = load(&mut random, nodes, &limits[0].limit, life);
        let drifts = (0..nodes).map(|_| drift(&mut random)).collect();
        let conditions = NetworkConditions {
            delay_min: random.between(50, 300),
            delay_more: *random.pick(&[100, 500, 3_000]),
            ..NetworkConditions::FAIR
        };
        let healed = START.saturating_add(Nanos::from_millis(random.between(1_500, 2_500)));
        let is_faulty = random.chance(800);
        let faults = if is_faulty { Faults::of(&mut random, nodes, healed, conditions) } else { Vec::new() };
        Scenario {
            seed,
            nodes,
            mode,
            deadline: Nanos::from_millis(20),
            has_slots: random.chance(150),
            drifts,
            limits,
            load,
            conditions,
            faults,
            healed,
            end: healed.saturating_add(Nanos::from_millis(3_000)),
            bursts: None,
            edits: Vec::new(),
            actions: Vec::new(),
            overrides: Vec::new(),
            candidate: Vec::new(),
            refuses_candidate: false,
            sabotage: None,
        }
    }

    /// For each bucket, the number of its limit: limit by limit, the one for the retry promise last.
    pub fn buckets(&self) -> Vec<usize> {
        let of = |(index, spec): (usize, &LimitSpec)| std::iter::repeat_n(index, spec.keys + 1);
        self.limits.iter().enumerate().flat_map(of).collect()
    }

    /// The limit of each bucket: those of the policy, then those of the candidate.
    pub fn all_buckets(&self) -> impl Iterator<Item = &LimitSpec> {
        let specs = self.limits.iter().chain(&self.candidate);
        specs.flat_map(|spec| std::iter::repeat_n(spec, spec.keys + 1))
    }

    /// The number of a key of a limit among all buckets.
    pub fn bucket(&self, limit: usize, key: usize) -> usize {
        self.limits[..limit].iter().map(|spec| spec.keys + 1).sum::<usize>() + key
    }

    /// The policy of every node. Each limit has a descriptor of its own as its key: a request without it is not
    /// charged.
    pub fn policy(&self) -> String {
        let mut text = String::from("version: 1\nlimits:\n");
        for (index, spec) in self.limits.iter().enumerate() {
            let terms = match spec.limit {
                Limit::Meter(Meter::TokenBucket(quota)) => {
                    let (rate, window) = per_millis(quota.rate().tokens(), quota.rate().nanos());
                    let capacity = quota.capacity();
                    format!(
                        "sustained: {{ rate: {rate}, window: {window}ms }}, burst: {{ capacity: {capacity} }}"
                    )
                }
                Limit::Meter(Meter::SlidingWindow(quota)) => {
                    window_terms("sliding_window", quota.limit(), quota.length())
                }
                Limit::Meter(Meter::FixedWindow(quota)) => {
                    window_terms("fixed_window", quota.limit(), quota.length())
                }
                Limit::Log(quota) => window_terms("sliding_log", quota.limit(), quota.window()),
            };
            let then = spec.on_store_error.word();
            text.push_str(&format!(
                "- {{ name: {}, key: [\"descriptor:{index}\"], on_store_error: {then}, {terms} }}\n",
                spec.name
            ));
        }
        if let Some(BurstSpec { window, threshold, penalty, .. }) = self.bursts {
            let (window, penalty) = (window.as_millis_ceil(), penalty.as_millis_ceil());
            text.push_str(&format!(
                "bursts: [{{ name: burst, key: [user], window: {window}ms, threshold: {threshold}, \
                 penalty: {penalty}ms }}]\n"
            ));
        }
        text
    }

    /// If there are no faults and the clients always want more than the only bucket refills: its tokens a second.
    pub fn is_overloaded(&self) -> Option<u64> {
        let [LimitSpec { limit: Limit::Meter(Meter::TokenBucket(quota)), keys: 1, .. }] = &self.limits[..]
        else {
            return None;
        };
        let rate = quota.rate().tokens() * Nanos::SECOND.get() / quota.rate().nanos();
        let wanted = 1_000_000 * self.nodes as u64 / self.load.gap.max(1);
        let is_steady = self.load.shape == ArrivalShape::Steady && self.load.cost_max == 1;
        (self.is_calm() && is_steady && wanted >= rate * 3 / 2).then_some(rate)
    }

    /// Are there neither faults nor edits nor overrides?
    pub fn is_calm(&self) -> bool {
        self.faults.is_empty() && self.edits.is_empty() && self.overrides.is_empty()
    }
}

/// A rate as tokens in a whole number of milliseconds.
fn per_millis(tokens: u64, nanos: u64) -> (u64, u64) {
    let times = (1..=1_000_000).find(|times| (nanos * times).is_multiple_of(1_000_000));
    let times = times.expect("a million nanoseconds are a millisecond");
    (tokens * times, nanos * times / 1_000_000)
}

fn window_terms(algorithm: &str, limit: u32, window: Nanos) -> String {
    let window = window.as_millis_ceil();
    format!("algorithm: {algorithm}, sustained: {{ rate: {limit}, window: {window}ms }}")
}

fn limits(random: &mut Random) -> Vec<LimitSpec> {
    let many = random.between(1, 3);
    let mut limits: Vec<LimitSpec> = Vec::new();
    for index in 0..many {
        let limit = if index > 0 && random.chance(300) { counting(random) } else { bucket(random) };
        // The limits of a request are distinguished by their numbers.
        if limits.iter().all(|other| other.limit != limit) {
            let keys = random.between(1, 3) as usize;
            let choices = [
                ScenarioFallback::Local,
                ScenarioFallback::Local,
                ScenarioFallback::Open,
                ScenarioFallback::Closed,
            ];
            let on_store_error = *random.pick(&choices);
            limits.push(LimitSpec { name: format!("limit-{index}"), limit, on_store_error, keys });
        }
    }
    limits
}

fn bucket(random: &mut Random) -> Limit {
    let rate = *random.pick(&[7, 50, 100, 333, 1_000, 3_000]);
    let rate = random.between(rate / 2 + 1, rate);
    // It fills in a fiftieth of a second to three seconds.
    let capacity = random.between((rate / 50).max(1), rate * 3).max(2);
    let quota = match random.between(0, 3) {
        0 => Quota::new(rate * 60, Nanos::MINUTE, capacity as u32),
        _ => Quota::new(rate, Nanos::SECOND, capacity as u32),
    };
    quota.expect("small numbers are in range").into()
}

fn counting(random: &mut Random) -> Limit {
    let most = random.between(20, 2_000) as u32;
    let window = Nanos::from_millis(*random.pick(&[200, 500, 1_000]));
    counting_to(random, most, window)
}

/// A limit of so many tokens in a window, by any of the algorithms that count.
fn counting_to(random: &mut Random, most: u32, window: Nanos) -> Limit {
    let windows = || WindowQuota::new(most, window).expect("small numbers are in range");
    match random.between(0, 2) {
        0 => Limit::sliding_window(windows()),
        1 => Limit::fixed_window(windows()),
        _ => LogQuota::new(most, window).expect("small numbers are in range").into(),
    }
}

/// Mostly zero, so that exact results can be checked exactly.
fn drift(random: &mut Random) -> i64 {
    if random.chance(600) { 0 } else { random.between(0, 1_000) as i64 - 500 }
}

/// The most requests a second at all nodes together, so that runs stay short.
const REQUESTS_A_SECOND_MAX: u64 = 1_500;

fn load(random: &mut Random, nodes: usize, first: &Limit, life: u64) -> ClientLoad {
    let rate = match first.meter() {
        Some(Meter::TokenBucket(quota)) => quota.rate().tokens() * Nanos::SECOND.get() / quota.rate().nanos(),
        _ => 100,
    };
    // From half of the limit's rate to eight times that.
    let wanted = (rate * random.between(50, 800) / 100).clamp(20, REQUESTS_A_SECOND_MAX);
    let gap = 1_000_000 * nodes as u64 / wanted;
    let busy = random.between(life / 2 + 5, 4 * life + 50);
    let shape = match random.between(0, 3) {
        0 | 1 => ArrivalShape::Steady,
        2 => ArrivalShape::Waves { on: busy, off: random.between(20, 400) },
        _ => ArrivalShape::Ambush {
            on: busy,
            off: random.between(life / 2, life),
            burst: u64::from(first.capacity()).clamp(10, 150),
        },
    };
    let cost_max =
        if random.chance(600) { 1 } else { random.between(1, (u64::from(first.capacity()) / 4).max(1)) };
    ClientLoad { shape, gap, cost_max: cost_max as u32, all_limits_permille: *random.pick(&[0, 500, 1_000]) }
}

#[cfg(test)]
mod tests;
