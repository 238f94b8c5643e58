//! What goes wrong, when, and what it may cost.

use tidegate_core::Nanos;

use crate::{NetworkConditions, Random, START};

/// Something that goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// From when…
    pub from: Nanos,
    /// …to when.
    pub until: Nanos,
    /// What.
    pub what: FaultKind,
}

/// The ways in which things go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// Messages take long, get lost, come twice, or the server is slow.
    NetworkConditions(NetworkConditions),
    /// The nodes whose bit is set do not reach the server.
    Partition(u64),
    /// The server is down, and comes back with what it kept, or with nothing.
    Restart {
        /// Does it come back with nothing?
        empty: bool,
    },
    /// A replica takes over that lacks the last writes.
    Failover {
        /// How old what it knows is.
        lag: Nanos,
    },
    /// A replica takes over that lacks the last writes, while the old master goes on: the nodes whose bit is set stay
    /// with it until the end.
    TwoMasters {
        /// How old what the new one knows is.
        lag: Nanos,
        /// Who stays.
        stay: u64,
    },
    /// The server forgets its scripts.
    ScriptFlush,
    /// The server takes no writes.
    OutOfMemory,
    /// The server's clock is set forward or back.
    ServerStep(i64),
    /// A node's clock is set forward or back.
    NodeStep(usize, i64),
    /// A node stops, and goes on. Its clock may stand still meanwhile.
    Suspend {
        /// Which.
        node: usize,
        /// Does its clock stand still?
        clock_stands: bool,
    },
    /// A node dies, and starts anew.
    Crash(usize),
    /// A node leaves as it should, and starts anew.
    Leave(usize),
    /// Somebody writes nonsense under the keys.
    Poison,
}

/// A word for each kind of trouble.
#[cfg(test)]
pub(crate) const KINDS: &[&str] = &[
    "weather",
    "partition",
    "restart",
    "failover",
    "flush",
    "oom",
    "server-step",
    "node-step",
    "suspend",
    "crash",
    "leave",
    "poison",
];

impl FaultKind {
    /// A word for it.
    pub fn kind(&self) -> &'static str {
        match self {
            FaultKind::NetworkConditions(_) => "weather",
            FaultKind::Partition(_) => "partition",
            FaultKind::Restart { .. } => "restart",
            FaultKind::Failover { .. } => "failover",
            FaultKind::TwoMasters { .. } => "two-masters",
            FaultKind::ScriptFlush => "flush",
            FaultKind::OutOfMemory => "oom",
            FaultKind::ServerStep(_) => "server-step",
            FaultKind::NodeStep(..) => "node-step",
            FaultKind::Suspend { .. } => "suspend",
            FaultKind::Crash(_) => "crash",
            FaultKind::Leave(_) => "leave",
            FaultKind::Poison => "poison",
        }
    }
}

/// Draws faults.
#[derive(Debug)]
pub(crate) struct Faults;

impl Faults {
    /// One to four faults that are over when the world is to be healed. No two overlap: each has to be able to end
    /// what it began, and the oracles to say whose price an excess is.
    pub(crate) fn of(
        random: &mut Random,
        nodes: usize,
        healed: Nanos,
        weather: NetworkConditions,
    ) -> Vec<Fault> {
        let mut faults: Vec<Fault> = Vec::new();
        let span = healed.saturating_sub(START).get() / 1_000_000;
        for _ in 0..random.between(1, 4) {
            let begin = random.between(100, span - 100);
            let length = random.between(20, (span - begin).min(700));
            let at = |millis| START.saturating_add(Nanos::from_millis(millis));
            let what = trouble(random, nodes, weather);
            let fault = Fault { from: at(begin), until: at(begin + length), what };
            if faults.iter().all(|other| other.until < fault.from || fault.until < other.from) {
                faults.push(fault);
            }
        }
        faults.sort_by_key(|fault| fault.from);
        faults
    }
}

fn trouble(random: &mut Random, nodes: usize, weather: NetworkConditions) -> FaultKind {
    let node = random.between(0, nodes as u64 - 1) as usize;
    match random.between(0, 13) {
        0 => FaultKind::NetworkConditions(NetworkConditions {
            lost: random.between(10, 400),
            doubled: 100,
            ..weather
        }),
        1 => FaultKind::NetworkConditions(NetworkConditions {
            delay_more: random.between(5_000, 60_000),
            ..weather
        }),
        2 => {
            FaultKind::NetworkConditions(NetworkConditions { work: random.between(1_000, 40_000), ..weather })
        }
        3 => FaultKind::Partition(random.between(1, (1 << nodes) - 1)),
        4 => FaultKind::Restart { empty: random.chance(500) },
        5 => FaultKind::Failover { lag: Nanos::from_millis(random.between(1, 200)) },
        6 => FaultKind::ScriptFlush,
        7 => FaultKind::OutOfMemory,
        8 => FaultKind::ServerStep(step(random)),
        9 => FaultKind::NodeStep(node, step(random)),
        10 => FaultKind::Suspend { node, clock_stands: random.chance(500) },
        11 => FaultKind::Crash(node),
        12 => FaultKind::Leave(node),
        _ => FaultKind::Poison,
    }
}

/// A millisecond to two seconds, forward or back.
fn step(random: &mut Random) -> i64 {
    let most = *random.pick(&[20, 200, 2_000]);
    let by = random.between(1, most) as i64 * 1_000_000;
    if random.chance(500) { by } else { -by }
}
