//! Denials that are remembered, so that a flood of denied requests costs the server nothing.
//!
//! A denial holds for the cost that was denied and for larger ones, until the instant at which that cost will be
//! there, but for five seconds at most: others may give tokens back meanwhile, or the server may lose what it knew, and
//! this node does not hear of it. Smaller costs are asked for. What is told is when the cost will be there as far as
//! was known, not when it will be asked for again.

use std::sync::atomic::{AtomicU32, Ordering};

use tidegate::{Charge, Cost, Limit, LimitDecision, Nanos, Outcome};

use crate::link::State;
use crate::strict::LimitState;
use crate::table::{KeyHash, RecentKeys};

/// The longest that this node denies what it was told to deny, without asking again. A flood that is denied then costs
/// one call in so long, however long it is told to wait.
pub(crate) const REMEMBERED_MAX: Nanos = Nanos::from_secs(5);

/// A clock that is behind what it showed before by more than this has stepped back. Less than that is threads
/// overtaking each other.
pub(crate) const STEP_BACK: Nanos = Nanos::from_millis(1);

/// When something was asked and answered: by this node's clock, and by the server's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timing {
    /// Before the call was sent, by this node's clock.
    pub(crate) sent: Nanos,
    /// After the answer came, by this node's clock.
    pub(crate) heard: Nanos,
    /// In between, by the server's clock.
    pub(crate) at: Nanos,
}

impl Timing {
    /// What the server's clock shows at least when this node's shows `now`: so waits that are told by it are never
    /// too short.
    pub(crate) fn server_at(&self, now: Nanos) -> Nanos {
        self.at.saturating_add(now.saturating_sub(self.heard))
    }
}

/// What was denied lately, and how the other limits of those requests stood.
#[derive(Debug)]
pub(crate) struct Denials {
    table: RecentKeys<Remembered>,
    /// Edits make all that was remembered before them void.
    edits: AtomicU32,
}

#[derive(Clone, Copy, Debug)]
struct Remembered {
    /// The numbers that were asked under.
    limit_id: u32,
    edits: u32,
    timing: Timing,
    level: Level,
    denied: Option<Denied>,
}

#[derive(Clone, Copy, Debug)]
struct Denied {
    cost: Cost,
    /// Until when it is denied without asking, by this node's clock, from before the call.
    until: Nanos,
    /// When the cost will be there, by this node's clock, from before the call.
    promised: Nanos,
    /// By the server's clock: never promised earlier than that.
    free_at: Nanos,
}

/// A state, without what a log does not need to be told.
#[derive(Clone, Copy, Debug)]
enum Level {
    Word(u64),
    Log { counted: u32, empty_at: Nanos },
}

impl Denials {
    pub(crate) fn new(max: usize) -> Denials {
        Denials { table: RecentKeys::new(max), edits: AtomicU32::new(0) }
    }

    /// What to say to a charge that is known to be denied; `None` if the server has to be asked.
    pub(crate) fn refusal(&self, hash: KeyHash, charge: &Charge<'_>, now: Nanos) -> Option<LimitDecision> {
        if charge.delay > Nanos::ZERO {
            return None;
        }
        self.with(hash, charge, |known| {
            // Where the clock has stepped back nobody knows how old this is.
            let is_young = known.timing.sent <= now.saturating_add(STEP_BACK);
            let denied = known.denied.filter(|denied| is_young && now < denied.until)?;
            let covered = match known.level {
                Level::Word(_) => charge.cost >= denied.cost,
                // Only the whole log would tell when more will be there.
                Level::Log { .. } => charge.cost == denied.cost,
            };
            covered.then(|| known.told(charge, now)).filter(|decision| !decision.is_allowed())
        })
        .flatten()
    }

    /// How a limit stands, as far as is known here: what a peek would say.
    pub(crate) fn standing(&self, hash: KeyHash, charge: &Charge<'_>, now: Nanos) -> LimitDecision {
        self.with(hash, charge, |known| known.told(charge, now)).unwrap_or_else(|| {
            let level = match charge.limit.limit() {
                Limit::Meter(_) => Level::Word(0),
                Limit::Log(_) => Level::Log { counted: 0, empty_at: Nanos::ZERO },
            };
            level.told(charge, now)
        })
    }

    /// When, by this node's clock, somebody was told to come back.
    pub(crate) fn promised(&self, hash: KeyHash, charge: &Charge<'_>) -> Option<Nanos> {
        self.with(hash, charge, |known| known.denied.map(|denied| denied.promised)).flatten()
    }

    /// Remembers how a limit of a refused request stands, and the denial if it was one.
    pub(crate) fn refused(
        &self,
        hash: KeyHash,
        charge: &Charge<'_>,
        decision: &LimitDecision,
        standing: &LimitState,
        timing: Timing,
    ) {
        let Some(mut known) = self.remembered(charge, standing, timing) else {
            return self.table.forget(hash);
        };
        if let (Outcome::Denied { retry_after }, Nanos::ZERO) = (decision.outcome, charge.delay) {
            known.denied = Some(Denied {
                cost: charge.cost,
                until: timing.sent.saturating_add(retry_after.min(REMEMBERED_MAX)),
                promised: timing.sent.saturating_add(retry_after),
                free_at: timing.at.saturating_add(retry_after),
            });
        }
        self.table.with_or(hash, || known, |held| *held = known);
    }

    /// Something was taken from a limit: if anything is remembered of it, then how it stands now.
    pub(crate) fn taken(&self, hash: KeyHash, charge: &Charge<'_>, standing: &LimitState, timing: Timing) {
        let update = |held: &mut Remembered| {
            let Some(known) = self.remembered(charge, standing, timing) else { return false };
            let denied = held.denied.filter(|denied| {
                held.limit_id == known.limit_id && held.edits == known.edits && denied.cost > charge.cost
            });
            *held = Remembered { denied, ..known };
            true
        };
        if self.table.with(hash, update) == Some(false) {
            self.table.forget(hash);
        }
    }

    /// Something was given back to a limit.
    pub(crate) fn given_back(&self, hash: KeyHash) {
        self.table.forget(hash);
    }

    /// Limits were edited.
    pub(crate) fn edited(&self) {
        self.edits.fetch_add(1, Ordering::Relaxed);
    }

    fn with<R>(&self, hash: KeyHash, charge: &Charge<'_>, look: impl FnOnce(&Remembered) -> R) -> Option<R> {
        let edits = self.edits.load(Ordering::Relaxed);
        let valid = |known: &Remembered| known.limit_id == charge.limit.id() && known.edits == edits;
        self.table.with(hash, |known| valid(known).then(|| look(known))).flatten()
    }

    /// `None` where the state is not in the charge's own numbers.
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
    fn told(&self, charge: &Charge<'_>, now: Nanos) -> LimitDecision {
        let server_now = self.timing.server_at(now);
        let mut decision = self.level.told(charge, server_now);
        let denied = self.denied.filter(|denied| charge.cost >= denied.cost);
        if let (Some(denied), Nanos::ZERO) = (denied, charge.delay) {
            let promised = denied.free_at.saturating_sub(server_now);
            // Of a log only this denial tells when the cost will be there.
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
    fn told(self, charge: &Charge<'_>, now: Nanos) -> LimitDecision {
        match (self, charge.limit.limit()) {
            (Level::Word(word), Limit::Meter(meter)) => {
                meter.peek_ahead(word, charge.cost, now, charge.delay)
            }
            (level, limit) => {
                // States are remembered under their own limits; anything else would be an untouched one.
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
