//! The results, as a text table or as JSON.

use std::process::ExitCode;

use serde::Serialize;

use crate::rounds::{AnswerCounts, Expected};
use crate::server::control::{ReachCell, reach_table};
use crate::server::{self, ProfileSecond, ServedRow};

/// All results of a run.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Report {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) rows: Vec<Row>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) served: Vec<ServedRow>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) seconds: Vec<ProfileSecond>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) reach: Vec<ReachCell>,
    pub(crate) figures: Vec<Figure>,
    pub(crate) bars: Vec<Bar>,
    pub(crate) notes: Vec<&'static str>,
}

/// One contender in one case.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) case: String,
    pub(crate) expected: Expected,
    pub(crate) threads: usize,
    pub(crate) contender: &'static str,
    pub(crate) nanos_per_op: f64,
    #[serde(flatten)]
    pub(crate) counts: AnswerCounts,
    /// Its time as a multiple of governor's, and of the bare compare-and-swap's.
    pub(crate) times_governor: Option<f64>,
    pub(crate) times_bare_cas: Option<f64>,
}

/// A single result that is not a row.
#[derive(Debug, Serialize)]
pub(crate) struct Figure {
    pub(crate) what: String,
    pub(crate) contender: &'static str,
    pub(crate) value: f64,
    pub(crate) unit: &'static str,
}

/// On which side of a bar a result must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Side {
    AtMost,
    AtLeast,
    Below,
}

/// A threshold that a result must meet.
#[derive(Debug, Serialize)]
pub(crate) struct Bar {
    pub(crate) name: String,
    pub(crate) measured: f64,
    pub(crate) side: Side,
    pub(crate) bar: f64,
    pub(crate) unit: &'static str,
    pub(crate) met: bool,
}

impl Bar {
    pub(crate) fn new(
        name: impl Into<String>,
        measured: f64,
        side: Side,
        bar: f64,
        unit: &'static str,
    ) -> Bar {
        // NaN compares as false, so a missing result meets no bar.
        let met = match side {
            Side::AtMost => measured <= bar,
            Side::AtLeast => measured >= bar,
            Side::Below => measured < bar,
        };
        Bar { name: name.into(), measured, side, bar, unit, met }
    }
}

impl Report {
    /// Prints the report as text or as JSON; with `check` a missed bar is a failure.
    pub(crate) fn finish(&self, json: bool, check: bool) -> Result<ExitCode, serde_json::Error> {
        if json {
            println!("{}", serde_json::to_string_pretty(self)?);
        } else {
            print!("{}", self.text());
        }
        Ok(if check && !self.all_met() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }

    /// Whether all measured bars are met.
    pub(crate) fn all_met(&self) -> bool {
        self.bars.iter().all(|bar| bar.met)
    }

    /// The table as text.
    pub(crate) fn text(&self) -> String {
        let mut sections = Vec::new();
        if !self.rows.is_empty() {
            sections.push(self.rows_table());
        }
        if !self.served.is_empty() {
            sections.push(server::served_table(&self.served));
        }
        if !self.seconds.is_empty() {
            sections.push(server::seconds_table(&self.seconds));
        }
        if !self.reach.is_empty() {
            sections.push(reach_table(&self.reach));
        }
        if !self.figures.is_empty() {
            sections.push(self.figures_table());
        }
        if !self.bars.is_empty() {
            sections.push(self.bars_table());
        }
        if !self.notes.is_empty() {
            let lines: Vec<String> = self.notes.iter().map(|note| format!("- {note}\n")).collect();
            sections.push(format!("notes\n{}", lines.concat()));
        }
        sections.join("\n")
    }

    fn rows_table(&self) -> String {
        let mut table = TextTable::new(&[
            "case",
            "",
            "threads",
            "contender",
            "ns/op",
            "allowed",
            "denied",
            "x governor",
            "x bare CAS",
        ]);
        table.right(&[2, 4, 5, 6, 7, 8]);
        let ratio = |ratio: Option<f64>| ratio.map_or_else(String::new, |ratio| format!("{ratio:.2}"));
        for row in &self.rows {
            table.row([
                row.case.clone(),
                row.expected.to_string(),
                row.threads.to_string(),
                row.contender.to_owned(),
                format!("{:.1}", row.nanos_per_op),
                row.counts.allowed.to_string(),
                row.counts.denied.to_string(),
                ratio(row.times_governor),
                ratio(row.times_bare_cas),
            ]);
        }
        table.text()
    }

    fn figures_table(&self) -> String {
        let mut table = TextTable::new(&["measure", "contender", "value", ""]);
        table.right(&[2]);
        for figure in &self.figures {
            let Figure { what, contender, value, unit } = figure;
            table.row([what.clone(), (*contender).to_owned(), number(*value), (*unit).to_owned()]);
        }
        table.text()
    }

    fn bars_table(&self) -> String {
        let mut table = TextTable::new(&["bar", "measured", "must be", "", ""]);
        table.right(&[1]);
        for bar in &self.bars {
            let side = match bar.side {
                Side::AtMost => "at most",
                Side::AtLeast => "at least",
                Side::Below => "below",
            };
            table.row([
                bar.name.clone(),
                number(bar.measured),
                format!("{side} {}", bar.bar),
                bar.unit.to_owned(),
                (if bar.met { "met" } else { "MISSED" }).to_owned(),
            ]);
        }
        table.text()
    }
}

/// Without decimals if it is whole or large, else with enough digits.
fn number(value: f64) -> String {
    if value.fract() == 0.0 || value.abs() >= 1_000.0 {
        format!("{value:.0}")
    } else if value.abs() < 0.1 {
        format!("{value:.4}")
    } else {
        format!("{value:.2}")
    }
}

/// A text table with columns as wide as their longest cell.
pub(crate) struct TextTable {
    rows: Vec<Vec<String>>,
    right: Vec<usize>,
}

impl TextTable {
    pub(crate) fn new(headings: &[&str]) -> TextTable {
        TextTable {
            rows: vec![headings.iter().map(|&heading| heading.to_owned()).collect()],
            right: Vec::new(),
        }
    }

    /// Right-aligns these columns.
    pub(crate) fn right(&mut self, columns: &[usize]) {
        self.right = columns.to_vec();
    }

    pub(crate) fn row(&mut self, cells: impl Into<Vec<String>>) {
        self.rows.push(cells.into());
    }

    pub(crate) fn text(&self) -> String {
        let width = |column: usize| {
            self.rows
                .iter()
                .filter_map(|row| row.get(column))
                .map(|cell| cell.chars().count())
                .max()
                .unwrap_or(0)
        };
        let mut text = String::new();
        for row in &self.rows {
            let cells: Vec<String> = row
                .iter()
                .enumerate()
                .map(|(column, cell)| match self.right.contains(&column) {
                    true => format!("{cell:>width$}", width = width(column)),
                    false => format!("{cell:<width$}", width = width(column)),
                })
                .collect();
            text = text + cells.join("  ").trim_end() + "\n";
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let mut table = TextTable::new(&["name", "n"]);
        table.right(&[1]);
        table.row(["a".to_owned(), "1000".to_owned()]);
        table.row(["longer".to_owned(), "2".to_owned()]);
        assert_eq!(table.text(), "name       n\na       1000\nlonger     2\n");
    }

    #[test]
    fn numbers_have_the_digits_that_tell_something() {
        let shown = [0.0, 87.0, 22.857, 1_234_567.8, 0.0423, 0.5].map(number);
        assert_eq!(shown, ["0", "87", "22.86", "1234568", "0.0423", "0.50"]);
    }

    #[test]
    fn a_bar_has_a_good_side() {
        let met = |measured, side| Bar::new("", measured, side, 2.0, "").met;
        assert!(met(2.0, Side::AtMost) && !met(2.1, Side::AtMost));
        assert!(met(2.0, Side::AtLeast) && !met(1.9, Side::AtLeast));
        assert!(met(1.9, Side::Below) && !met(2.0, Side::Below));
        for side in [Side::AtMost, Side::AtLeast, Side::Below] {
            assert!(!met(f64::NAN, side), "what was not measured is not met");
        }
    }

    #[test]
    fn one_missed_bar_is_enough() {
        let mut report = Report::default();
        assert!(report.all_met());
        report.bars.push(Bar::new("speed", 1.0, Side::AtMost, 2.0, ""));
        assert!(report.all_met());
        report.bars.push(Bar::new("size", 30.0, Side::AtMost, 24.0, "bytes"));
        assert!(!report.all_met());
        let text = report.text();
        assert!(text.starts_with("bar ") && text.contains("size") && text.contains("MISSED"), "{text}");
    }

    #[test]
    fn programs_can_read_it() {
        let row = Row {
            case: "hot".to_owned(),
            expected: Expected::Denying,
            threads: 2,
            contender: "ours",
            nanos_per_op: 12.5,
            counts: AnswerCounts { allowed: 0, denied: 7 },
            times_governor: Some(0.5),
            times_bare_cas: None,
        };
        let report = Report { rows: vec![row], ..Report::default() };
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(json["rows"][0]["expected"], "denying");
        assert_eq!(json["rows"][0]["denied"], 7);
        assert_eq!(json["rows"][0]["times_bare_cas"], serde_json::Value::Null);
    }
}
