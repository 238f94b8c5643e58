//! What one bucket on the server holds, at most or at least.
//!
//! Some things the server does are not visible from outside: whether a bucket was forgotten, or was written at all when it
//! was full. So an account has several possible buckets, of which the largest or the smallest counts.

use tidegate_core::Nanos;

use super::naive_bucket::{NaiveBucket, NaiveNumbers};

/// Which of the possible buckets counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AccountBound {
    Most,
    Least,
}

/// The instants of a call, by the server's clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct CallInstants {
    /// When it was executed.
    pub(super) now: Nanos,
    /// If the bucket was found in other numbers: as of when it was brought in those of the call.
    pub(super) migrated_at: Option<Nanos>,
    /// The latest instant that the clock has shown, even if it was set back since: until then buckets were forgotten.
    pub(super) latest: Nanos,
}

/// The numbers of a call, and all that are in force for its limit at its node.
pub(super) type CallNumbers<'n> = (NaiveNumbers, &'n [NaiveNumbers]);

/// The account of a bucket.
#[derive(Clone, Debug)]
pub(super) struct Account {
    bound: AccountBound,
    /// The possible buckets, at most one in the same numbers.
    possible: Vec<NaiveBucket>,
    /// When it was last written.
    written: Nanos,
    /// The numbers in force at the node that wrote it last.
    known: Vec<NaiveNumbers>,
    /// Buckets count in ticks of up to one nanosecond, and round them when their numbers change: by how much the bucket
    /// may differ.
    rounded: i128,
}

impl Account {
    pub(super) fn new(numbers: NaiveNumbers, bound: AccountBound) -> Account {
        let possible = vec![NaiveBucket::unused(numbers)];
        Account { bound, possible, written: Nanos::ZERO, known: Vec::new(), rounded: 0 }
    }

    /// What it holds in these numbers.
    pub(super) fn held(&self, numbers: NaiveNumbers, when: CallInstants) -> i128 {
        let possible = self.opened(numbers, when);
        let held = possible.iter().map(|bucket| bucket.held(when.now));
        let rounding = self.rounding(numbers);
        match self.bound {
            AccountBound::Most => held.max().unwrap_or(0) + rounding,
            AccountBound::Least => held.min().unwrap_or(0) - rounding,
        }
    }

    /// Takes tokens. Returns how much less than that it holds.
    pub(super) fn take(
        &mut self,
        taken: i128,
        (numbers, known): CallNumbers<'_>,
        when: CallInstants,
    ) -> i128 {
        let missing = taken - self.held(numbers, when);
        let opened = self.opened(numbers, when);
        self.note_rounding(numbers);
        self.possible = opened.into_iter().map(|bucket| bucket.less(taken, when.now)).collect();
        self.write(known, when.now);
        missing.max(0)
    }

    /// Puts tokens in. The server does not write a bucket that is full, so it stays in the numbers that it had.
    pub(super) fn give(&mut self, given: i128, (numbers, known): CallNumbers<'_>, when: CallInstants) {
        // Nothing is put into a bucket that has these numbers already: nothing is written.
        let is_same = |bucket: &NaiveBucket| given == 0 && bucket.numbers == numbers;
        if (given == 0 && when.migrated_at.is_none()) || self.possible.iter().all(is_same) {
            return;
        }
        let opened = self.opened(numbers, when);
        // Whoever holds at least this much may be full, and then nothing is written.
        let may_be_full = self.bound == AccountBound::Least && given == 0;
        let is_full = |bucket: &NaiveBucket| bucket.renumbered(numbers, when.now).is_full(when.now);
        let stays = |bucket: &&NaiveBucket| may_be_full || is_same(bucket) || is_full(bucket);
        let mut possible: Vec<NaiveBucket> = self.possible.iter().filter(stays).copied().collect();
        let is_written = possible.is_empty();
        self.note_rounding(numbers);
        possible.extend(opened.into_iter().map(|bucket| bucket.more(given, when.now)));
        self.possible = possible;
        if is_written {
            self.write(known, when.now);
        } else {
            self.known.retain(|before| known.contains(before));
            self.prune(when.now);
        }
    }

    /// It may be unused again.
    pub(super) fn lose(&mut self, numbers: NaiveNumbers) {
        self.possible = vec![NaiveBucket::unused(numbers)];
        self.rounded = 0;
    }

    /// The possible buckets in the numbers of a call.
    fn opened(&self, numbers: NaiveNumbers, when: CallInstants) -> Vec<NaiveBucket> {
        let CallInstants { now, migrated_at, latest } = when;
        // The node brings the state in other numbers as of when it found it, and the server takes that if nobody has
        // written it since. A clock that was set back says nothing about what came first.
        let written = if self.written <= now { self.written } else { Nanos::ZERO };
        let earlier = migrated_at.map(|at| at.max(written)).filter(|&at| at < now);
        let instants = [Some(now), earlier];
        let instants = instants.iter().flatten();
        let mut opened: Vec<NaiveBucket> = instants
            .flat_map(|&at| self.possible.iter().map(move |bucket| bucket.renumbered(numbers, at)))
            .collect();
        if self.bound == AccountBound::Most && self.may_be_forgotten(latest) {
            opened.push(NaiveBucket::unused(numbers));
        }
        opened
    }

    /// A bucket that is full in all numbers that were in force when it was last written may be forgotten, and a forgotten
    /// one is full in whatever numbers come next.
    fn may_be_forgotten(&self, latest: Nanos) -> bool {
        let is_full = |bucket: &NaiveBucket| {
            bucket.is_full(latest)
                && self.known.iter().all(|&known| bucket.renumbered(known, latest).is_full(latest))
        };
        self.possible.iter().any(is_full)
    }

    fn rounding(&self, numbers: NaiveNumbers) -> i128 {
        self.rounded + numbers.refill(Nanos::new(1))
    }

    /// Two nanoseconds' worth whenever the numbers change: one for the instant, and one for the tokens.
    fn note_rounding(&mut self, numbers: NaiveNumbers) {
        let others = self.possible.iter().filter(|bucket| bucket.numbers != numbers);
        let coarsest = others.map(|bucket| bucket.numbers.refill(Nanos::new(2))).max();
        if let Some(coarsest) = coarsest {
            self.rounded += coarsest.max(numbers.refill(Nanos::new(2)));
        }
    }

    fn write(&mut self, known: &[NaiveNumbers], now: Nanos) {
        self.prune(now);
        self.known = known.to_vec();
        self.written = now;
    }

    /// Keeps the largest, or the smallest, of the buckets in the same numbers.
    fn prune(&mut self, now: Nanos) {
        let mut kept: Vec<NaiveBucket> = Vec::new();
        for bucket in std::mem::take(&mut self.possible) {
            let Some(same) = kept.iter_mut().find(|same| same.numbers == bucket.numbers) else {
                kept.push(bucket);
                continue;
            };
            // Of two full ones, the one that has been full for longer is the larger one.
            let rank = |bucket: &NaiveBucket| (bucket.held(now), std::cmp::Reverse(bucket.at));
            let is_larger = rank(&bucket) > rank(same);
            if is_larger == (self.bound == AccountBound::Most) {
                *same = bucket;
            }
        }
        self.possible = kept;
    }
}
