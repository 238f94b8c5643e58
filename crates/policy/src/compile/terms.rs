//! Compiles the terms that limits and tenants' limits share.

use tidegate_core::{Algorithm, Cost, Limit, Nanos, QuotaError};

use super::Compiler;
use crate::document::{Burst, CostEntry, LimitTerms, Mode, Preset, StrategyEntry, Sustained};
use crate::rules::{CostRule, Numbers, Strategy};
use crate::{Problem, Span};

const MILLION: u128 = 1_000_000;

impl Compiler<'_> {
    /// The numbers of terms; `None` if they have none, or wrong ones, which are reported.
    pub(super) fn numbers(&mut self, path: &str, terms: &LimitTerms) -> Option<Numbers> {
        let sustained = terms.sustained.as_ref()?;
        let algorithm = algorithm(terms);
        let capacity = self.capacity(path, terms, sustained)?;
        let numbers = Numbers { rate: sustained.rate.value, window: sustained.window.value, capacity };
        if algorithm == Algorithm::TokenBucket && u128::from(capacity) < in_a_second(numbers) {
            let at = terms.burst.as_ref().map_or(sustained.at, |burst| burst.at);
            let message = "the burst is smaller than what the rate brings in one second";
            let problem = Problem::warning(at, format!("{path}.burst"), message);
            self.report(problem.saw(numbers.to_string()).hint(
                "clients that send once a second cannot use the whole rate; raise the burst if they should",
            ));
        }
        match numbers.limit(algorithm) {
            Ok(_) => Some(numbers),
            Err(error) => {
                let at = wrong_field(&error, terms, sustained);
                self.out_of_range(at, &format!("{path}.sustained"), &error, numbers);
                None
            }
        }
    }

    fn capacity(&mut self, path: &str, terms: &LimitTerms, sustained: &Sustained) -> Option<u32> {
        let rate = u128::from(sustained.rate.value);
        let (at, capacity) = match (&terms.burst, &terms.preset) {
            (Some(burst), _) => match burst.value {
                Burst::Capacity(capacity) => return Some(capacity),
                Burst::Allowance(millionths) => (burst.at, (rate * u128::from(millionths) / MILLION).max(1)),
            },
            (None, Some(preset)) => (preset.at, rate * u128::from(burst_factor(preset.value))),
            (None, None) => (sustained.rate.at, rate),
        };
        if algorithm(terms) != Algorithm::TokenBucket {
            // Window algorithms have no burst, and a rate out of range is reported as such.
            return Some(u32::try_from(capacity).unwrap_or(u32::MAX));
        }
        u32::try_from(capacity).ok().or_else(|| {
            let problem = Problem::error(at, format!("{path}.burst"), "the burst is too large");
            let want = format!("at most {}", u32::MAX);
            let hint = "write `burst: { capacity: … }`, which need not be as large as the rate";
            self.report(problem.saw(capacity.to_string()).want(want).hint(hint));
            None
        })
    }

    pub(super) fn out_of_range(&mut self, at: Span, path: &str, error: &QuotaError, numbers: Numbers) {
        let text = error.to_string();
        let (message, hint) = text.split_once("; ").unwrap_or((&text, ""));
        let problem = Problem::error(at, path, message).saw(numbers.to_string());
        self.report(if hint.is_empty() { problem } else { problem.hint(hint) });
    }

    /// At full trust the numbers are up to twice as large. They must be in range then, too.
    pub(super) fn check_trust(&mut self, at: Span, path: &str, limit: &Limit, numbers: Numbers) {
        if let Err(error) = limit.trusted(100) {
            self.out_of_range(at, path, &error, numbers);
            if let Some(problem) = self.problems.last_mut() {
                problem.message = format!("at full trust, {}", problem.message);
            }
        }
    }

    pub(super) fn mode(&self, mode: Option<Mode>) -> Mode {
        // In a policy in shadow mode no limit is enforced.
        match (self.defaults.mode, mode) {
            (Some(Mode::Shadow), _) | (_, Some(Mode::Shadow)) => Mode::Shadow,
            _ => Mode::Enforce,
        }
    }
}

pub(super) fn algorithm(terms: &LimitTerms) -> Algorithm {
    terms.algorithm.as_ref().map_or(Algorithm::TokenBucket, |algorithm| algorithm.value)
}

pub(super) fn cost(entry: Option<&CostEntry>) -> CostRule {
    match entry {
        None => CostRule::Fixed(Cost::ONE),
        Some(CostEntry::Fixed(cost)) => CostRule::Fixed(Cost::new(cost.value)),
        Some(CostEntry::From { from, default, max }) => CostRule::From {
            descriptor: from.value.clone(),
            default: Cost::new(*default),
            max: Cost::new(*max),
        },
    }
}

pub(super) fn strategy(entry: &StrategyEntry) -> Strategy {
    match entry {
        StrategyEntry::Reject => Strategy::Reject,
        StrategyEntry::Queue { max_depth, max_wait } => {
            Strategy::Queue { max_depth: *max_depth, max_wait: *max_wait }
        }
        StrategyEntry::Degrade { tag } => Strategy::Degrade { tag: tag.as_str().into() },
    }
}

/// How many tokens the rate brings in a second, or in its window if that is shorter; rounded down.
fn in_a_second(numbers: Numbers) -> u128 {
    let span = numbers.window.get().min(Nanos::SECOND.get());
    u128::from(numbers.rate) * u128::from(span) / u128::from(numbers.window.get())
}

fn burst_factor(preset: Preset) -> u32 {
    match preset {
        Preset::Interactive => 5,
        Preset::Strict | Preset::LlmTools => 1,
        Preset::Batch => 10,
    }
}

/// The field that an error is about.
fn wrong_field(error: &QuotaError, terms: &LimitTerms, sustained: &Sustained) -> Span {
    match error {
        QuotaError::TooLongToFill { .. } | QuotaError::ZeroCapacity => {
            terms.burst.as_ref().map_or(sustained.rate.at, |burst| burst.at)
        }
        QuotaError::ZeroWindow | QuotaError::WindowTooLong { .. } | QuotaError::TooSlow { .. } => {
            sustained.window.at
        }
        _ => sustained.rate.at,
    }
}
