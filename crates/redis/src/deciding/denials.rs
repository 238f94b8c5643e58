//! Remembers denials, so that a flood of denied requests makes no calls to the server.
//!
//! A denial holds for the denied cost and for larger ones, until the bucket will hold that cost, but for five seconds
//! at most: other nodes may hand tokens back meanwhile, or the server may lose its state, without this node noticing.
//! Smaller costs still go to the server. The wait in a refusal is the time until the bucket holds the cost, as far as
//! is known, not the time until the server is called again.

use std::sync::atomic::{AtomicU32, Ordering};

use tidegate::{Charge, Cost, Limit, LimitDecision, Nanos, Outcome};

use crate::calls::State;
use crate::deciding::recent_keys::{KeyHash, RecentKeys};
use crate::deciding::strict::LimitState;

/// The longest that a denial is repeated without a call. A flood of denied requests then makes one call in this time,
/// however long the wait in the denial is.
pub(crate) const REMEMBERED_MAX: Nanos = Nanos::from_secs(5);

/// A clock that is behind an earlier reading by more than this has stepped back. Smaller differences come from threads
/// that overtake each other.
pub(crate) const STEP_BACK: Nanos = Nanos::from_millis(1);

/// When a call was sent and answered: by this node's clock, and by the server's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timing {
    /// This node's clock before the call was sent.
    pub(crate) sent: Nanos,
    /// This node's clock after the answer came.
    pub(crate) received: Nanos,
    /// The server's clock, in between.
    pub(crate) at: Nanos,
}

impl Timing {
    /// The least that the server's clock shows when this node's shows `now`; so waits computed from it are never too
    /// short.
    pub(crate) fn server_at(&self, now: Nanos) -> Nanos {
        self.at.saturating_add(now.saturating_sub(self.received))
    }
}

/// Recent denials, and the levels of the other limits of those requests.
#[derive(Debug)]
pub(crate) struct Denials {
    recent: RecentKeys<Remembered>,
    /// How often limits were edited: an edit voids everything remembered before it.
    edits: AtomicU32,
}

#[derive(Clone, Copy, Debug)]
struct Remembered {
    /// The version of the limit that was charged.
    limit_id: u64,
    edits: u32,
    timing: Timing,
    level: Level,
    denied: Option<Denied>,
}

#[derive(Clone, Copy, Debug)]
struct Denied {
    cost: Cost,
    /// Until when it is denied without a call: this node's clock, counted from before the call.
    until: Nanos,
    /// When the bucket will hold the cost: this node's clock, counted from before the call.
    promised: Nanos,
    /// When the bucket will hold the cost, by the server's clock: no refusal promises it earlier.
    free_at: Nanos,
}

/// The part of a state that is needed for a decision.
#[derive(Clone, Copy, Debug)]
enum Level {
    Word(u64),
    Log { counted: u32, empty_at: Nanos },
}

impl Denials {
    pub(crate) fn new(max: usize) -> Denials {
        Denials { recent: RecentKeys::new(max), edits: AtomicU32::new(0) }
    }

    /// The refusal of a charge that is known to be denied; `None` if the server must decide.
    pub(crate) fn refusal(&self, hash: KeyHash, charge: &Charge<'_>, now: Nanos) -> Option<LimitDecision> {
        if charge.delay > Nanos::ZERO {
            return None;
        }
        self.with(hash, charge, |known| {
            // After a step back of the clock, the age of this denial is unknown.
            let is_young = known.timing.sent <= now.saturating_add(STEP_BACK);
            let denied = known.denied.filter(|denied| is_young && now < denied.until)?;
            let covered = match known.level {
                Level::Word(_) => charge.cost >= denied.cost,
                // When a larger cost will fit can only be computed from the whole log, which this node does not have.
                Level::Log { .. } => charge.cost == denied.cost,
            };
            covered.then(|| known.decision(charge, now)).filter(|decision| !decision.is_allowed())
        })
        .flatten()
    }

    /// The standing of a limit as far as this node knows: what a peek would return.
    pub(crate) fn standing(&self, hash: KeyHash, charge: &Charge<'_>, now: Nanos) -> LimitDecision {
        self.with(hash, charge, |known| known.decision(charge, now)).unwrap_or_else(|| {
            let level = match charge.limit.limit() {
                Limit::Meter(_) => Level::Word(0),
                Limit::Log(_) => Level::Log { counted: 0, empty_at: Nanos::ZERO },
            };
            level.decision(charge, now)
        })
    }

    /// The instant, by this node's clock, at which a denied request may retry.
    pub(crate) fn promised(&self, hash: KeyHash, charge: &Charge<'_>) -> Option<Nanos> {
        self.with(hash, charge, |known| known.denied.map(|denied| denied.promised)).flatten()
    }

    /// Remembers the level of a limit of a refused request, and the denial if this limit refused.
    pub(crate) fn record_refusal(
        &self,
        hash: KeyHash,
        charge: &Charge<'_>,
        decision: &LimitDecision,
        standing: &LimitState,
        timing: Timing,
    ) {
        let Some(mut known) = self.remembered(charge, standing, timing) else {
            return self.recent.forget(hash);
        };
        if let (Outcome::Denied { retry_after }, Nanos::ZERO) = (decision.outcome, charge.delay) {
            known.denied = Some(Denied {
                cost: charge.cost,
                until: timing.sent.saturating_add(retry_after.min(REMEMBERED_MAX)),
                promised: timing.sent.saturating_add(retry_after),
                free_at: timing.at.saturating_add(retry_after),
            });
        }
        self.recent.with_or_insert(hash, || known, |held| *held = known);
    }

    /// Tokens were taken from a limit: updates its level, if it is remembered.
    pub(crate) fn record_taken(
        &self,
        hash: KeyHash,
        charge: &Charge<'_>,
        standing: &LimitState,
        timing: Timing,
    ) {
        let update = |held: &mut Remembered| {
            let Some(known) = self.remembered(charge, standing, timing) else { return false };
            let denied = held.denied.filter(|denied| {
                held.limit_id == known.limit_id && held.edits == known.edits && denied.cost > charge.cost
            });
            *held = Remembered { denied, ..known };
            true
        };
        if self.recent.with(hash, update) == Some(false) {
            self.recent.forget(hash);
        }
    }

    /// Tokens were returned to a limit: forgets its denials.
    pub(crate) fn given_back(&self, hash: KeyHash) {
        self.recent.forget(hash);
    }

    /// Limits were edited: forgets all denials.
    pub(crate) fn limits_edited(&self) {
        self.edits.fetch_add(1, Ordering::Relaxed);
    }

    fn with<R>(&self, hash: KeyHash, charge: &Charge<'_>, look: impl FnOnce(&Remembered) -> R) -> Option<R> {
        let edits = self.edits.load(Ordering::Relaxed);
        let valid = |known: &Remembered| known.limit_id == charge.limit.id() && known.edits == edits;
        self.recent.with(hash, |known| valid(known).then(|| look(known))).flatten()
    }

    /// `None` if the state is not in the numbers of the charge.
    fn remembered(&self, charge: &Charge<'_>, standing: &LimitState, timing: Timing) -> Option<Remembered> {
        if standing.limit != *charge.limit.limit() {
            return None;
        }
        let level = match &standing.state {
            State::Word(word) => Level::Word(*word),
            State::Log(log) => Level::Log { counted: log.counted, empty_at: log.empty_at },
        };
        let edits = self.edits.load(Ordering::Relaxed);
        Some(Remembered { limit_id: charge.limit.id(), edits, timing, level, denied: None })
    }
}

impl Remembered {
    fn decision(&self, charge: &Charge<'_>, now: Nanos) -> LimitDecision {
        let server_now = self.timing.server_at(now);
        let mut decision = self.level.decision(charge, server_now);
        let denied = self.denied.filter(|denied| charge.cost >= denied.cost);
        if let (Some(denied), Nanos::ZERO) = (denied, charge.delay) {
            let promised = denied.free_at.saturating_sub(server_now);
            // For a log, only this denial has the instant at which the cost will fit.
            let exact = matches!(self.level, Level::Log { .. }) && charge.cost == denied.cost;
            match decision.outcome {
                Outcome::Denied { retry_after }
                    if promised > retry_after || (exact && promised > Nanos::ZERO) =>
                {
                    decision.outcome = Outcome::Denied { retry_after: promised };
                }
                _ => {}
            }
        }
        decision
    }
}

impl Level {
    fn decision(self, charge: &Charge<'_>, now: Nanos) -> LimitDecision {
        match (self, charge.limit.limit()) {
            (Level::Word(word), Limit::Meter(meter)) => {
                meter.peek_ahead(word, charge.cost, now, charge.delay)
            }
            (level, limit) => {
                // A word is never remembered for a log; it would count as an untouched state.
                let (counted, empty_at) = match level {
                    Level::Log { counted, empty_at } => (counted, empty_at),
                    Level::Word(_) => (0, Nanos::ZERO),
                };
                let capacity = limit.capacity();
                let reset_after = empty_at.saturating_sub(now);
                let remaining =
                    if reset_after == Nanos::ZERO { capacity } else { capacity - counted.min(capacity) };
                let outcome = match charge.cost.get() {
                    cost if cost > capacity => Outcome::Never,
                    cost if cost <= remaining => Outcome::Allowed,
                    _ => Outcome::Denied { retry_after: reset_after },
                };
                LimitDecision { outcome, limit: capacity, remaining, reset_after }
            }
        }
    }
}
