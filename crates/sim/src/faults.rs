//! What goes wrong, when, and what it may cost.

use tidegate_core::Nanos;

use crate::{Random, START, Weather};

/// Something that goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// From when…
    pub from: Nanos,
    /// …to when.
    pub until: Nanos,
    /// What.
    pub what: Trouble,
}

/// The ways in which things go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// Messages take long, get lost, come twice, or the server is slow.
    Weather(Weather),
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

impl Trouble {
    /// A word for it.
    pub fn kind(&self) -> &'static str {
        match self {
            Trouble::Weather(_) => "weather",
            Trouble::Partition(_) => "partition",
            Trouble::Restart { .. } => "restart",
            Trouble::Failover { .. } => "failover",
            Trouble::TwoMasters { .. } => "two-masters",
            Trouble::ScriptFlush => "flush",
            Trouble::OutOfMemory => "oom",
            Trouble::ServerStep(_) => "server-step",
            Trouble::NodeStep(..) => "node-step",
            Trouble::Suspend { .. } => "suspend",
            Trouble::Crash(_) => "crash",
            Trouble::Leave(_) => "leave",
            Trouble::Poison => "poison",
        }
    }
}

/// Draws faults.
#[derive(Debug)]
pub(crate) struct Faults;

impl Faults {
    /// One to four faults that are over when the world is to be healed. No two overlap: each has to be able to end
    /// what it began, and the oracles to say whose price an excess is.
    pub(crate) fn of(random: &mut Random, nodes: usize, healed: Nanos, weather: Weather) -> Vec<Fault> {
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

fn trouble(random: &mut Random, nodes: usize, weather: Weather) -> Trouble {
    let node = random.between(0, nodes as u64 - 1) as usize;
    match random.between(0, 13) {
        0 => Trouble::Weather(Weather { lost: random.between(10, 400), doubled: 100, ..weather }),
        1 => Trouble::Weather(Weather { delay_more: random.between(5_000, 60_000), ..weather }),
        2 => Trouble::Weather(Weather { work: random.between(1_000, 40_000), ..weather }),
        3 => Trouble::Partition(random.between(1, (1 << nodes) - 1)),
        4 => Trouble::Restart { empty: random.chance(500) },
        5 => Trouble::Failover { lag: Nanos::from_millis(random.between(1, 200)) },
        6 => Trouble::ScriptFlush,
        7 => Trouble::OutOfMemory,
        8 => Trouble::ServerStep(step(random)),
        9 => Trouble::NodeStep(node, step(random)),
        10 => Trouble::Suspend { node, clock_stands: random.chance(500) },
        11 => Trouble::Crash(node),
        12 => Trouble::Leave(node),
        _ => Trouble::Poison,
    }
}

/// A millisecond to two seconds, forward or back.
fn step(random: &mut Random) -> i64 {
    let most = *random.pick(&[20, 200, 2_000]);
    let by = random.between(1, most) as i64 * 1_000_000;
    if random.chance(500) { by } else { -by }
}
