//! Instants as the tables keep them.

use jiff::Timestamp;
use jiff::fmt::temporal::DateTimePrinter;

/// An instant: milliseconds since 1970 in UTC, between the years 0000 and 9999, which both databases can store and show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnixMillis(i64);

/// The first and the last instant that has a year of four digits.
const FIRST: i64 = -62_167_219_200_000;
const LAST: i64 = 253_402_207_200_000;

impl UnixMillis {
    /// An instant. One outside of the years 0000 to 9999 becomes the nearest inside.
    pub const fn new(millis: i64) -> UnixMillis {
        if millis < FIRST {
            UnixMillis(FIRST)
        } else if millis > LAST {
            UnixMillis(LAST)
        } else {
            UnixMillis(millis)
        }
    }

    /// Milliseconds since 1970.
    pub const fn get(self) -> i64 {
        self.0
    }

    /// This instant and `millis` more.
    #[must_use]
    pub const fn plus(self, millis: i64) -> UnixMillis {
        UnixMillis::new(self.0.saturating_add(millis))
    }

    /// As RFC 3339 in UTC, always with three digits after the second: such texts sort by time.
    pub fn to_text(self) -> String {
        const PRINTER: DateTimePrinter = DateTimePrinter::new().precision(Some(3));
        let instant = Timestamp::from_millisecond(self.0).expect("the constructor keeps it in range");
        PRINTER.timestamp_to_string(&instant)
    }

    /// Reads what [`UnixMillis::to_text`] writes, and any other RFC 3339 text.
    pub(crate) fn from_text(text: &str) -> Option<UnixMillis> {
        Some(UnixMillis::new(text.parse::<Timestamp>().ok()?.as_millisecond()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn texts_have_four_digits_of_the_year_and_three_after_the_second() {
        assert_eq!(UnixMillis::new(0).to_text(), "1970-01-01T00:00:00.000Z");
        assert_eq!(UnixMillis::new(1_700_000_000_120).to_text(), "2023-11-14T22:13:20.120Z");
        assert_eq!(UnixMillis::new(i64::MIN).to_text(), "0000-01-01T00:00:00.000Z");
        assert_eq!(UnixMillis::new(i64::MAX).to_text().len(), 24);
    }

    proptest! {
        #[test]
        fn texts_sort_as_their_instants_and_are_read_back(one: i64, other: i64) {
            let (one, other) = (UnixMillis::new(one), UnixMillis::new(other));
            prop_assert_eq!(one.cmp(&other), one.to_text().cmp(&other.to_text()));
            prop_assert_eq!(UnixMillis::from_text(&one.to_text()), Some(one));
        }
    }
}
