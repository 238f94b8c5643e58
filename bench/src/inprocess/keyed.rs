//! Many keys, one at a time.

use super::cases::{Case, Work};
use super::setup::Setup;
use super::{BenchError, bars, progress};
use crate::contenders::{bare_cas, governor, ours, pingora, throttlecrab};
use crate::report::{Figure, Report};
use crate::rounds::{Contender, Expected, RoundPlan};

/// The most threads of a case.
const THREADS: usize = 2;

/// Measures many keys, allowing and denying.
pub(crate) fn run(setup: &Setup, report: &mut Report) -> Result<(), BenchError> {
    let sequences = [(Work::Uniform, setup.uniform(THREADS)), (Work::Zipf, setup.zipf(THREADS))];
    for expected in [Expected::Allowing, Expected::Denying] {
        run_expecting(setup, expected, &sequences, report)?;
    }
    Ok(())
}

fn run_expecting(
    setup: &Setup,
    expected: Expected,
    sequences: &[(Work, Vec<Vec<u32>>)],
    report: &mut Report,
) -> Result<(), BenchError> {
    progress(&format!("(filling the limiters with {} keys)", setup.keys));
    let our_limiter = ours::full(setup.keys, expected);
    let governors = governor::full(setup.keys, expected);
    let throttlecrabs = throttlecrab::full(setup.keys, expected);
    let contenders = [
        ours::keyed(&our_limiter),
        governor::keyed(&governors),
        throttlecrab::keyed(&throttlecrabs),
        pingora::keyed(setup.keys, expected),
    ];
    let floor = bare_cas::BareTable::new(setup.keys);
    let floors = [bare_cas::one_at_a_time(&floor), bare_cas::known_ahead(&floor)];
    for (work, sequences) in sequences {
        let mut contenders: Vec<&Contender<'_>> = contenders.iter().collect();
        // The lower bounds for a decision that writes to a random slot.
        if (*work, expected) == (Work::Uniform, Expected::Allowing) {
            contenders.extend(&floors);
        }
        for threads in 1..=THREADS {
            let plan = RoundPlan {
                rounds: setup.rounds,
                threads,
                ops: setup.ops,
                warm_up: setup.warm_up(),
                sequences,
            };
            let case = Case::run(*work, expected, &contenders, &plan)?;
            case.add_rows(report);
            report.bars.extend(bars::of_case(&case));
        }
    }
    let stats = our_limiter.stats();
    if stats.evictions > 0 {
        return Err(BenchError::Forgot { evictions: stats.evictions });
    }
    report.figures.push(Figure {
        what: format!("keys with a slot of their own, {expected}"),
        contender: ours::NAME,
        value: stats.keys as f64,
        unit: "keys",
    });
    Ok(())
}
