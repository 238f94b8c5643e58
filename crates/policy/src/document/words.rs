//! Translates the words of documents into values, and back.

use tidegate_core::{Algorithm, Carry};

use super::{BudgetMode, HeaderFamily, Mode, OnStoreError, Preset, Remainder, Sharing};

/// Words and what they mean.
pub(crate) type Words<T> = &'static [(&'static str, T)];

pub(crate) const ALGORITHMS: Words<Algorithm> = &[
    ("token_bucket", Algorithm::TokenBucket),
    ("sliding_window", Algorithm::SlidingWindow),
    ("sliding_log", Algorithm::SlidingLog),
    ("fixed_window", Algorithm::FixedWindow),
];
pub(crate) const PRESETS: Words<Preset> = &[
    ("interactive", Preset::Interactive),
    ("strict", Preset::Strict),
    ("batch", Preset::Batch),
    ("llm_tools", Preset::LlmTools),
];
pub(crate) const CARRY: Words<Carry> =
    &[("as_is", Carry::AsIs), ("proportional", Carry::Proportional), ("reset", Carry::Reset)];
pub(crate) const MODES: Words<Mode> = &[("enforce", Mode::Enforce), ("shadow", Mode::Shadow)];
pub(crate) const FAMILIES: Words<HeaderFamily> = &[
    ("x-ratelimit", HeaderFamily::XRateLimit),
    ("ratelimit-03", HeaderFamily::RateLimit03),
    ("ietf", HeaderFamily::Ietf),
];
pub(crate) const STORE_ERRORS: Words<OnStoreError> =
    &[("local", OnStoreError::Local), ("open", OnStoreError::Open), ("closed", OnStoreError::Closed)];
pub(crate) const SHARING: Words<Sharing> =
    &[("private", Sharing::Private), ("inherit", Sharing::Inherit), ("enforce", Sharing::Enforce)];
pub(crate) const BUDGETS: Words<BudgetMode> = &[
    ("unlimited", BudgetMode::Unlimited),
    ("allocated", BudgetMode::Allocated),
    ("shared", BudgetMode::Shared),
];
pub(crate) const REMAINDERS: Words<Remainder> =
    &[("shared", Remainder::Shared), ("reserve", Remainder::Reserve)];

/// The word for a value.
pub(crate) fn word_of<T: Copy + PartialEq>(words: Words<T>, value: T) -> &'static str {
    let found = words.iter().find(|(_, known)| *known == value);
    found.map(|(word, _)| *word).expect("the table has a word for every value")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_leads_back_to_its_value() {
        for (word, algorithm) in ALGORITHMS {
            assert_eq!(word_of(ALGORITHMS, *algorithm), *word);
        }
        for (word, family) in FAMILIES {
            assert_eq!(word_of(FAMILIES, *family), *word);
        }
    }
}
