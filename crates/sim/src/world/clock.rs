//! The clocks of nodes: each has its own offset, drifts, steps, and may stand still.

use tidegate::{Clock, Nanos, Sleep};

use crate::world::World;

/// Drifts are in parts per million.
const MILLION: i128 = 1_000_000;

/// The state of one clock.
#[derive(Clone, Copy, Debug)]
pub struct ClockDriver {
    /// The true instant of the last change; the start of the run if `None`.
    since: Option<Nanos>,
    /// What it showed at that instant.
    showed: Nanos,
    /// How much it gains, in parts per million.
    drift: i64,
    /// Does it stand still?
    still: bool,
}

impl ClockDriver {
    /// A clock that shows `showed` when the world begins.
    pub fn new(showed: Nanos, drift: i64) -> ClockDriver {
        ClockDriver { since: None, showed, drift, still: false }
    }

    /// What it shows at a true instant.
    pub fn shows(&self, now: Nanos) -> Nanos {
        if self.still {
            return self.showed;
        }
        let since = self.since.unwrap_or(crate::START);
        let passed = i128::from(now.get() - since.get());
        let shown = passed * (MILLION + i128::from(self.drift)) / MILLION;
        Nanos::new((i128::from(self.showed.get()) + shown).max(0) as u64)
    }

    /// Sets it forward, or back if `by` is negative.
    pub fn step(&mut self, now: Nanos, by: i64) {
        let shown = i128::from(self.shows(now).get()) + i128::from(by);
        self.showed = Nanos::new(shown.max(0) as u64);
        self.since = Some(now);
    }

    /// Stops it, or lets it go on from where it stands.
    pub fn stand_still(&mut self, now: Nanos, still: bool) {
        self.showed = self.shows(now);
        self.since = Some(now);
        self.still = still;
    }

    /// The true time of a `span` of this clock, in whole microseconds, rounded up.
    fn true_span(&self, span: Nanos) -> Nanos {
        let span = i128::from(span.get()) * MILLION;
        let nanos = (span as u128).div_ceil((MILLION + i128::from(self.drift)) as u128) as u64;
        Nanos::new(nanos.next_multiple_of(1_000))
    }
}

/// The clock of one node.
#[derive(Clone, Debug)]
pub struct NodeClock {
    world: World,
    node: usize,
}

impl NodeClock {
    /// The clock of a node of the world.
    pub fn new(world: World, node: usize) -> NodeClock {
        NodeClock { world, node }
    }
}

impl Clock for NodeClock {
    fn now(&self) -> Nanos {
        self.world.local_now(self.node)
    }
}

impl Sleep for NodeClock {
    async fn sleep(&self, span: Nanos) {
        let due = self.now().saturating_add(span);
        loop {
            let left = due.saturating_sub(self.now());
            if left == Nanos::ZERO {
                return;
            }
            let mut clock = None;
            self.world.with_clock(self.node, |driver, _| clock = Some(*driver));
            let wait = clock.expect("the node has a clock").true_span(left);
            self.world.until(self.world.now().saturating_add(wait)).await;
        }
    }
}
