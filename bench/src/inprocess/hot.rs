//! A single bucket that all threads use.

use super::BenchError;
use super::bars;
use super::cases::{Case, Work};
use super::setup::Setup;
use crate::contenders::{governor, ours, pingora, ratelimit, throttlecrab};
use crate::report::Report;
use crate::rounds::{Contender, Expected, RoundPlan};

/// A single bucket is always in the cache; only the branch predictors need a warm-up.
const WARM_UP: usize = 10_000;

/// These rounds are short, so there can be more of them.
const ROUNDS_TIMES: usize = 3;

/// Measures the single bucket.
pub(crate) fn run(setup: &Setup, report: &mut Report) -> Result<(), BenchError> {
    for expected in [Expected::Allowing, Expected::Denying] {
        let contenders = [
            ours::hot(expected),
            ours::hot_odd(expected),
            governor::hot(expected),
            governor::hot_with_state(expected),
            ratelimit::hot(expected),
            throttlecrab::hot(expected),
            pingora::hot(expected),
        ];
        let contenders: Vec<&Contender<'_>> = contenders.iter().collect();
        for threads in [1, 2] {
            let rounds = ROUNDS_TIMES * setup.rounds;
            let plan = RoundPlan { rounds, threads, ops: setup.ops, warm_up: WARM_UP, sequences: &[] };
            let case = Case::run(Work::Hot, expected, &contenders, &plan)?;
            case.add_rows(report);
            report.bars.extend(bars::of_case(&case));
        }
    }
    Ok(())
}
