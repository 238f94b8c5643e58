//! A key whose numbers are overridden, in turn by one override and another: no token is lost or made beyond the rule.

use proptest::collection::vec;
use proptest::prelude::*;
use tidegate_core::{Cost, Limit, LimitVariant, Meter, Nanos, OverrideNumbers, Quota, Rate};

use crate::cases;
use crate::exact::{Exact, ratio, read, whole};
use crate::model::{Bucket, Limiter};
use crate::quotas::{bucket, windows};
use crate::real::Word;
use crate::run::Charge;
use crate::steps::{Act, Clock, forward_charges, start};

/// The variant of a step, as an index, and whether an idle key is dropped before it.
type Mood = (usize, bool);

fn variants() -> impl Strategy<Value = Vec<LimitVariant>> {
    let times = prop_oneof![1_u16..=10_000, Just(1), Just(10_000), Just(200), Just(50)];
    let rate = (1_u64..=1_000, prop::sample::select(vec![Nanos::SECOND, Nanos::MINUTE, Nanos::DAY]));
    let rate = rate.prop_map(|(tokens, window)| Rate::new(tokens, window).expect("in range"));
    let numbers = prop_oneof![
        2 => times.prop_map(|times| Some(OverrideNumbers::Times(times))),
        1 => (prop::option::of(rate), prop::option::of(1_u32..5_000))
            .prop_map(|(rate, capacity)| Some(OverrideNumbers::Fixed { rate, capacity })),
        1 => Just(None),
    ];
    let trust = prop_oneof![3 => Just(0_u8), 1 => Just(100), 1 => 0_u8..=100];
    vec((numbers, trust).prop_map(|(numbers, trust)| LimitVariant { numbers, trust }), 1..5)
}

fn moods() -> impl Strategy<Value = Vec<Mood>> {
    vec((any::<usize>(), any::<bool>()), 60)
}

/// The variants that are in range, the limit itself first.
fn in_range(limit: &Limit, variants: &[LimitVariant]) -> Vec<(LimitVariant, Limit)> {
    let all = std::iter::once(LimitVariant::PLAIN).chain(variants.iter().copied());
    all.filter_map(|variant| Some((variant, limit.at(variant).ok()?))).collect()
}

fn model(quota: &Quota) -> Bucket {
    Bucket::new(quota.rate().tokens(), Nanos::new(quota.rate().nanos()), quota.capacity())
}

fn quota_of(meter: &Meter) -> Quota {
    let Meter::TokenBucket(quota) = meter else { unreachable!("it is a bucket") };
    *quota
}

fn carried(from: (LimitVariant, &Meter), state: u64, to: (LimitVariant, &Meter), now: Nanos) -> u64 {
    if from.0 == to.0 {
        state
    } else if from.0.numbers == to.0.numbers {
        from.1.carry_trust(state, to.1, now)
    } else {
        from.1.carry_override(state, to.1, now)
    }
}

fn meter(limit: &Limit) -> Meter {
    *limit.meter().expect("its state is a word")
}

proptest! {
    #![proptest_config(cases(1_024))]

    /// Every number of every decision is that of the exact model. Over any time, no more is admitted than the largest
    /// capacity and the highest rate allow. A key that is dropped when it is idle is not given more.
    #[test]
    fn a_bucket_keeps_its_tokens_in_all_numbers(
        numbers in bucket(),
        start in start(),
        steps in forward_charges(),
        variants in variants(),
        moods in moods(),
    ) {
        let limit = Limit::from(numbers.quota());
        let variants = in_range(&limit, &variants);
        let longest_fill = variants.iter().map(|(_, limit)| limit.fill_time()).max().unwrap_or_default();
        let mut clock = Clock::new(start, numbers.unit());
        let (mut stored, mut held) = (0, model(&numbers.quota()));
        let mut word = Word::new(meter(&limit));
        let (mut kept, mut changes) = (Vec::<Charge>::new(), 0_u32);
        for (step, (choice, forgets)) in steps.iter().zip(&moods) {
            clock.advance(step.wait);
            let (now, wanted) = (clock.now, choice % variants.len());
            let (from, to) = (variants[stored].0, variants[wanted].0);
            let (found, meter) = (word.clone(), meter(&variants[wanted].1));
            let mut next = Word { meter, state: carried((from, &word.meter), word.state, (to, &meter), now) };
            let quota = quota_of(&meter);
            let mut expected = match () {
                () if from == to => held.clone(),
                () if from.numbers == to.numbers => held.retrusted(model(&quota), now),
                () => held.overridden(model(&quota), now),
            };
            prop_assert_eq!(next.peek(Cost::ONE, now), expected.peek(Cost::ONE, now));
            if from.numbers != to.numbers && *forgets && word.meter.is_idle_for(word.state, longest_fill, now) {
                prop_assert_eq!(next.peek(Cost::ONE, now), Word::new(meter).peek(Cost::ONE, now), "not yet full");
            }
            let Act::Take(amount) = step.act else { continue };
            let cost = clock.cost(amount, quota.capacity());
            let said = next.take(cost, now);
            prop_assert_eq!(said, expected.take(cost, now));
            if said.is_allowed() && cost > Cost::ZERO {
                changes += u32::from(stored != wanted);
                (stored, word, held) = (wanted, next, expected);
                kept.push(Charge { cost, at: now });
            } else if !said.is_allowed() && cost.get() <= quota.capacity() {
                let wait = found.meter.time_until_held(found.state, (&meter, from.numbers != to.numbers), cost, now).expect("a bucket");
                let wait = if from == to { Nanos::ZERO } else { wait };
                let wait = wait.max(said.wait().expect("it holds that at times"));
                let then = now.saturating_add(wait);
                if then <= Nanos::END {
                    let state = carried((from, &found.meter), found.state, (to, &meter), then);
                    let kept = Word { meter, state }.take(cost, then);
                    prop_assert!(kept.is_allowed(), "{cost} denied at {then}, as promised at {now}: {kept:?}");
                }
            }
            clock.hear(&said);
        }
        let quotas = variants.iter().map(|(_, limit)| match limit {
            Limit::Meter(Meter::TokenBucket(quota)) => *quota,
            _ => unreachable!("it is a bucket"),
        });
        let capacity = quotas.clone().map(|quota| quota.capacity()).max().unwrap_or_default();
        let fastest = quotas.map(|quota| quota.rate()).max().expect("there is the limit itself");
        let rate: Exact = ratio(fastest.tokens(), fastest.nanos());
        for (index, first) in kept.iter().enumerate() {
            let mut admitted = Exact::from_integer(0.into());
            for last in &kept[index..] {
                admitted += whole(last.cost.get());
                let elapsed = whole(read(last.at) - read(first.at)) + whole(changes + 1);
                let envelope = whole(capacity) + &rate * elapsed;
                prop_assert!(admitted <= envelope, "{admitted} from {} to {}, not {envelope}", first.at, last.at);
            }
        }
    }

    /// A window keeps its counts in all numbers, and admits no more in one window than the largest of them.
    #[test]
    fn windows_keep_their_counts_in_all_numbers(
        numbers in windows(),
        start in start(),
        steps in forward_charges(),
        variants in variants(),
        moods in moods(),
    ) {
        let limit = Limit::from(numbers.meter());
        let variants = in_range(&limit, &variants);
        let most = variants.iter().map(|(_, limit)| limit.capacity()).max().unwrap_or_default();
        let mut clock = Clock::new(start, numbers.length);
        let (mut stored, mut word) = (0, Word::new(meter(&limit)));
        let (mut window, mut admitted) = (0, 0_u64);
        for (step, (choice, _)) in steps.iter().zip(&moods) {
            clock.advance(step.wait);
            let (now, wanted) = (clock.now, choice % variants.len());
            let meter = meter(&variants[wanted].1);
            let from = (variants[stored].0, &word.meter);
            let mut next = Word { meter, state: carried(from, word.state, (variants[wanted].0, &meter), now) };
            let Act::Take(amount) = step.act else { continue };
            let cost = clock.cost(amount, variants[wanted].1.capacity());
            let said = next.take(cost, now);
            if read(now) / numbers.length != window {
                (window, admitted) = (read(now) / numbers.length, 0);
            }
            if said.is_allowed() && cost > Cost::ZERO {
                admitted += u64::from(cost.get());
                (stored, word) = (wanted, next);
            }
            prop_assert!(admitted <= u64::from(most), "{admitted} in one window, not {most}");
            clock.hear(&said);
        }
    }
}
