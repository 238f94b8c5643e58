//! A key whose trust alternates: over any time it is admitted no more than the highest trust allows.

use proptest::collection::vec;
use proptest::prelude::*;
use tidegate_core::sliding_log::{Log, LogGrowth};
use tidegate_core::{Cost, Limit, LogQuota, Meter, Nanos, Quota};

use crate::cases;
use crate::exact::{Exact, ratio, read, whole};
use crate::model::{Bucket, Limiter};
use crate::quotas::{bucket, log, windows};
use crate::real::Word;
use crate::run::Charge;
use crate::steps::{Act, Clock, Step, forward_charges, start};

/// The trust of a step, and whether an idle key is dropped before it.
#[derive(Clone, Copy, Debug)]
struct Mood {
    trust: u8,
    forgets: bool,
}

fn moods() -> impl Strategy<Value = Vec<Mood>> {
    let trust = prop_oneof![3 => Just(0_u8), 3 => Just(100), 1 => Just(1), 1 => Just(99), 2 => 0_u8..=100];
    vec((trust, any::<bool>()).prop_map(|(trust, forgets)| Mood { trust, forgets }), 60)
}

/// Are the numbers of the limit in range at every trust?
fn scales(limit: &Limit) -> bool {
    (0..=Limit::TRUST_MAX).all(|trust| limit.trusted(trust).is_ok())
}

fn meter(limit: &Limit, trust: u8) -> Meter {
    *limit.trusted(trust).expect("it scales").meter().expect("its state is a word")
}

fn model(quota: &Quota) -> Bucket {
    Bucket::new(quota.rate().tokens(), Nanos::new(quota.rate().nanos()), quota.capacity())
}

fn cost_of(step: &Step, clock: &Clock, most: u32) -> Option<Cost> {
    match step.act {
        Act::Take(amount) => Some(clock.cost(amount, most)),
        _ => None,
    }
}

/// A key whose state is a word, as a store keeps it: a denial writes nothing, and an idle state may be dropped.
struct Key<'l> {
    limit: &'l Limit,
    word: Word,
    kept: Vec<Charge>,
    /// How often it was charged at another trust than before.
    changes: u32,
}

impl<'l> Key<'l> {
    fn new(limit: &'l Limit) -> Key<'l> {
        Key { limit, word: Word::new(meter(limit, 0)), kept: Vec::new(), changes: 0 }
    }

    /// The state at a trust.
    fn at(&mut self, mood: Mood, now: Nanos) -> Word {
        let plain = self.limit.capacity();
        if mood.forgets && self.word.meter.is_idle_at_any_trust(self.word.state, plain, now) {
            self.word.state = 0;
        }
        let meter = meter(self.limit, mood.trust);
        if meter == self.word.meter {
            return self.word.clone();
        }
        Word { meter, state: self.word.meter.carry_trust(self.word.state, &meter, now) }
    }

    fn charge(&mut self, mut word: Word, cost: Cost, now: Nanos) -> tidegate_core::LimitDecision {
        let said = word.take(cost, now);
        if said.is_allowed() && cost > Cost::ZERO {
            self.changes += u32::from(word.meter != self.word.meter);
            self.word = word;
            self.kept.push(Charge { cost, at: now });
        }
        said
    }
}

proptest! {
    #![proptest_config(cases(1_024))]

    /// From each charge to each later one at most the largest capacity plus the refill at the highest rate.
    /// `now` is rounded down to a tick of less than a nanosecond, and each change of trust changes the tick.
    #[test]
    fn a_bucket_admits_no_more_than_the_most_trust_allows(
        numbers in bucket(),
        start in start(),
        steps in forward_charges(),
        moods in moods(),
    ) {
        let limit = Limit::from(numbers.quota());
        prop_assume!(scales(&limit));
        let (mut key, mut clock) = (Key::new(&limit), Clock::new(start, numbers.unit()));
        for (step, mood) in steps.iter().zip(&moods) {
            clock.advance(step.wait);
            let word = key.at(*mood, clock.now);
            if let Some(cost) = cost_of(step, &clock, Limit::from(word.meter).capacity()) {
                let said = key.charge(word, cost, clock.now);
                clock.hear(&said);
            }
        }
        let Meter::TokenBucket(most) = meter(&limit, Limit::TRUST_MAX) else { unreachable!() };
        let rate: Exact = ratio(most.rate().tokens(), most.rate().nanos());
        for (index, first) in key.kept.iter().enumerate() {
            let mut admitted = Exact::from_integer(0.into());
            for last in &key.kept[index..] {
                admitted += whole(last.cost.get());
                let elapsed = whole(read(last.at) - read(first.at)) + whole(key.changes + 1);
                let envelope = whole(most.capacity()) + &rate * elapsed;
                prop_assert!(admitted <= envelope, "{admitted} from {} to {}, not {envelope}", first.at, last.at);
            }
        }
    }

    /// The same bucket in an exact model, and the wait of a denial that leaves it at another trust.
    #[test]
    fn a_bucket_keeps_its_tokens_at_every_trust(
        numbers in bucket(),
        start in start(),
        steps in forward_charges(),
        moods in moods(),
    ) {
        let limit = Limit::from(numbers.quota());
        prop_assume!(scales(&limit));
        let (mut key, mut clock) = (Key::new(&limit), Clock::new(start, numbers.unit()));
        let mut held = model(&numbers.quota());
        for (step, mood) in steps.iter().zip(&moods) {
            clock.advance(step.wait);
            let now = clock.now;
            let word = key.at(Mood { forgets: false, ..*mood }, now);
            let Meter::TokenBucket(quota) = word.meter else { unreachable!() };
            let mut expected =
                if word.meter == key.word.meter { held.clone() } else { held.retrusted(model(&quota), now) };
            prop_assert_eq!(word.peek(Cost::ONE, now), expected.peek(Cost::ONE, now));
            let Some(cost) = cost_of(step, &clock, quota.capacity()) else { continue };
            let (found, found_under) = (key.word.state, key.word.meter);
            let said = key.charge(word.clone(), cost, now);
            prop_assert_eq!(said, expected.take(cost, now));
            if said.is_allowed() && cost > Cost::ZERO {
                held = expected;
            } else if !said.is_allowed() && cost.get() <= quota.capacity() {
                let wait = found_under.time_until_held(found, (&word.meter, false), cost, now).expect("a bucket");
                let then = now.saturating_add(wait.max(said.wait().expect("it holds that at times")));
                if then <= Nanos::END {
                    let kept = key.at(Mood { forgets: false, ..*mood }, then).take(cost, then);
                    prop_assert!(kept.is_allowed(), "{cost} denied at {then}, as promised at {now}: {kept:?}");
                }
            }
            let is_idle = key.word.meter.is_idle_at_any_trust(key.word.state, limit.capacity(), now);
            let is_full = held.came_in(now) >= whole(2 * u64::from(limit.capacity()));
            prop_assert_eq!(is_idle, is_full || key.kept.is_empty());
            clock.hear(&said);
        }
    }

    /// What is counted at one trust counts at every other: with all of it no window exceeds what the highest
    /// trust allows.
    #[test]
    fn windows_admit_no_more_than_the_most_trust_allows(
        numbers in windows(),
        start in start(),
        steps in forward_charges(),
        moods in moods(),
    ) {
        let limit = Limit::from(numbers.meter());
        prop_assume!(scales(&limit));
        let (mut key, mut clock) = (Key::new(&limit), Clock::new(start, numbers.length));
        let most = limit.trusted(Limit::TRUST_MAX).expect("it scales").capacity();
        for (step, mood) in steps.iter().zip(&moods) {
            clock.advance(step.wait);
            let word = key.at(*mood, clock.now);
            let Some(cost) = cost_of(step, &clock, Limit::from(word.meter).capacity()) else { continue };
            let said = key.charge(word, cost, clock.now);
            clock.hear(&said);
            if !said.is_allowed() || cost == Cost::ZERO {
                continue;
            }
            let (now, length) = (read(clock.now), numbers.length);
            let counted = |window: u64| -> u64 {
                let inside = key.kept.iter().filter(|charge| read(charge.at) / length == window);
                inside.map(|charge| u64::from(charge.cost.get())).sum()
            };
            let window = now / length;
            let before = match numbers.meter() {
                Meter::SlidingWindow(_) => window.checked_sub(1).map_or(0, counted),
                _ => 0,
            };
            let weight = whole(before) * ratio(length - now % length, length);
            let estimate = weight + whole(counted(window));
            prop_assert!(estimate <= whole(most), "{estimate} of {most} at {}", clock.now);
        }
    }

    #[test]
    fn nor_does_a_log(quota in log(), start in start(), steps in forward_charges(), moods in moods()) {
        let limit = Limit::from(quota);
        prop_assume!(scales(&limit));
        let (mut log, mut clock) = (Log::default(), Clock::new(start, quota.window().get()));
        let most = limit.trusted(Limit::TRUST_MAX).expect("it scales").capacity();
        let mut kept: Vec<Charge> = Vec::new();
        for (step, mood) in steps.iter().zip(&moods) {
            clock.advance(step.wait);
            let scaled = LogQuota::new(limit.trusted(mood.trust).expect("it scales").capacity(), quota.window());
            let scaled = scaled.expect("it scales");
            let Some(cost) = cost_of(step, &clock, scaled.limit()) else { continue };
            let said = log.take(&scaled, cost, clock.now, LogGrowth::Grow);
            clock.hear(&said);
            if said.is_allowed() {
                kept.push(Charge { cost, at: clock.now });
                let counts = |charge: &&Charge| read(charge.at) + quota.window().get() > read(clock.now);
                let counted: u64 = kept.iter().filter(counts).map(|charge| u64::from(charge.cost.get())).sum();
                prop_assert!(counted <= u64::from(most), "{counted} of {most} at {}", clock.now);
            }
        }
    }
}
