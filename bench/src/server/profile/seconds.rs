//! The results of each second.

use serde::Serialize;

use crate::report::TextTable;
use crate::server::megabytes;
use crate::server::tally::{LatencyTally, Verdicts};
use crate::statistics::median;

/// One second of a profile.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ProfileSecond {
    pub(crate) second: usize,
    /// Requests sent, and responses received.
    pub(crate) offered: u64,
    pub(crate) answered: u64,
    pub(crate) p50_micros: f64,
    pub(crate) p99_micros: f64,
    #[serde(flatten)]
    pub(crate) verdicts: Verdicts,
    pub(crate) resident_megabytes: f64,
}

impl ProfileSecond {
    pub(super) fn new(
        second: usize,
        offered: u64,
        tally: &mut LatencyTally,
        resident: Option<u64>,
    ) -> ProfileSecond {
        let [p50_micros, p99_micros] = tally.micros();
        let verdicts = tally.verdicts;
        let (answered, resident_megabytes) = (verdicts.total(), megabytes(resident));
        ProfileSecond { second, offered, answered, p50_micros, p99_micros, verdicts, resident_megabytes }
    }

    /// The progress line.
    pub(super) fn line(&self) -> String {
        let ProfileSecond { second, answered, p99_micros, resident_megabytes, .. } = self;
        format!(
            "second {second}: {answered} answers, p99 {p99_micros:.0} us, {resident_megabytes:.1} MB resident"
        )
    }
}

/// The table as text.
pub(crate) fn table(seconds: &[ProfileSecond]) -> String {
    let mut table =
        TextTable::new(&["second", "offered", "answered", "denied", "p50 us", "p99 us", "resident MB"]);
    table.right(&[0, 1, 2, 3, 4, 5, 6]);
    for second in seconds {
        table.row([
            second.second.to_string(),
            second.offered.to_string(),
            second.answered.to_string(),
            second.verdicts.denied.to_string(),
            format!("{:.0}", second.p50_micros),
            format!("{:.0}", second.p99_micros),
            format!("{:.1}", second.resident_megabytes),
        ]);
    }
    table.text()
}

/// The ratio of resident memory in the last quarter to that in the second quarter, by which all keys have
/// been used once.
pub(super) fn memory_growth(seconds: &[ProfileSecond]) -> f64 {
    let quarter = seconds.len() / 4;
    let middle = |part: &[ProfileSecond]| {
        let resident: Vec<f64> = part.iter().map(|second| second.resident_megabytes).collect();
        median(&resident).unwrap_or(f64::NAN)
    };
    middle(&seconds[seconds.len() - quarter..]) / middle(&seconds[quarter..2 * quarter])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::wire::AnswerVerdict;

    #[test]
    fn growth_is_told_from_when_all_keys_are_there() {
        let seconds = |resident: [u64; 8]| {
            let second =
                |bytes| ProfileSecond::new(1, 0, &mut LatencyTally::default(), Some(bytes * 1_000_000));
            resident.map(second).to_vec()
        };
        assert!((memory_growth(&seconds([1, 5, 10, 10, 10, 10, 10, 10])) - 1.0).abs() < 1e-9);
        assert!((memory_growth(&seconds([1, 5, 10, 10, 12, 14, 16, 24])) - 2.0).abs() < 1e-9);
        assert!(memory_growth(&[]).is_nan(), "and meets no bar");
    }

    #[test]
    fn a_second_is_a_row() {
        let mut tally = LatencyTally::default();
        tally.add(AnswerVerdict::Denied, 12_000);
        tally.add(AnswerVerdict::Allowed, 10_000);
        let second = ProfileSecond::new(3, 2, &mut tally, Some(12_340_000));
        assert_eq!(second.line(), "second 3: 2 answers, p99 12 us, 12.3 MB resident");
        let text = table(&[second]);
        let row: Vec<&str> = text.lines().nth(1).unwrap().split_whitespace().collect();
        assert_eq!(row, ["3", "2", "2", "1", "10", "12", "12.3"]);
    }
}
