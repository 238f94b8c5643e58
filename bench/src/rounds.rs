//! Runs all contenders in turn, round after round, so that other load on the machine affects all of them alike.

use std::fmt;
use std::ops::AddAssign;
use std::sync::Barrier;
use std::thread;

use serde::Serialize;

use crate::keys::{BLOCK, KeyBlock};
use crate::statistics::{median, median_ratio};
use crate::stopwatch::Stopwatch;

/// The decision that every call of a case must get.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Expected {
    Allowing,
    Denying,
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Expected::Allowing => "allowing",
            Expected::Denying => "denying",
        })
    }
}

/// How many decisions were allowed and denied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct AnswerCounts {
    pub(crate) allowed: u64,
    pub(crate) denied: u64,
}

impl AnswerCounts {
    #[inline]
    pub(crate) fn count(&mut self, allowed: bool) {
        self.allowed += u64::from(allowed);
        self.denied += u64::from(!allowed);
    }

    /// Whether every decision was the expected one.
    pub(crate) fn all_are(&self, expected: Expected) -> bool {
        match expected {
            Expected::Allowing => self.denied == 0,
            Expected::Denying => self.allowed == 0,
        }
    }
}

impl AddAssign for AnswerCounts {
    fn add_assign(&mut self, other: AnswerCounts) {
        self.allowed += other.allowed;
        self.denied += other.denied;
    }
}

/// The work of one thread in one round.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WorkSlice<'a> {
    /// The keys to use; empty for a limiter without keys.
    indexes: &'a [u32],
    ops: usize,
    /// Whether this is the only thread.
    pub(crate) alone: bool,
}

impl WorkSlice<'_> {
    /// Calls a limiter without keys.
    #[inline]
    pub(crate) fn each_time(&self, mut ask: impl FnMut() -> bool) -> AnswerCounts {
        let mut counts = AnswerCounts::default();
        for _ in 0..self.ops {
            counts.count(ask());
        }
        counts
    }

    /// Calls a limiter for each key.
    #[inline]
    pub(crate) fn each_key(&self, mut ask: impl FnMut(&String) -> bool) -> AnswerCounts {
        let mut counts = AnswerCounts::default();
        self.each_block(|keys| keys.iter().for_each(|key| counts.count(ask(key))));
        counts
    }

    /// Writes the keys block by block and calls a limiter for each block.
    #[inline]
    pub(crate) fn each_block(&self, mut ask: impl FnMut(&[String])) {
        let mut block = KeyBlock::new();
        for indexes in self.indexes.chunks(BLOCK) {
            ask(block.write(indexes));
        }
    }

    /// Uses the index of each key instead of the key.
    #[inline]
    pub(crate) fn each_index(&self, mut ask: impl FnMut(u32) -> bool) -> AnswerCounts {
        let mut counts = AnswerCounts::default();
        for &index in self.indexes {
            counts.count(ask(index));
        }
        counts
    }
}

/// A limiter that is measured.
pub(crate) struct Contender<'a> {
    pub(crate) name: &'static str,
    /// Whether its decisions are exact, and so must be the expected ones.
    pub(crate) exact: bool,
    run: Box<dyn Fn(&WorkSlice<'_>) -> AnswerCounts + Sync + 'a>,
}

impl<'a> Contender<'a> {
    pub(crate) fn new(
        name: &'static str,
        run: impl Fn(&WorkSlice<'_>) -> AnswerCounts + Sync + 'a,
    ) -> Contender<'a> {
        Contender { name, exact: true, run: Box::new(run) }
    }

    /// Marks a contender whose decisions are estimates.
    pub(crate) fn estimating(self) -> Contender<'a> {
        Contender { exact: false, ..self }
    }
}

/// How a case is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RoundPlan<'a> {
    pub(crate) rounds: usize,
    pub(crate) threads: usize,
    /// Timed operations of each thread in a round.
    pub(crate) ops: usize,
    /// Untimed operations before them: they bring the contender's memory back into the cache, from
    /// which the previous contender has evicted it.
    pub(crate) warm_up: usize,
    /// The keys for each thread; none for a single bucket.
    pub(crate) sequences: &'a [Vec<u32>],
}

impl RoundPlan<'_> {
    /// The work of a thread in a round: the warm-up, then the timed part. Rounds use different keys, or the
    /// CPU's branch predictors and prefetchers would learn the sequence.
    fn shares(&self, thread: usize, round: usize) -> [WorkSlice<'_>; 2] {
        let alone = self.threads == 1;
        let Some(sequence) = self.sequences.get(thread) else {
            return [self.warm_up, self.ops].map(|ops| WorkSlice { indexes: &[], ops, alone });
        };
        let length = (self.warm_up + self.ops).min(sequence.len());
        let start = (round * length) % (sequence.len() - length + 1);
        let (warm_up, timed) = sequence[start..start + length].split_at(self.warm_up.min(length));
        [warm_up, timed].map(|indexes| WorkSlice { indexes, ops: indexes.len(), alone })
    }
}

/// The results of one contender, round by round.
#[derive(Debug)]
pub(crate) struct ContenderRounds {
    pub(crate) name: &'static str,
    pub(crate) exact: bool,
    pub(crate) counts: AnswerCounts,
    /// Nanoseconds per operation and thread, round by round.
    rounds: Vec<f64>,
}

impl ContenderRounds {
    pub(crate) fn median_nanos(&self) -> f64 {
        median(&self.rounds).unwrap_or(f64::NAN)
    }

    /// Its time as a multiple of `other`'s.
    pub(crate) fn times(&self, other: &ContenderRounds) -> Option<f64> {
        median_ratio(&self.rounds, &other.rounds)
    }
}

/// Measures all contenders by the plan.
pub(crate) fn measure(contenders: &[&Contender<'_>], plan: &RoundPlan<'_>) -> Vec<ContenderRounds> {
    let lane = |c: &&Contender<'_>| ContenderRounds {
        name: c.name,
        exact: c.exact,
        counts: AnswerCounts::default(),
        rounds: Vec::new(),
    };
    let mut lanes: Vec<ContenderRounds> = contenders.iter().map(lane).collect();
    for round in 0..plan.rounds {
        // Each round begins with another contender, so that none always follows the same one.
        for turn in 0..contenders.len() {
            let index = (round + turn) % contenders.len();
            let (nanos, counts) = run_once(contenders[index], plan, round);
            lanes[index].rounds.push(nanos);
            lanes[index].counts += counts;
        }
    }
    lanes
}

/// Nanoseconds per operation of the slowest thread, and the decisions.
fn run_once(contender: &Contender<'_>, plan: &RoundPlan<'_>, round: usize) -> (f64, AnswerCounts) {
    let ready = Barrier::new(plan.threads);
    let work = |thread: usize| {
        let [warm_up, timed] = plan.shares(thread, round);
        (contender.run)(&warm_up);
        ready.wait();
        let watch = Stopwatch::start();
        let counts = (contender.run)(&timed);
        (watch.nanos() / timed.ops.max(1) as f64, counts)
    };
    let mut slowest = 0.0_f64;
    let mut total = AnswerCounts::default();
    thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = (0..plan.threads).map(|thread| scope.spawn(move || work(thread))).collect();
        for thread in threads {
            let (nanos, counts) = thread.join().expect("a contender does not panic");
            slowest = slowest.max(nanos);
            total += counts;
        }
    });
    (slowest, total)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(threads: usize, sequences: &[Vec<u32>]) -> RoundPlan<'_> {
        RoundPlan { rounds: 3, threads, ops: 40, warm_up: 10, sequences }
    }

    #[test]
    fn every_contender_runs_in_every_round_on_every_thread() {
        let sequences = [vec![1; 200], vec![2; 200]];
        let odd = Contender::new("odd", |share| share.each_index(|index| index % 2 == 1));
        let none = Contender::new("none", |share| share.each_key(|_| false));
        let lanes = measure(&[&odd, &none], &plan(2, &sequences));
        assert_eq!(lanes[0].counts, AnswerCounts { allowed: 120, denied: 120 });
        assert_eq!(lanes[1].counts, AnswerCounts { allowed: 0, denied: 240 });
        assert!(lanes.iter().all(|lane| lane.rounds.len() == 3 && lane.median_nanos() > 0.0));
        assert!(lanes[0].times(&lanes[1]).is_some());
    }

    #[test]
    fn keys_come_in_the_order_of_the_sequence() {
        let sequence = [(0..100).collect::<Vec<u32>>()];
        let plan = plan(1, &sequence);
        let [warm_up, timed] = plan.shares(0, 0);
        let mut seen = Vec::new();
        for share in [warm_up, timed] {
            share.each_key(|key| {
                seen.push(key.clone());
                true
            });
        }
        assert!(seen.into_iter().eq((0..50).map(crate::keys::key)));
    }

    #[test]
    fn rounds_differ_and_short_sequences_do() {
        let sequence = [(0..120).collect::<Vec<u32>>()];
        let starts: Vec<u32> =
            (0..3).map(|round| plan(1, &sequence).shares(0, round)[0].indexes[0]).collect();
        assert_eq!(starts, [0, 50, 29]);
        let short = [vec![5; 20]];
        assert_eq!(plan(1, &short).shares(0, 4).map(|share| share.ops), [10, 10]);
    }

    #[test]
    fn without_keys_there_is_still_something_to_do() {
        let counts = plan(1, &[]).shares(0, 4).map(|share| share.each_time(|| true).allowed);
        assert_eq!(counts, [10, 40]);
    }

    #[test]
    fn unexpected_answers_are_noticed() {
        let mut counts = AnswerCounts::default();
        counts.count(true);
        assert!(counts.all_are(Expected::Allowing) && !counts.all_are(Expected::Denying));
        counts.count(false);
        assert!(!counts.all_are(Expected::Allowing) && !counts.all_are(Expected::Denying));
    }
}
