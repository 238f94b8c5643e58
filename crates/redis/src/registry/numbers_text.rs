//! The text that is stored with a state: the numbers in which the state is written.

use std::fmt::Write;

use tidegate_core::{Limit, LimitVariant, LogQuota, Meter, Nanos, OverrideNumbers, Quota, Rate, WindowQuota};

use crate::registry::keys::letter;

/// The numbers in which a state is written: those of the limit, the override and the trust that scale them, and an
/// edition. A limit that is edited and edited back has the same numbers again, but a state from before the first edit
/// must not be read as a current one; the edition counts how often the limit was edited back to these numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StateNumbers {
    pub(crate) limit: Limit,
    pub(crate) variant: LimitVariant,
    pub(crate) edition: u32,
}

impl StateNumbers {
    /// `b 1 6000000000 10` is a bucket of ten tokens, refilled by one in six seconds. At its end, `m200` is a multiplier
    /// in hundredths, `r1/5000000000` and `c20` are a rate and a capacity in place of those of the limit, `t50` is the
    /// trust of the key, and `e1` the second edition.
    pub(crate) fn text(&self) -> String {
        let letter = letter(&self.limit);
        let mut text = match &self.limit {
            Limit::Meter(Meter::TokenBucket(quota)) => {
                format!("{letter} {} {} {}", quota.rate().tokens(), quota.rate().nanos(), quota.capacity())
            }
            Limit::Meter(Meter::SlidingWindow(quota) | Meter::FixedWindow(quota)) => {
                format!("{letter} {} {}", quota.limit(), quota.length().get())
            }
            Limit::Log(quota) => format!("{letter} {} {}", quota.limit(), quota.window().get()),
        };
        let write = |text: &mut String, word: std::fmt::Arguments<'_>| {
            text.write_fmt(word).expect("writing to a String does not fail");
        };
        match self.variant.numbers {
            None => {}
            Some(OverrideNumbers::Times(hundredths)) => write(&mut text, format_args!(" m{hundredths}")),
            Some(OverrideNumbers::Fixed { rate, capacity }) => {
                if let Some(rate) = rate {
                    write(&mut text, format_args!(" r{}/{}", rate.tokens(), rate.nanos()));
                }
                if let Some(capacity) = capacity {
                    write(&mut text, format_args!(" c{capacity}"));
                }
            }
        }
        for (letter, number) in [('t', u32::from(self.variant.trust)), ('e', self.edition)] {
            if number > 0 {
                write(&mut text, format_args!(" {letter}{number}"));
            }
        }
        text
    }

    /// Parses a text; `None` if it is not exactly as [`StateNumbers::text`] writes it.
    pub(crate) fn parse(text: &[u8]) -> Option<StateNumbers> {
        let text = std::str::from_utf8(text).ok()?;
        let mut words = text.split(' ');
        let letter = words.next()?;
        let mut number = || words.next()?.parse::<u64>().ok();
        let limit = match letter {
            "b" => {
                let (tokens, nanos, capacity) = (number()?, number()?, number()?);
                Quota::new(tokens, Nanos::new(nanos), u32::try_from(capacity).ok()?).ok()?.into()
            }
            "s" => Limit::sliding_window(window(number()?, number()?)?),
            "f" => Limit::fixed_window(window(number()?, number()?)?),
            "l" => {
                let (limit, window) = (number()?, number()?);
                LogQuota::new(u32::try_from(limit).ok()?, Nanos::new(window)).ok()?.into()
            }
            _ => return None,
        };
        let mut numbers = StateNumbers { limit, variant: LimitVariant::PLAIN, edition: 0 };
        for word in words {
            match word.split_at_checked(1)? {
                ("m", times) => {
                    numbers.variant.numbers = Some(OverrideNumbers::Times(times.parse().ok()?));
                }
                ("r", rate) => {
                    let (tokens, nanos) = rate.split_once('/')?;
                    let rate = Rate::new(tokens.parse().ok()?, Nanos::new(nanos.parse().ok()?)).ok()?;
                    numbers.variant.numbers =
                        Some(OverrideNumbers::Fixed { rate: Some(rate), capacity: None });
                }
                ("c", number) => {
                    let rate = match numbers.variant.numbers {
                        Some(OverrideNumbers::Fixed { rate, .. }) => rate,
                        _ => None,
                    };
                    let capacity = Some(number.parse().ok()?);
                    numbers.variant.numbers = Some(OverrideNumbers::Fixed { rate, capacity });
                }
                ("t", trust) => numbers.variant.trust = trust.parse().ok()?,
                ("e", edition) => numbers.edition = edition.parse().ok()?,
                _ => return None,
            }
        }
        (numbers.text() == text).then_some(numbers)
    }

    /// The limit in the numbers of the variant; `None` if it cannot have them.
    pub(crate) fn scaled(&self) -> Option<Limit> {
        self.limit.at(self.variant).ok()
    }
}

fn window(limit: u64, length: u64) -> Option<WindowQuota> {
    WindowQuota::new(u32::try_from(limit).ok()?, Nanos::new(length)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_reads_back() {
        let minute = WindowQuota::new(100, Nanos::MINUTE).unwrap();
        let limits = [
            Limit::from(Quota::new(600, Nanos::MINUTE, 50).unwrap()),
            Limit::sliding_window(minute),
            Limit::fixed_window(minute),
            LogQuota::new(100, Nanos::MINUTE).unwrap().into(),
        ];
        for limit in limits {
            let rate = Some(Rate::new(1, Nanos::MINUTE).unwrap());
            let overrides = [
                None,
                Some(OverrideNumbers::Times(250)),
                Some(OverrideNumbers::Fixed { rate, capacity: Some(3) }),
                Some(OverrideNumbers::Fixed { rate, capacity: None }),
                Some(OverrideNumbers::Fixed { rate: None, capacity: Some(3) }),
            ];
            let all = [(0, 0), (50, 0), (0, 3), (100, 1)];
            for (numbers, (trust, edition)) in overrides.into_iter().flat_map(|one| all.map(|two| (one, two)))
            {
                let numbers = StateNumbers { limit, variant: LimitVariant { numbers, trust }, edition };
                assert_eq!(StateNumbers::parse(numbers.text().as_bytes()), Some(numbers));
            }
        }
        let variant = LimitVariant { numbers: Some(OverrideNumbers::Times(250)), trust: 5 };
        let numbers = StateNumbers { limit: limits[0], variant, edition: 2 };
        assert_eq!(numbers.text(), "b 1 100000000 50 m250 t5 e2");
    }

    #[test]
    fn nothing_else_does() {
        let wrong = [
            "",
            "b",
            "b 1 2",
            "b 0 1 1",
            "b 2 200000000 50",
            "b 1 100000000 50 ",
            "b 1 100000000 050",
            "b 1 100000000 50 t0",
            "b 1 100000000 50 e1 t5",
            "b 1 100000000 50 x1",
            "b 1 100000000 50 m0250",
            "b 1 100000000 50 m250 c3",
            "b 1 100000000 50 c3 r1/5",
            "b 1 100000000 50 r2/4",
            "s 10 0",
            "l 10001 60000000000",
            "q 1 1",
            "b 1 100000000 99999999999",
            "\u{fe}",
        ];
        for text in wrong {
            assert_eq!(StateNumbers::parse(text.as_bytes()), None, "{text:?}");
        }
        assert_eq!(StateNumbers::parse(b"\xff 1 2 3"), None);
    }
}
