//! Edits of a limit's numbers in the middle of a run.

use proptest::prelude::*;
use tidegate_core::{Carry, Meter, Nanos};

use crate::cases;
use crate::model::{Bucket, Model, Windows};
use crate::quotas::{BucketNumbers, WindowNumbers, bucket, fitting, windows};
use crate::real::Word;
use crate::run::{Reach, Run};
use crate::steps::{Clock, any_steps, start};

fn carry() -> impl Strategy<Value = Carry> {
    prop_oneof![4 => Just(Carry::AsIs), 4 => Just(Carry::Proportional), 1 => Just(Carry::Reset)]
}

/// Two windows, most of them of the same algorithm and length.
fn edited_windows() -> impl Strategy<Value = (WindowNumbers, WindowNumbers)> {
    let same = (windows(), windows())
        .prop_map(|(old, new)| (old, WindowNumbers { limit: fitting(new.limit, old.length), ..old }));
    prop_oneof![4 => same, 1 => (windows(), windows())]
}

fn bucket_run(numbers: BucketNumbers, start: Nanos) -> Run<Word, Bucket> {
    let (real, clock) = (Word::new(bucket_meter(numbers)), Clock::new(start, numbers.unit()));
    Run::new(real, numbers.model(), clock, Reach::EVERYWHERE)
}

fn bucket_meter(numbers: BucketNumbers) -> Meter {
    Meter::TokenBucket(numbers.quota())
}

fn window_run(numbers: WindowNumbers, start: Nanos, reach: Reach) -> Run<Word, Windows> {
    let (real, clock) = (Word::new(numbers.meter()), Clock::new(start, numbers.length));
    Run::new(real, numbers.model(), clock, reach)
}

/// The run after its meter was replaced by `to`.
fn edited<M: Model>(run: Run<Word, M>, to: Meter, unit: u64, carry: Carry, model: M) -> Run<Word, M> {
    let state = run.real.meter.carry(run.real.state, &to, carry, run.now());
    run.edited(Word { meter: to, state }, model, unit)
}

proptest! {
    #![proptest_config(cases(1_024))]

    #[test]
    fn a_bucket_keeps_its_tokens(
        (old, new) in (bucket(), bucket()),
        start in start(),
        (before, after) in (any_steps(), any_steps()),
        carry in carry(),
    ) {
        let mut run = bucket_run(old, start);
        run.steps(&before);
        let carried = run.model.carry(new.model(), carry, run.now());
        edited(run, bucket_meter(new), new.unit(), carry, carried).steps(&after);
    }

    #[test]
    fn windows_keep_their_counts(
        (old, new) in edited_windows(),
        start in start(),
        (before, after) in (any_steps(), any_steps()),
        carry in carry(),
    ) {
        let mut run = window_run(old, start, old.reach().and(new.reach()));
        run.steps(&before);
        let carried = run.model.carry(new.model(), carry, run.now());
        edited(run, new.meter(), new.length, carry, carried).steps(&after);
    }

    /// Nothing is carried over between a bucket and a window.
    #[test]
    fn another_algorithm_starts_anew(
        (bucket, window) in (bucket(), windows()),
        start in start(),
        steps in any_steps(),
        carry in carry(),
    ) {
        let (mut from_bucket, mut from_window) = (bucket_run(bucket, start), window_run(window, start, window.reach()));
        from_bucket.steps(&steps);
        from_window.steps(&steps);
        let (of_bucket, of_window) = (&from_bucket.real, &from_window.real);
        prop_assert_eq!(of_bucket.meter.carry(of_bucket.state, &of_window.meter, carry, from_bucket.now()), 0);
        prop_assert_eq!(of_window.meter.carry(of_window.state, &of_bucket.meter, carry, from_window.now()), 0);
    }
}
