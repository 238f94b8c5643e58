//! Counts of responses and their latencies.

use serde::Serialize;

use super::wire::AnswerVerdict;
use crate::statistics::percentile;

/// The number of responses by verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Verdicts {
    pub(crate) allowed: u64,
    pub(crate) denied: u64,
}

impl Verdicts {
    pub(crate) fn add(&mut self, verdict: AnswerVerdict) {
        match verdict {
            AnswerVerdict::Allowed => self.allowed += 1,
            AnswerVerdict::Denied => self.denied += 1,
        }
    }

    pub(crate) fn total(self) -> u64 {
        self.allowed + self.denied
    }
}

/// The responses and the latency of each.
#[derive(Debug, Default)]
pub(crate) struct LatencyTally {
    pub(crate) verdicts: Verdicts,
    nanos: Vec<u32>,
}

impl LatencyTally {
    pub(crate) fn add(&mut self, verdict: AnswerVerdict, nanos: u64) {
        self.verdicts.add(verdict);
        // Latencies are capped at four seconds.
        self.nanos.push(u32::try_from(nanos).unwrap_or(u32::MAX));
    }

    /// The median and the 99th percentile of the latency in microseconds; NaN without responses.
    pub(crate) fn micros(&mut self) -> [f64; 2] {
        self.nanos.sort_unstable();
        [0.5, 0.99]
            .map(|share| percentile(&self.nanos, share).map_or(f64::NAN, |nanos| f64::from(nanos) / 1e3))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_is_counted() {
        let mut tally = LatencyTally::default();
        assert!(tally.micros()[0].is_nan());
        for micros in (1..=100).rev() {
            let verdict = if micros > 90 { AnswerVerdict::Denied } else { AnswerVerdict::Allowed };
            tally.add(verdict, micros * 1_000);
        }
        assert_eq!(tally.verdicts, Verdicts { allowed: 90, denied: 10 });
        assert_eq!(tally.verdicts.total(), 100);
        assert_eq!(tally.micros(), [50.0, 99.0]);
        tally.add(AnswerVerdict::Allowed, u64::MAX);
        assert_eq!(tally.micros(), [51.0, 100.0]);
    }
}
