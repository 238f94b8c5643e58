//! The token bucket.

use num_traits::Zero;
use proptest::prelude::*;
use tidegate_core::{Meter, Nanos, Outcome};

use crate::cases;
use crate::exact::{Exact, whole};
use crate::model::{Bucket, Limiter};
use crate::quotas::{BucketNumbers, bucket};
use crate::real::Word;
use crate::run::{Charge, Reach, Run};
use crate::steps::{Act, Clock, Step, any_steps, forward_charges, start};

fn real(numbers: BucketNumbers) -> Word {
    Word::new(Meter::TokenBucket(numbers.quota()))
}

/// The charges of a run that are admitted and not handed back, in order.
fn kept(numbers: BucketNumbers, start: Nanos, steps: &[Step]) -> Vec<Charge> {
    let (mut real, mut clock) = (real(numbers), Clock::new(start, numbers.unit()));
    let mut kept = Vec::<Charge>::new();
    for step in steps {
        clock.advance(step.wait);
        match step.act {
            Act::Take(amount) => {
                let charge = Charge { cost: clock.cost(amount, numbers.capacity), at: clock.now };
                let said = real.take(charge.cost, charge.at);
                if said.outcome == Outcome::Allowed {
                    kept.push(charge);
                }
                clock.hear(&said);
            }
            Act::HandBack(which) if !kept.is_empty() => {
                let charge = kept.remove(which % kept.len());
                real.hand_back(charge.cost, charge.at, clock.now);
            }
            _ => {}
        }
    }
    kept
}

/// From each charge to each later one, at most the capacity plus the refill on the bucket's own clock.
fn stays_within_the_envelope(bucket: &Bucket, kept: &[Charge]) {
    for (index, first) in kept.iter().enumerate() {
        let mut admitted = Exact::zero();
        for last in &kept[index..] {
            admitted += whole(last.cost.get());
            let most = bucket.envelope(first.at, last.at);
            assert!(admitted <= most, "{admitted} from {} to {}, not {most}", first.at, last.at);
        }
    }
}

proptest! {
    #![proptest_config(cases(1_024))]

    #[test]
    fn agrees_with_the_model(numbers in bucket(), start in start(), steps in any_steps()) {
        let clock = Clock::new(start, numbers.unit());
        Run::new(real(numbers), numbers.model(), clock, Reach::EVERYWHERE).steps(&steps);
    }

    #[test]
    fn never_admits_more_than_the_burst_and_the_rate(
        numbers in bucket(),
        start in start(),
        steps in forward_charges(),
    ) {
        stays_within_the_envelope(&numbers.model(), &kept(numbers, start, &steps));
    }
}
