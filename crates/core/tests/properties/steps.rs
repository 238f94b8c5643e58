//! Random runs: which operations are applied to a limit, and when.
//!
//! A step chooses its instant and its cost relative to the last decision (one nanosecond before its retry, one
//! token more than it had left), because that is where errors are most likely.

use proptest::collection::vec;
use proptest::prelude::*;
use tidegate_core::{Cost, LimitDecision, Nanos};

/// How time moves before a step.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wait {
    Nanos(u64),
    /// By the last retry wait, plus this many nanoseconds.
    Retry(i64),
    /// By the last reset time, plus this many nanoseconds.
    Reset(i64),
    /// By this many eighths of the limit's own unit of time.
    Eighths(u64),
    /// To a multiple of the unit, plus this many nanoseconds.
    Multiple(u64, i64),
    /// To a whole second, plus this many nanoseconds: the ticks of all per-second limits meet there.
    Second(i64),
    Years(u64),
    Back(u64),
    BackEighths(u64),
    BackYears(u64),
    /// To the last instant, plus this many nanoseconds.
    End(i64),
    /// To the largest number.
    Max,
}

/// The cost of a step.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Amount {
    Tokens(u32),
    /// What was left at the last decision, plus this much.
    Left(i64),
    /// The limit, plus this much.
    Limit(i64),
    /// This many thousandths of the limit.
    Thousandths(u64),
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Act {
    Take(Amount),
    Peek(Amount),
    Refund(Amount),
    /// Hands back one of the charges that were not handed back yet.
    HandBack(usize),
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) wait: Wait,
    pub(crate) act: Act,
}

fn forward() -> impl Strategy<Value = Wait> {
    prop_oneof![
        4 => Just(Wait::Nanos(0)),
        2 => Just(Wait::Nanos(1)),
        2 => (0_u64..2_000).prop_map(Wait::Nanos),
        6 => (-2_i64..=2).prop_map(Wait::Retry),
        3 => (-2_i64..=2).prop_map(Wait::Reset),
        5 => (0_u64..24).prop_map(Wait::Eighths),
        1 => (0_u64..8_000).prop_map(Wait::Eighths),
        2 => (-1_i64..=1).prop_map(Wait::Second),
        4 => (0_u64..3, -2_i64..=2).prop_map(|(multiples, off)| Wait::Multiple(multiples, off)),
    ]
}

fn far() -> impl Strategy<Value = Wait> {
    prop_oneof![(1_u64..30).prop_map(Wait::Years), (-3_i64..=3).prop_map(Wait::End), Just(Wait::Max),]
}

fn back() -> impl Strategy<Value = Wait> {
    prop_oneof![
        3 => (1_u64..2_000).prop_map(Wait::Back),
        3 => (1_u64..24).prop_map(Wait::BackEighths),
        1 => (0_u64..8_000).prop_map(Wait::BackEighths),
        1 => (0_u64..100).prop_map(Wait::BackYears),
    ]
}

fn amount() -> impl Strategy<Value = Amount> {
    prop_oneof![
        1 => Just(Amount::Tokens(0)),
        4 => Just(Amount::Tokens(1)),
        3 => (2_u32..20).prop_map(Amount::Tokens),
        1 => any::<u32>().prop_map(Amount::Tokens),
        1 => Just(Amount::Tokens(u32::MAX)),
        4 => (-1_i64..=1).prop_map(Amount::Left),
        2 => (-2_i64..=1).prop_map(Amount::Limit),
        4 => (0_u64..=1_000).prop_map(Amount::Thousandths),
    ]
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        8 => amount().prop_map(Act::Take),
        2 => amount().prop_map(Act::Peek),
        1 => amount().prop_map(Act::Refund),
        2 => any::<usize>().prop_map(Act::HandBack),
    ]
}

/// Takes, some of which are handed back: for guarantees over a whole run.
fn charge() -> impl Strategy<Value = Act> {
    prop_oneof![
        6 => amount().prop_map(Act::Take),
        1 => any::<usize>().prop_map(Act::HandBack),
    ]
}

/// All operations, on a clock that moves in every way.
pub(crate) fn any_steps() -> impl Strategy<Value = Vec<Step>> {
    let wait = prop_oneof![20 => forward(), 5 => back(), 1 => far()];
    vec((wait, act()).prop_map(|(wait, act)| Step { wait, act }), 1..40)
}

/// Charges on a clock that never steps back.
pub(crate) fn forward_charges() -> impl Strategy<Value = Vec<Step>> {
    let wait = prop_oneof![40 => forward(), 1 => far()];
    vec((wait, charge()).prop_map(|(wait, act)| Step { wait, act }), 1..60)
}

/// The instant at which a run begins: the epoch, today, the last day, or any.
pub(crate) fn start() -> impl Strategy<Value = Nanos> {
    let (today, end) = (1_800_000_000_000_000_000_u64, Nanos::END.get());
    prop_oneof![
        1 => Just(0),
        4 => today..today + 1_000_000_000_000,
        1 => end - Nanos::DAY.get()..=end,
        2 => 0..end,
    ]
    .prop_map(Nanos::new)
}

/// A clock that moves by what the limit's decisions say.
#[derive(Clone, Debug)]
pub(crate) struct Clock {
    pub(crate) now: Nanos,
    unit: u64,
    retry: u64,
    reset: u64,
    left: u32,
}

impl Clock {
    /// `unit` is the time in which the state of the limit changes.
    pub(crate) fn new(now: Nanos, unit: u64) -> Clock {
        Clock { now, unit, retry: 0, reset: 0, left: 0 }
    }

    /// Stores what the limit has decided.
    pub(crate) fn hear(&mut self, decision: &LimitDecision) {
        self.retry = decision.wait().map_or(0, Nanos::get);
        self.reset = decision.reset_after.get();
        self.left = decision.remaining;
    }

    pub(crate) fn advance(&mut self, wait: Wait) {
        let (now, eighth) = (self.now.get(), (self.unit / 8).max(1));
        let past = |span: u64, off: i64| now.saturating_add(span).saturating_add_signed(off).max(now);
        self.now = Nanos::new(match wait {
            Wait::Nanos(nanos) => past(nanos, 0),
            Wait::Retry(off) => past(self.retry, off),
            Wait::Reset(off) => past(self.reset, off),
            Wait::Eighths(eighths) => past(eighth.saturating_mul(eighths), 0),
            Wait::Multiple(multiples, off) => {
                let next = (now / self.unit).saturating_add(multiples).saturating_mul(self.unit);
                next.saturating_add_signed(off).max(now)
            }
            Wait::Second(off) => {
                let next = now.div_ceil(Nanos::SECOND.get()).saturating_mul(Nanos::SECOND.get());
                next.saturating_add_signed(off).max(now)
            }
            Wait::Years(years) => past(years * Nanos::YEAR.get(), 0),
            Wait::Back(nanos) => now.saturating_sub(nanos),
            Wait::BackEighths(eighths) => now.saturating_sub(eighth.saturating_mul(eighths)),
            Wait::BackYears(years) => now.saturating_sub(years * Nanos::YEAR.get()),
            Wait::End(off) => Nanos::END.get().saturating_add_signed(off).max(now),
            Wait::Max => u64::MAX,
        });
    }

    /// The amount as a cost for a limit of `limit`.
    pub(crate) fn cost(&self, amount: Amount, limit: u32) -> Cost {
        let near = |number: u32, off: i64| (i64::from(number) + off).clamp(0, i64::from(u32::MAX)) as u32;
        Cost::new(match amount {
            Amount::Tokens(tokens) => tokens,
            Amount::Left(off) => near(self.left, off),
            Amount::Limit(off) => near(limit, off),
            Amount::Thousandths(share) => (u64::from(limit) * share / 1_000) as u32,
        })
    }
}
