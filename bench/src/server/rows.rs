//! The rows of the table, one for each lane.

use serde::Serialize;

use super::closed_loop::TurnResult;
use super::lanes::MeasuredLane;
use super::tally::Verdicts;
use crate::report::TextTable;

/// One contender under load; numbers are medians over the rounds, decisions are counted over all rounds.
#[derive(Debug, Serialize)]
pub(crate) struct ServedRow {
    pub(crate) contender: &'static str,
    pub(crate) what: &'static str,
    pub(crate) connections: usize,
    pub(crate) under_way: usize,
    pub(crate) per_second: f64,
    pub(crate) p50_micros: f64,
    pub(crate) p99_micros: f64,
    pub(crate) cpu_micros_per_decision: f64,
    pub(crate) per_cpu_second: f64,
    /// How many CPUs the server and the client kept busy.
    pub(crate) server_busy: f64,
    pub(crate) client_busy: f64,
    #[serde(flatten)]
    pub(crate) verdicts: Verdicts,
}

impl ServedRow {
    pub(crate) fn of(measured: &MeasuredLane) -> ServedRow {
        let MeasuredLane { lane, turns } = measured;
        let mut verdicts = Verdicts::default();
        for turn in turns {
            verdicts.allowed += turn.verdicts.allowed;
            verdicts.denied += turn.verdicts.denied;
        }
        ServedRow {
            contender: lane.host.name(),
            what: lane.what,
            connections: lane.load.connections,
            under_way: lane.load.depth,
            per_second: measured.median(TurnResult::per_second),
            p50_micros: measured.median(|turn| turn.p50_micros),
            p99_micros: measured.median(|turn| turn.p99_micros),
            cpu_micros_per_decision: measured.median(TurnResult::server_micros),
            per_cpu_second: measured.median(TurnResult::per_server_second),
            server_busy: measured.median(|turn| turn.server_seconds / turn.seconds),
            client_busy: measured.median(|turn| turn.client_seconds / turn.seconds),
            verdicts,
        }
    }
}

/// The table as text.
pub(crate) fn table(rows: &[ServedRow]) -> String {
    let mut table = TextTable::new(&[
        "contender",
        "request",
        "conns x deep",
        "answers/s",
        "p50 us",
        "p99 us",
        "CPU us each",
        "per CPU-s",
        "CPUs",
        "client",
        "allowed",
        "denied",
    ]);
    table.right(&[2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
    for row in rows {
        table.row([
            row.contender.to_owned(),
            row.what.to_owned(),
            format!("{} x {}", row.connections, row.under_way),
            format!("{:.0}", row.per_second),
            format!("{:.0}", row.p50_micros),
            format!("{:.0}", row.p99_micros),
            format!("{:.2}", row.cpu_micros_per_decision),
            format!("{:.0}", row.per_cpu_second),
            format!("{:.2}", row.server_busy),
            format!("{:.2}", row.client_busy),
            row.verdicts.allowed.to_string(),
            row.verdicts.denied.to_string(),
        ]);
    }
    table.text()
}
