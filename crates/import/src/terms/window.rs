//! Lengths of time as policies write them.

use tidegate_core::Nanos;

/// The unit of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Millisecond,
    Second,
    Minute,
    Hour,
    Day,
}

impl Unit {
    /// Its name and its abbreviation in policies, and its length.
    fn parts(self) -> (&'static str, &'static str, Nanos) {
        match self {
            Unit::Millisecond => ("1ms", "ms", Nanos::MILLISECOND),
            Unit::Second => ("second", "s", Nanos::SECOND),
            Unit::Minute => ("minute", "m", Nanos::MINUTE),
            Unit::Hour => ("hour", "h", Nanos::HOUR),
            Unit::Day => ("day", "d", Nanos::DAY),
        }
    }

    /// The unit with this name, in upper or lower case.
    pub(crate) fn from_word(word: &str) -> Option<Unit> {
        let all = [Unit::Second, Unit::Minute, Unit::Hour, Unit::Day];
        all.into_iter().find(|unit| unit.parts().0.eq_ignore_ascii_case(word))
    }
}

/// A length of time: a number of units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UnitWindow {
    pub(crate) count: u64,
    pub(crate) unit: Unit,
}

impl UnitWindow {
    pub(crate) const SECOND: UnitWindow = UnitWindow { count: 1, unit: Unit::Second };
    pub(crate) const MINUTE: UnitWindow = UnitWindow { count: 1, unit: Unit::Minute };
    pub(crate) const DAY: UnitWindow = UnitWindow { count: 1, unit: Unit::Day };

    /// This many seconds, as minute, hour or day if it is exactly one.
    pub(crate) fn of_seconds(seconds: u64) -> UnitWindow {
        match seconds {
            60 => UnitWindow::MINUTE,
            3_600 => UnitWindow { count: 1, unit: Unit::Hour },
            86_400 => UnitWindow::DAY,
            _ => UnitWindow { count: seconds, unit: Unit::Second },
        }
    }

    /// `minute`, or a duration such as `30s`.
    pub(crate) fn to_text(self) -> String {
        let (word, letters, _) = self.unit.parts();
        if self.count == 1 { word.to_owned() } else { format!("{}{letters}", self.count) }
    }

    /// Its length, unless it overflows.
    pub(crate) fn nanos(self) -> Option<Nanos> {
        self.count.checked_mul(self.unit.parts().2.get()).map(Nanos::new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_told_in_words_where_they_fit() {
        let text = |seconds| UnitWindow::of_seconds(seconds).to_text();
        assert_eq!([text(1), text(60), text(90), text(86_400)], ["second", "minute", "90s", "day"]);
    }
}
