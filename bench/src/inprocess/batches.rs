//! Many keys, sixteen at a time, as in a pipeline or a batch call.

use super::cases::{Case, Work};
use super::setup::Setup;
use super::{BenchError, bars, progress};
use crate::contenders::{bare_cas, governor, ours};
use crate::report::Report;
use crate::rounds::{Expected, RoundPlan};

/// Measures batches; governor has none and is called once for each key.
pub(crate) fn run(setup: &Setup, report: &mut Report) -> Result<(), BenchError> {
    let sequences = setup.uniform(2);
    let expected = Expected::Allowing;
    progress(&format!("(filling the limiters with {} keys)", setup.keys));
    let our_limiter = ours::full(setup.keys, expected);
    let governors = governor::full(setup.keys, expected);
    let floor = bare_cas::BareTable::new(setup.keys);
    let contenders = [
        ours::batches(&our_limiter),
        ours::keyed(&our_limiter),
        governor::keyed(&governors),
        bare_cas::one_at_a_time(&floor),
        bare_cas::known_ahead(&floor),
    ];
    for threads in [1, 2] {
        let plan = RoundPlan {
            rounds: setup.rounds,
            threads,
            ops: setup.ops,
            warm_up: setup.warm_up(),
            sequences: &sequences,
        };
        let contenders: Vec<_> = contenders.iter().collect();
        let case = Case::run(Work::Batches, expected, &contenders, &plan)?;
        case.add_rows(report);
        report.bars.extend(bars::of_case(&case));
    }
    Ok(())
}
