//! What records cost the threads that decide: denials that are recorded in a database, compared with those that are not.

use std::path::Path;
use std::time::Duration;

use super::host::{ControlHost, HostDatabase, HostOptions};
use super::{DECIDING, LEAST_LEFT, LOAD, decisions_figure, others_figure, per_cpu_second};
use crate::report::{Bar, Figure, Report, Side};
use crate::server::ServerBenchError;
use crate::server::closed_loop::{self, LoadDurations, TurnResult};
use crate::server::limits::{DENIED, KeyPopulation, KeySequence, policy_of_modes};
use crate::server::metrics::RecordUse;
use crate::server::process::pause;
use crate::server::wire::ClientProtocol;
use crate::server::wire::http::{DenialMix, Http};
use crate::statistics::median_ratio;
use crate::stopwatch::Stopwatch;

/// Denials are written at the latest after this many seconds, and a little time for writing them.
const WRITTEN_SECONDS: f64 = 15.0;

/// A kind of load.
#[derive(Clone, Copy)]
struct DenialLoad {
    what: &'static str,
    population: KeyPopulation,
    protocol: fn() -> Box<dyn ClientProtocol>,
}

const TEN_THOUSAND: DenialLoad = DenialLoad {
    what: "10,000 denials a second among other decisions",
    population: KeyPopulation::HotAndDenied,
    protocol: || Box::new(DenialMix::new()),
};
const NOTHING_ELSE: DenialLoad = DenialLoad {
    what: "nothing but denials of 10,000 users",
    population: KeyPopulation::Many,
    protocol: || Box::new(Http::check(DENIED)),
};

/// A server, and its results round by round.
struct Recording {
    what: &'static str,
    host: ControlHost,
    turns: Vec<TurnResult>,
}

/// Adds what it has measured to the report.
pub(super) fn measure(
    program: &Path,
    postgres: Option<&str>,
    quick: bool,
    report: &mut Report,
) -> Result<(), ServerBenchError> {
    let start = |what, name, database| -> Result<Recording, ServerBenchError> {
        let policy = policy_of_modes();
        let options = HostOptions { name, policy: Some(&policy), database };
        Ok(Recording { what, host: ControlHost::start(program, options)?, turns: Vec::new() })
    };
    let mut servers = [
        start("no records", "no-records", HostDatabase::None)?,
        start("records in a database", "records", HostDatabase::of(postgres))?,
    ];
    // First the one that uses up the single token of each user.
    let left = rounds(&mut servers, NOTHING_ELSE, quick, report)?;
    report.bars.push(bar_of(NOTHING_ELSE, left));
    let before = all_stored(&servers[1].host)?;
    let left = rounds(&mut servers, TEN_THOUSAND, quick, report)?;
    report.bars.push(bar_of(TEN_THOUSAND, left));
    add_stored(report, before, all_stored(&servers[1].host)?);
    Ok(())
}

/// The bar for the decisions with records, in those without.
fn bar_of(load: DenialLoad, left: f64) -> Bar {
    let name = format!("decisions per CPU-second with records, in those without: {}", load.what);
    Bar::new(name, left, Side::AtLeast, LEAST_LEFT, "x")
}

/// Measures both servers in turns under a load; returns the decisions with records, in those without.
fn rounds(
    servers: &mut [Recording; 2],
    load: DenialLoad,
    quick: bool,
    report: &mut Report,
) -> Result<f64, ServerBenchError> {
    let (rounds, millis) = if quick { (5, 500) } else { (15, 1_000) };
    let spans =
        LoadDurations { warm_up: Duration::from_millis(300), measured: Duration::from_millis(millis) };
    servers.iter_mut().for_each(|server| server.turns.clear());
    for round in 0..rounds {
        eprintln!("{}: round {} of {rounds}", load.what, round + 1);
        // In turns, so that neither of the two always comes first.
        for index in if round % 2 == 0 { [0, 1] } else { [1, 0] } {
            let Recording { what, host, turns } = &mut servers[index];
            let cpu = || host.server.cpu_nanos_of(DECIDING);
            let mut keys = KeySequence::of(load.population, round);
            let turn = closed_loop::run(host.http, load.protocol, LOAD, &mut keys, spans, &cpu);
            turns.push(turn.map_err(|source| ServerBenchError::Talk { host: "tidegate", what, source })?);
        }
    }
    let [without, with] = &*servers;
    for server in [without, with] {
        let what = format!("{}: {}, decisions for each CPU-second", load.what, server.what);
        report.figures.push(decisions_figure(what, &server.turns));
    }
    report.figures.push(others_figure(load.what, &[&without.turns, &with.turns]));
    let denied = |turns: &[TurnResult]| {
        let (denied, seconds) = turns.iter().fold((0, 0.0), |(denied, seconds), turn| {
            (denied + turn.verdicts.denied, seconds + turn.seconds)
        });
        denied as f64 / seconds
    };
    let what = format!("{}: denials a second, with records", load.what);
    report.figures.push(Figure { what, contender: "tidegate", value: denied(&with.turns), unit: "/s" });
    Ok(median_ratio(&per_cpu_second(&with.turns), &per_cpu_second(&without.turns)).unwrap_or(f64::NAN))
}

/// Waits until everything is written.
fn all_stored(host: &ControlHost) -> Result<RecordUse, ServerBenchError> {
    eprintln!("waiting until all denials are stored");
    let watch = Stopwatch::start();
    loop {
        let counts = host.record_use()?;
        // What the threads that decide have counted is handed over in intervals, and waits nowhere until then.
        if watch.seconds() > WRITTEN_SECONDS
            && (counts.waiting == 0 || watch.seconds() > 3.0 * WRITTEN_SECONDS)
        {
            return Ok(counts);
        }
        pause();
    }
}

fn add_stored(report: &mut Report, before: RecordUse, after: RecordUse) {
    let figures = [
        ("written", after.written - before.written),
        ("merged without details", after.merged - before.merged),
    ];
    for (what, count) in figures {
        let what = format!("{}: records {what}", TEN_THOUSAND.what);
        report.figures.push(Figure { what, contender: "tidegate", value: count as f64, unit: "" });
    }
    let lost = (after.lost + after.waiting) as f64;
    report.bars.push(Bar::new("records that were lost or are not written yet", lost, Side::AtMost, 0.0, ""));
}
