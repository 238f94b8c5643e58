//! The last hour in steps of half a minute.

use std::collections::VecDeque;

use tidegate::Nanos;

use super::figures::Figures;

/// How many limits a step can have: those of a large policy, and of others that were in force within the same half minute.
const LIMITS_MAX: usize = 1_000_000;

/// The length of a step.
pub(crate) const STEP_SECS: u64 = 30;
/// How many steps are kept.
pub(crate) const STEPS: usize = 120;

/// A step: its number since 1970, and what was decided in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct HistoryStep {
    /// The wall clock at its begin, divided by the length of a step.
    pub(crate) number: u64,
    pub(crate) figures: Figures,
}

impl HistoryStep {
    /// The step at an instant of the wall clock.
    pub(crate) fn at(wall: Nanos) -> u64 {
        wall.get() / Nanos::SECOND.get() / STEP_SECS
    }
}

/// The last hour, oldest step first.
#[derive(Debug, Default)]
pub(crate) struct LastHour {
    steps: VecDeque<HistoryStep>,
}

impl LastHour {
    /// Adds figures to the step of their time. If the step before has ended with it, that one is cut, for good, and returned. If
    /// the wall clock was set back, they are added to the newest step.
    pub(super) fn add(
        &mut self,
        wall: Nanos,
        figures: &Figures,
        cut: impl FnOnce(&mut Figures),
    ) -> Option<HistoryStep> {
        let number = HistoryStep::at(wall);
        if let Some(newest) = self.steps.back_mut().filter(|newest| newest.number >= number) {
            newest.figures.add(figures);
            newest.figures.cut_limits(LIMITS_MAX, |_| None);
            return None;
        }
        let finished = self.finish(cut);
        self.steps.push_back(HistoryStep { number, figures: figures.clone() });
        while self.steps.front().is_some_and(|oldest| oldest.number + STEPS as u64 <= number) {
            self.steps.pop_front();
        }
        finished
    }

    /// Ends the newest step: cuts it, and returns it.
    pub(super) fn finish(&mut self, cut: impl FnOnce(&mut Figures)) -> Option<HistoryStep> {
        let newest = self.steps.back_mut()?;
        cut(&mut newest.figures);
        Some(newest.clone())
    }

    /// The steps, oldest first.
    pub(super) fn steps(&self) -> impl Iterator<Item = &HistoryStep> {
        self.steps.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_hour_is_kept_and_nothing_is_lost_within_it() {
        let mut hour = LastHour::default();
        let one = Figures { allowed: 1, ..Figures::default() };
        let mut finished = 0;
        for second in 0..2 * 3_600 {
            if let Some(step) = hour.add(Nanos::from_secs(1_000_000 * STEP_SECS + second), &one, |_| {}) {
                assert_eq!(step.figures.allowed, STEP_SECS);
                finished += 1;
            }
        }
        assert_eq!((hour.steps().count(), finished), (STEPS, 2 * STEPS - 1));
        assert!(hour.steps().all(|step| step.figures.allowed == STEP_SECS));
        let newest = hour.steps().last().expect("there are some").number;
        assert!(hour.add(Nanos::ZERO, &one, |_| {}).is_none());
        let last = hour.steps().last().expect("there are some");
        assert_eq!((last.number, last.figures.allowed), (newest, STEP_SECS + 1), "the clock was set back");
    }
}
