//! The results: actions by kinds of fleets.

use serde::Serialize;

use super::actions::Measured;
use crate::report::TextTable;
use crate::statistics::median;

/// One action on one kind of fleet.
#[derive(Debug, Serialize)]
pub(crate) struct ReachCell {
    pub(crate) action: &'static str,
    pub(crate) fleet: &'static str,
    pub(crate) times: usize,
    pub(crate) median_millis: f64,
    pub(crate) longest_millis: f64,
}

impl ReachCell {
    /// The actions on a fleet, in the order of their first time.
    pub(super) fn of(fleet: &'static str, measured: &[Measured]) -> Vec<ReachCell> {
        let actions = in_order(measured.iter().map(|&(action, _)| action));
        let cell = |action: &'static str| {
            let of_it = measured.iter().filter(|(name, _)| *name == action);
            let millis: Vec<f64> = of_it.map(|&(_, millis)| millis).collect();
            ReachCell {
                action,
                fleet,
                times: millis.len(),
                median_millis: median(&millis).unwrap_or(f64::NAN),
                longest_millis: millis.iter().copied().reduce(f64::max).unwrap_or(f64::NAN),
            }
        };
        actions.into_iter().map(cell).collect()
    }
}

/// The table as text: a row for each action, a column for each fleet.
pub(crate) fn table(cells: &[ReachCell]) -> String {
    let actions = in_order(cells.iter().map(|cell| cell.action));
    let fleets = in_order(cells.iter().map(|cell| cell.fleet));
    let headings: Vec<&str> =
        ["median / longest ms until all nodes follow"].into_iter().chain(fleets.iter().copied()).collect();
    let mut table = TextTable::new(&headings);
    table.right(&(1..headings.len()).collect::<Vec<_>>());
    for action in actions {
        let mut row = vec![action.to_owned()];
        row.extend(fleets.iter().map(|fleet| {
            let cell = cells.iter().find(|cell| cell.action == action && cell.fleet == *fleet);
            cell.map_or_else(String::new, |cell| {
                format!("{:.0} / {:.0}", cell.median_millis, cell.longest_millis)
            })
        }));
        table.row(row);
    }
    table.text()
}

/// Each name once.
fn in_order(names: impl Iterator<Item = &'static str>) -> Vec<&'static str> {
    let mut known = Vec::new();
    for name in names {
        if !known.contains(&name) {
            known.push(name);
        }
    }
    known
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_an_action_and_a_column_a_fleet() {
        let mut cells =
            ReachCell::of("Redis", &[("reset", 10.0), ("lift", 7.0), ("reset", 20.0), ("reset", 31.0)]);
        cells.extend(ReachCell::of("a database", &[("reset", 5.0)]));
        assert_eq!(cells[0].times, 3);
        let text = table(&cells);
        let words: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert!(words[0].ends_with(&["Redis", "a", "database"]), "{text}");
        assert_eq!(words[1], ["reset", "20", "/", "31", "5", "/", "5"]);
        assert_eq!(words[2], ["lift", "7", "/", "7"], "a database does not share it");
    }
}
