//! One case: the same work for several contenders.

use std::fmt;

use super::{BenchError, progress};
use crate::contenders::{bare_cas, governor};
use crate::report::{Report, Row};
use crate::rounds::{Contender, ContenderRounds, Expected, RoundPlan, measure};

/// The kind of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// One bucket, again and again.
    Hot,
    /// Keys with a uniform distribution.
    Uniform,
    /// Keys with a Zipf distribution.
    Zipf,
    /// Uniform keys, sixteen at a time.
    Batches,
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Work::Hot => "one bucket",
            Work::Uniform => "keys, uniform",
            Work::Zipf => "keys, zipf",
            Work::Batches => "keys, batches of 16",
        })
    }
}

/// A case with its results.
#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) work: Work,
    pub(crate) expected: Expected,
    pub(crate) threads: usize,
    lanes: Vec<ContenderRounds>,
}

impl Case {
    /// Measures, and checks that all decisions were the expected ones.
    pub(crate) fn run(
        work: Work,
        expected: Expected,
        contenders: &[&Contender<'_>],
        plan: &RoundPlan<'_>,
    ) -> Result<Case, BenchError> {
        let threads = plan.threads;
        let name = format!("{work}, {expected}, {threads} thread{}", if threads == 1 { "" } else { "s" });
        progress(&name);
        let lanes = measure(contenders, plan);
        if let Some(lane) = lanes.iter().find(|lane| lane.exact && !lane.counts.all_are(expected)) {
            let (allowed, denied) = (lane.counts.allowed, lane.counts.denied);
            return Err(BenchError::Unexpected { case: name, contender: lane.name, allowed, denied });
        }
        Ok(Case { work, expected, threads, lanes })
    }

    /// The time of the contender `name` as a multiple of `other`'s; `None` unless both were measured.
    pub(crate) fn times(&self, name: &str, other: &str) -> Option<f64> {
        self.lane(name)?.times(self.lane(other)?)
    }

    /// Adds a row for each contender.
    pub(crate) fn add_rows(&self, report: &mut Report) {
        for lane in &self.lanes {
            report.rows.push(Row {
                case: self.work.to_string(),
                expected: self.expected,
                threads: self.threads,
                contender: lane.name,
                nanos_per_op: lane.median_nanos(),
                counts: lane.counts,
                times_governor: self.times(lane.name, governor::NAME),
                times_bare_cas: self.times(lane.name, bare_cas::NAME),
            });
        }
    }

    fn lane(&self, name: &str) -> Option<&ContenderRounds> {
        self.lanes.iter().find(|lane| lane.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: RoundPlan<'_> = RoundPlan { rounds: 3, threads: 1, ops: 10, warm_up: 0, sequences: &[] };

    #[test]
    fn wrong_answers_make_no_result() {
        let no = Contender::new("no", |share| share.each_time(|| false));
        let error = Case::run(Work::Hot, Expected::Allowing, &[&no], &PLAN).unwrap_err().to_string();
        assert!(
            error.contains("`one bucket, allowing, 1 thread`") && error.contains("30 times no"),
            "{error}"
        );
        assert!(Case::run(Work::Hot, Expected::Denying, &[&no], &PLAN).is_ok());
        assert!(Case::run(Work::Hot, Expected::Allowing, &[&no.estimating()], &PLAN).is_ok());
    }

    #[test]
    fn ratios_are_told_where_there_is_something_to_compare_with() {
        let peer = Contender::new(governor::NAME, |share| share.each_time(|| true));
        let case = Case::run(Work::Hot, Expected::Allowing, &[&peer], &PLAN).unwrap();
        let mut report = Report::default();
        case.add_rows(&mut report);
        assert_eq!(report.rows[0].times_governor, Some(1.0));
        assert_eq!(report.rows[0].times_bare_cas, None);
        assert_eq!(report.rows[0].counts.allowed, 30);
    }
}
