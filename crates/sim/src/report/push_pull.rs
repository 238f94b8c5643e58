//! What Tidegate does not do: every node has a full bucket of its own; every interval it pushes what it has admitted
//! to a shared counter, pulls the sum, and takes what others have admitted out of its own bucket, never below zero.
//!
//! It is drawn beside the leases to show why. Under load every bucket is near zero when the others' sum comes, so
//! there is nothing to take it from, and each node goes on admitting the whole rate.

use tidegate_core::{Cost, Nanos, Quota, token_bucket};

use super::measure::Point;
use crate::START;
use crate::oracles::Envelope;

struct Node {
    word: u64,
    /// Admitted since the last push.
    unpushed: u64,
    /// The sum of others that it has heard of.
    heard: u64,
    pushed: u64,
    next_sync: Nanos,
}

/// Nodes under a steady load, for so long: each of them is asked in turn, every `gap`.
pub(super) fn measure(quota: &Quota, nodes: usize, interval: Nanos, gap: Nanos, length: Nanos) -> Point {
    let mut sum = 0_u64;
    let mut commands = 0_u64;
    let mut envelope = Envelope::new(quota, Nanos::ZERO);
    let first_sync =
        |node: usize| START.saturating_add(Nanos::new(interval.get() * (node as u64 + 1) / nodes as u64));
    let mut all: Vec<Node> = (0..nodes)
        .map(|node| Node { word: 0, unpushed: 0, heard: 0, pushed: 0, next_sync: first_sync(node) })
        .collect();
    let (mut asked, mut admitted) = (0_u64, 0_u64);
    let mut now = START;
    while now < START.saturating_add(length) {
        for node in &mut all {
            if node.next_sync <= now {
                node.sync(quota, &mut sum, now);
                node.next_sync = node.next_sync.saturating_add(interval);
                // A push and a pull.
                commands += 2;
            }
        }
        let node = &mut all[asked as usize % nodes];
        asked += 1;
        if let Some(next) = token_bucket::charge(node.word, quota, Cost::ONE, now) {
            node.word = next;
            node.unpushed += 1;
            admitted += 1;
            envelope.spend(now, 1);
        }
        now = now.saturating_add(gap);
    }
    Point { excess: envelope.excess(), bound: None, requests: asked, admitted, commands }
}

impl Node {
    fn sync(&mut self, quota: &Quota, sum: &mut u64, now: Nanos) {
        *sum += self.unpushed;
        self.pushed += self.unpushed;
        self.unpushed = 0;
        let others = *sum - self.pushed;
        let news = others - self.heard;
        self.heard = others;
        let left = token_bucket::peek(self.word, quota, Cost::ZERO, now).remaining;
        let taken = Cost::new(left.min(u32::try_from(news).unwrap_or(u32::MAX)));
        if let Some(next) = token_bucket::charge(self.word, quota, taken, now) {
            self.word = next;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_admits_the_rate_once_for_each_node() {
        let quota = Quota::new(50, Nanos::SECOND, 100).expect("in range");
        let gap = Nanos::new(Nanos::SECOND.get() / 400);
        let seconds = 60;
        let point = |nodes| {
            measure(&quota, nodes, Nanos::from_millis(100), gap, Nanos::from_secs(seconds)).admitted / seconds
        };
        assert!((50..=52).contains(&point(1)), "{}", point(1));
        assert!(point(4) > 190, "{}", point(4));
    }
}
