//! The text that is stored with a state: the numbers in which the state is written.

use std::fmt::Write;

use tidegate_core::{Limit, LogQuota, Meter, Nanos, Quota, WindowQuota};

use crate::registry::keys::letter;

/// The numbers in which a state is written: those of the limit, the trust in hundredths that scales them, and an
/// edition. A limit that is edited and edited back has the same numbers again, but a state from before the first edit
/// must not be read as a current one; the edition counts how often the limit was edited back to these numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StateNumbers {
    pub(crate) limit: Limit,
    pub(crate) trust: u8,
    pub(crate) edition: u32,
}

impl StateNumbers {
    /// `b 1 6000000000 10` is a bucket of ten tokens, refilled by one in six seconds. At its end, `t50` is the trust of
    /// the key, and `e1` the second edition.
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
        for (letter, number) in [('t', u32::from(self.trust)), ('e', self.edition)] {
            if number > 0 {
                write!(text, " {letter}{number}").expect("writing to a String does not fail");
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
        let mut numbers = StateNumbers { limit, trust: 0, edition: 0 };
        for word in words {
            match word.split_at_checked(1)? {
                ("t", trust) => numbers.trust = trust.parse().ok()?,
                ("e", edition) => numbers.edition = edition.parse().ok()?,
                _ => return None,
            }
        }
        (numbers.text() == text).then_some(numbers)
    }

    /// The limit scaled by the trust; `None` if it cannot be.
    pub(crate) fn scaled(&self) -> Option<Limit> {
        self.limit.trusted(self.trust).ok()
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
            for (trust, edition) in [(0, 0), (50, 0), (0, 3), (100, 1)] {
                let numbers = StateNumbers { limit, trust, edition };
                assert_eq!(StateNumbers::parse(numbers.text().as_bytes()), Some(numbers));
            }
        }
        assert_eq!(StateNumbers { limit: limits[0], trust: 5, edition: 2 }.text(), "b 1 100000000 50 t5 e2");
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
