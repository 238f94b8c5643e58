//! The faults of a scenario.

use tidegate_core::Nanos;

use crate::{NetworkConditions, Random, START};

/// A fault, and its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// When it begins.
    pub from: Nanos,
    /// When it ends.
    pub until: Nanos,
    /// Its kind.
    pub what: FaultKind,
}

/// The kinds of faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// Messages are slow, lost or duplicated, or the server is slow.
    NetworkConditions(NetworkConditions),
    /// The nodes whose bit is set do not reach the server.
    Partition(u64),
    /// The server is down, and comes back with its state or without.
    Restart {
        /// Does it lose its state?
        empty: bool,
    },
    /// A replica takes over that lacks the last writes.
    Failover {
        /// How old the replica's state is.
        lag: Nanos,
    },
    /// A replica takes over that lacks the last writes, while the old master keeps running: the nodes whose bit is set
    /// stay with the old one until the fault ends.
    TwoMasters {
        /// How old the new master's state is.
        lag: Nanos,
        /// The nodes that stay.
        stay: u64,
    },
    /// The server forgets its scripts.
    ScriptFlush,
    /// The server refuses writes.
    OutOfMemory,
    /// The server's clock is set forward or back.
    ServerStep(i64),
    /// A node's clock is set forward or back.
    NodeStep(usize, i64),
    /// A node is suspended and resumed. Its clock may stand still meanwhile.
    Suspend {
        /// The node.
        node: usize,
        /// Does its clock stand still?
        clock_stands: bool,
    },
    /// A node crashes, and starts again.
    Crash(usize),
    /// A node leaves cleanly, and starts again.
    Leave(usize),
    /// Something writes invalid values under the keys.
    Poison,
}

/// The name of each kind.
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
    /// The name of the kind.
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

/// Draws random faults.
#[derive(Debug)]
pub(crate) struct Faults;

impl Faults {
    /// One to four faults that end before `healed`. No two overlap: each must be able to undo what it began, and an
    /// excess must be attributable to one of them.
    pub(crate) fn of(
        random: &mut Random,
        nodes: usize,
        healed: Nanos,
        conditions: NetworkConditions,
    ) -> Vec<Fault> {
        let mut faults: Vec<Fault> = Vec::new();
        let span = healed.saturating_sub(START).get() / 1_000_000;
        for _ in 0..random.between(1, 4) {
            let begin = random.between(100, span - 100);
            let length = random.between(20, (span - begin).min(700));
            let at = |millis| START.saturating_add(Nanos::from_millis(millis));
            let what = random_fault(random, nodes, conditions);
            let fault = Fault { from: at(begin), until: at(begin + length), what };
            if faults.iter().all(|other| other.until < fault.from || fault.until < other.from) {
                faults.push(fault);
            }
        }
        faults.sort_by_key(|fault| fault.from);
        faults
    }
}

pub(crate) fn random_fault(random: &mut Random, nodes: usize, conditions: NetworkConditions) -> FaultKind {
    let node = random.between(0, nodes as u64 - 1) as usize;
    match random.between(0, 13) {
        0 => FaultKind::NetworkConditions(NetworkConditions {
            lost: random.between(10, 400),
            doubled: 100,
            ..conditions
        }),
        1 => FaultKind::NetworkConditions(NetworkConditions {
            delay_more: random.between(5_000, 60_000),
            ..conditions
        }),
        2 => FaultKind::NetworkConditions(NetworkConditions {
            work: random.between(1_000, 40_000),
            ..conditions
        }),
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
