//! A run of steps on a limit and its model, which must agree throughout.

use tidegate_core::{Cost, LimitDecision, Nanos, Outcome};

use crate::model::{Limiter, Model};
use crate::steps::{Act, Clock, Step, Wait};

/// An admitted charge that was not handed back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Charge {
    pub(crate) cost: Cost,
    pub(crate) at: Nanos,
}

/// How far a clock may be from the last change for everything to be exact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reach {
    pub(crate) back: u64,
    pub(crate) ahead: u64,
}

impl Reach {
    pub(crate) const EVERYWHERE: Reach = Reach { back: u64::MAX, ahead: u64::MAX };

    /// Within both.
    pub(crate) fn and(self, other: Reach) -> Reach {
        Reach { back: self.back.min(other.back), ahead: self.ahead.min(other.ahead) }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Run<R, M> {
    pub(crate) real: R,
    pub(crate) model: M,
    clock: Clock,
    charges: Vec<Charge>,
    reach: Reach,
    /// The latest instant at which the state was changed, if it ever was.
    changed: Option<Nanos>,
}

impl<R: Limiter, M: Model> Run<R, M> {
    pub(crate) fn new(real: R, model: M, clock: Clock, reach: Reach) -> Run<R, M> {
        Run { real, model, clock, charges: Vec::new(), reach, changed: None }
    }

    pub(crate) fn steps(&mut self, steps: &[Step]) {
        for step in steps {
            self.wait(step.wait);
            self.act(step.act);
            self.agree(Cost::ONE);
            assert_eq!(
                self.real.is_idle(self.now()),
                self.model.is_idle(self.now()),
                "idle at {}",
                self.now()
            );
        }
    }

    /// The same run after an edit. What was charged under the old numbers is not handed back under the new
    /// ones.
    pub(crate) fn edited(self, real: R, model: M, unit: u64) -> Run<R, M> {
        let mut clock = Clock::new(self.now(), unit);
        clock.hear(&model.peek(Cost::ONE, self.now()));
        let mut run = Run { real, model, clock, charges: Vec::new(), ..self };
        run.note_change();
        run.agree(Cost::ONE);
        run
    }

    pub(crate) fn now(&self) -> Nanos {
        self.clock.now
    }

    fn wait(&mut self, wait: Wait) {
        self.clock.advance(wait);
        if let Some(changed) = self.changed {
            let earliest = changed.saturating_sub(Nanos::new(self.reach.back));
            let latest = changed.saturating_add(Nanos::new(self.reach.ahead));
            self.clock.now = self.now().clamp(earliest, latest);
        }
    }

    fn act(&mut self, act: Act) {
        let limit = self.model.peek(Cost::ZERO, self.now()).limit;
        match act {
            Act::Take(amount) => self.take(self.clock.cost(amount, limit)),
            Act::Peek(amount) => self.agree(self.clock.cost(amount, limit)),
            Act::Refund(amount) => self.refund(self.clock.cost(amount, limit)),
            Act::HandBack(which) if !self.charges.is_empty() => {
                let charge = self.charges.swap_remove(which % self.charges.len());
                self.hand_back(charge);
            }
            Act::HandBack(_) => {}
        }
    }

    fn take(&mut self, cost: Cost) {
        let now = self.now();
        let on_time = self.model.is_on_time(now);
        let said = self.real.take(cost, now);
        assert_eq!(said, self.model.take(cost, now), "take {cost} at {now}");
        if said.is_allowed() && cost > Cost::ZERO {
            self.note_change();
            if on_time {
                self.charges.push(Charge { cost, at: now });
            }
        }
        self.keeps_its_promise(cost, &said);
        self.clock.hear(&said);
    }

    fn note_change(&mut self) {
        self.changed = self.changed.max(Some(self.now()));
    }

    /// A refund may already have given a charge back, so no charge from before it is handed back after it.
    fn refund(&mut self, cost: Cost) {
        self.real.refund(cost, self.now());
        self.model.refund(cost, self.now());
        self.charges.clear();
        self.note_change();
    }

    fn hand_back(&mut self, charge: Charge) {
        self.real.hand_back(charge.cost, charge.at, self.now());
        self.model.hand_back(charge.cost, charge.at, self.now());
        self.note_change();
    }

    fn agree(&mut self, cost: Cost) {
        let now = self.now();
        let said = self.real.peek(cost, now);
        assert_eq!(said, self.model.peek(cost, now), "peek {cost} at {now}");
        self.keeps_its_promise(cost, &said);
        self.clock.hear(&said);
    }

    /// After waiting as long as the decision says, the cost is admitted; after less it is not. This ends at the
    /// last instant.
    fn keeps_its_promise(&self, cost: Cost, said: &LimitDecision) {
        let Outcome::Denied { retry_after } = said.outcome else { return };
        assert!(retry_after > Nanos::ZERO, "a denial without a wait");
        let then = self.now().saturating_add(retry_after);
        if then > Nanos::END {
            return;
        }
        let kept = self.real.peek(cost, then);
        assert!(kept.is_allowed(), "{cost} denied at {then}, as promised at {}: {kept:?}", self.now());
        let slack = Nanos::new(self.model.retry_slack());
        if retry_after >= slack {
            let early = self.real.peek(cost, then.saturating_sub(slack));
            assert!(!early.is_allowed(), "{cost} was denied until {then}, but is admitted before");
        }
    }
}
