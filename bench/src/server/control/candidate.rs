//! What a candidate costs: three limits on Redis with a candidate of three limits beside them, compared with none. The
//! candidate has other numbers, and would deny one request in eight.

use std::path::Path;
use std::time::Duration;

use super::host::{ControlHost, HostDatabase, HostOptions, StoreHost};
use super::{LOAD, others_figure};
use crate::report::{Bar, Figure, Report, Side};
use crate::server::ServerBenchError;
use crate::server::closed_loop::{self, LoadDurations, TurnResult};
use crate::server::limits::{HOT_THREE, KeyPopulation, KeySequence, draft_of_modes, policy_of_modes};
use crate::server::wire::http::Http;
use crate::statistics::{median, median_ratio};

/// The most that decisions may cost with a candidate, in the cost without.
const MOST: f64 = 1.6;

/// The server, its Redis, and how their CPU time is read.
struct Shared {
    host: ControlHost,
    redis: StoreHost,
}

impl Shared {
    fn start(program: &Path, postgres: Option<&str>) -> Result<Shared, ServerBenchError> {
        let redis = StoreHost::start()?;
        let options = HostOptions { name: "candidate", policy: None, database: HostDatabase::of(postgres) };
        let host = ControlHost::start_with(program, options, &redis.settings("strict"))?;
        host.admin_api()?.call("PUT", "/api/v1/policy", "application/yaml", &policy_of_modes())?;
        Ok(Shared { host, redis })
    }

    /// One turn; its CPU time is that of the server and of Redis together.
    fn turn(&self, round: u64, spans: LoadDurations) -> Result<TurnResult, ServerBenchError> {
        let (host, what) = ("tidegate", "decisions beside a candidate");
        let cpu = || Ok(self.host.server.cpu_nanos()? + self.redis.server.cpu_nanos()?);
        let mut keys = KeySequence::of(KeyPopulation::Hot, round);
        let protocol = || Box::new(Http::check(HOT_THREE)) as _;
        let turn = closed_loop::run(self.host.http, protocol, LOAD, &mut keys, spans, &cpu);
        let turn = turn.map_err(|source| ServerBenchError::Talk { host, what, source })?;
        match KeyPopulation::Hot.expects(turn.verdicts) {
            true => Ok(turn),
            false => Err(ServerBenchError::Verdicts { host, what, verdicts: turn.verdicts }),
        }
    }

    /// The same while a candidate decides beside the policy.
    fn turn_beside(&self, round: u64, spans: LoadDurations) -> Result<TurnResult, ServerBenchError> {
        let mut admin = self.host.admin_api()?;
        let added = admin.call("POST", "/api/v1/candidates", "application/yaml", &draft_of_modes())?;
        let turn = self.turn(round, spans);
        let id = added["id"].as_str().unwrap_or_default();
        // The server closes a connection that is not used for some seconds.
        let mut admin = self.host.admin_api()?;
        let report = admin.call("GET", &format!("/api/v1/candidates/{id}/report"), "", "")?;
        admin.call("DELETE", &format!("/api/v1/candidates/{id}"), "", "")?;
        let count = |name: &str| report["totals"][name].as_u64().unwrap_or_default();
        let (alike, denied, lost) = (count("both_admit"), count("newly_denied"), count("not_compared"));
        let turn = turn?;
        // All requests are compared, those of the one user differ, and next to none is lost.
        let is_measured =
            alike + denied >= turn.verdicts.allowed && denied * 16 >= alike && lost * 1_000 <= alike;
        match is_measured {
            true => Ok(turn),
            false => Err(ServerBenchError::NotFollowed("a candidate")),
        }
    }
}

/// Adds what it has measured to the report.
pub(super) fn measure(
    program: &Path,
    postgres: Option<&str>,
    quick: bool,
    report: &mut Report,
) -> Result<(), ServerBenchError> {
    let shared = Shared::start(program, postgres)?;
    let (rounds, millis) = if quick { (5, 500) } else { (15, 1_000) };
    let spans =
        LoadDurations { warm_up: Duration::from_millis(300), measured: Duration::from_millis(millis) };
    let (mut without, mut with) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        eprintln!("deciding beside a candidate: round {} of {rounds}", round + 1);
        // In turns, so that neither of the two always comes first.
        for is_beside in [round % 2 == 0, round % 2 == 1] {
            match is_beside {
                true => with.push(shared.turn_beside(round, spans)?),
                false => without.push(shared.turn(round, spans)?),
            }
        }
    }
    let micros = |turns: &[TurnResult]| turns.iter().map(TurnResult::server_micros).collect::<Vec<f64>>();
    let latency = |turns: &[TurnResult]| turns.iter().map(|turn| turn.p50_micros).collect::<Vec<f64>>();
    let mut figure = |what: &str, values: &[f64]| {
        let (what, value) = (format!("three limits on Redis: {what}"), median(values).unwrap_or(f64::NAN));
        report.figures.push(Figure { what, contender: "tidegate", value, unit: "µs" });
    };
    figure("CPU time of server and Redis for a decision, no candidate", &micros(&without));
    figure("CPU time of server and Redis for a decision, with a candidate", &micros(&with));
    figure("median latency, no candidate", &latency(&without));
    figure("median latency, with a candidate", &latency(&with));
    report.figures.push(others_figure("deciding beside a candidate", &[&without, &with]));
    let cost = median_ratio(&micros(&with), &micros(&without)).unwrap_or(f64::NAN);
    let name = "CPU time for a decision by three limits on Redis with a candidate, in that without";
    report.bars.push(Bar::new(name, cost, Side::AtMost, MOST, "x"));
    Ok(())
}
