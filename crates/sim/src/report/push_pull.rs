//! A design that Tidegate does not use: every node has a full bucket of its own. In every interval it pushes what it
//! has admitted to a shared counter, pulls the sum, and removes what the others have admitted from its own bucket,
//! never below zero.
//!
//! The page shows it beside leases to explain the choice. Under load every bucket is nearly empty when the sum of the
//! others arrives, so nothing can be removed, and each node goes on admitting the whole rate.

use tidegate_core::{Cost, Nanos, Quota, token_bucket};

use super::measure::Point;
use crate::START;
use crate::invariants::Envelope;

struct Node {
    word: u64,
    /// Admitted since the last push.
    unpushed: u64,
    /// The sum of the others that it has pulled.
    pulled: u64,
    pushed: u64,
    next_sync: Nanos,
}

/// Runs nodes under a steady load for `length`: a request every `gap`, to each node in turn.
pub(super) fn measure(quota: &Quota, nodes: usize, interval: Nanos, gap: Nanos, length: Nanos) -> Point {
    let mut sum = 0_u64;
    let mut commands = 0_u64;
    let mut envelope = Envelope::new(quota, Nanos::ZERO);
    let first_sync =
        |node: usize| START.saturating_add(Nanos::new(interval.get() * (node as u64 + 1) / nodes as u64));
    let mut all: Vec<Node> = (0..nodes)
        .map(|node| Node { word: 0, unpushed: 0, pulled: 0, pushed: 0, next_sync: first_sync(node) })
        .collect();
    let (mut requests, mut admitted) = (0_u64, 0_u64);
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
        let node = &mut all[requests as usize % nodes];
        requests += 1;
        if let Some(next) = token_bucket::charge(node.word, quota, Cost::ONE, now) {
            node.word = next;
            node.unpushed += 1;
            admitted += 1;
            envelope.spend(now, 1);
        }
        now = now.saturating_add(gap);
    }
    Point { excess: envelope.excess(), bound: None, requests, admitted, commands }
}

impl Node {
    fn sync(&mut self, quota: &Quota, sum: &mut u64, now: Nanos) {
        *sum += self.unpushed;
        self.pushed += self.unpushed;
        self.unpushed = 0;
        let others = *sum - self.pushed;
        let news = others - self.pulled;
        self.pulled = others;
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
