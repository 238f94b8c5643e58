//! The rate of requests over time.

use clap::ValueEnum;

/// The shape of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LoadShape {
    /// The rate doubles four times
    Step,
    /// Ten times the rate for some seconds
    Spike,
    /// A constant rate for a long time
    Soak,
}

/// A shape with its rate and duration.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LoadPlan {
    pub(crate) shape: LoadShape,
    /// The initial requests per second.
    pub(crate) rate: u64,
    pub(crate) soak_seconds: u64,
}

/// A period with a constant rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LoadStage {
    pub(super) per_second: u64,
    pub(super) seconds: u64,
}

const STEP_SECONDS: u64 = 4;
const SPIKE_TIMES: u64 = 10;
const SPIKE_SECONDS: u64 = 5;

impl LoadPlan {
    pub(super) fn stages(self) -> Vec<LoadStage> {
        let stage = |times: u64, seconds| LoadStage { per_second: self.rate * times, seconds };
        match self.shape {
            LoadShape::Step => [1, 2, 4, 8, 16].map(|times| stage(times, STEP_SECONDS)).to_vec(),
            LoadShape::Spike => [1, SPIKE_TIMES, 1].map(|times| stage(times, SPIKE_SECONDS)).to_vec(),
            LoadShape::Soak => vec![stage(1, self.soak_seconds)],
        }
    }
}

/// When each request is due.
#[derive(Debug)]
pub(super) struct Schedule {
    stages: Vec<LoadStage>,
    stage: usize,
    /// Nanoseconds at which the stage began.
    began: u64,
    /// Requests of this stage that were sent.
    handed: u64,
}

const SECOND: u64 = 1_000_000_000;

impl Schedule {
    pub(super) fn new(stages: Vec<LoadStage>) -> Schedule {
        Schedule { stages, stage: 0, began: 0, handed: 0 }
    }

    /// Nanoseconds until the end of the last stage.
    pub(super) fn nanos(&self) -> u64 {
        self.stages.iter().map(|stage| stage.seconds * SECOND).sum()
    }

    /// When the next request is due; `None` after the last.
    pub(super) fn due(&mut self) -> Option<u64> {
        let mut stage = *self.stages.get(self.stage)?;
        while self.handed == stage.per_second * stage.seconds {
            self.began += stage.seconds * SECOND;
            self.handed = 0;
            self.stage += 1;
            stage = *self.stages.get(self.stage)?;
        }
        let after = u128::from(self.handed) * u128::from(SECOND) / u128::from(stage.per_second);
        Some(self.began + after as u64)
    }

    /// Advances to the next request.
    pub(super) fn advance(&mut self) {
        self.handed += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_what_they_are_called() {
        let stages = |shape| LoadPlan { shape, rate: 100, soak_seconds: 30 }.stages();
        let rates = |shape| stages(shape).iter().map(|stage| stage.per_second).collect::<Vec<_>>();
        assert_eq!(rates(LoadShape::Step), [100, 200, 400, 800, 1_600]);
        assert_eq!(rates(LoadShape::Spike), [100, 1_000, 100]);
        assert_eq!(stages(LoadShape::Soak), [LoadStage { per_second: 100, seconds: 30 }]);
    }

    #[test]
    fn requests_are_due_evenly_through_all_stages() {
        let stages = vec![LoadStage { per_second: 2, seconds: 1 }, LoadStage { per_second: 3, seconds: 2 }];
        let mut schedule = Schedule::new(stages);
        assert_eq!(schedule.nanos(), 3 * SECOND);
        let mut due = Vec::new();
        while let Some(at) = schedule.due() {
            due.push(at / 1_000_000);
            schedule.advance();
        }
        assert_eq!(due, [0, 500, 1_000, 1_333, 1_666, 2_000, 2_333, 2_666]);
    }
}
