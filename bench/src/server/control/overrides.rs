//! What overrides cost the threads that decide: 10,000 of them, of which some match, compared with none.

use std::path::Path;
use std::time::Duration;

use super::host::{ControlHost, HostDatabase, HostOptions};
use super::{DECIDING, LEAST_LEFT, LOAD, decisions_figure, others_figure, per_cpu_second};
use crate::report::{Bar, Report, Side};
use crate::server::ServerBenchError;
use crate::server::closed_loop::{self, LoadDurations, TurnResult};
use crate::server::limits::{HOT_THREE, KeyPopulation, KeySequence, policy_of_modes};
use crate::server::wire::http::Http;
use crate::statistics::median_ratio;

/// How many overrides there are. The users of the load have smaller numbers, so one in ten has an override.
const COUNT: u32 = 10_000;
const EACH: u32 = 10;
/// How many different multipliers they have: more than people choose.
const MULTIPLIERS: u32 = 100;

/// Two servers that are alike. Each has the overrides in one half of the rounds, so that a difference between the two
/// processes counts once for the overrides and once against them.
struct Pair {
    hosts: [ControlHost; 2],
    without: Vec<TurnResult>,
    with: Vec<TurnResult>,
}

impl Pair {
    fn start(program: &Path) -> Result<Pair, ServerBenchError> {
        let policy = policy_of_modes();
        let start = |name| {
            let options = HostOptions { name, policy: Some(&policy), database: HostDatabase::None };
            ControlHost::start(program, options)
        };
        let hosts = [start("overrides-a")?, start("overrides-b")?];
        Ok(Pair { hosts, without: Vec::new(), with: Vec::new() })
    }

    /// A half of the rounds, in which `overridden` has the overrides; returns the median of the ratios.
    fn measure_half(
        &mut self,
        overridden: usize,
        rounds: std::ops::Range<u64>,
        spans: LoadDurations,
    ) -> Result<f64, ServerBenchError> {
        let added = add_overrides(&self.hosts[overridden])?;
        let before = self.with.len();
        for round in rounds {
            eprintln!("overrides: round {}", round + 1);
            // In turns, so that neither of the two always comes first.
            for is_overridden in [round % 2 == 0, round % 2 == 1] {
                let host = &self.hosts[if is_overridden { overridden } else { 1 - overridden }];
                let turn = turn(host, round, spans)?;
                if is_overridden { &mut self.with } else { &mut self.without }.push(turn);
            }
        }
        remove_overrides(&self.hosts[overridden], &added)?;
        let (with, without) = (&self.with[before..], &self.without[before..]);
        let left = median_ratio(&per_cpu_second(with), &per_cpu_second(without));
        Ok(left.unwrap_or(f64::NAN))
    }
}

fn turn(host: &ControlHost, round: u64, spans: LoadDurations) -> Result<TurnResult, ServerBenchError> {
    let cpu = || host.server.cpu_nanos_of(DECIDING);
    let mut keys = KeySequence::of(KeyPopulation::Many, round);
    let protocol = || Box::new(Http::check(HOT_THREE)) as _;
    let turn = closed_loop::run(host.http, protocol, LOAD, &mut keys, spans, &cpu);
    turn.map_err(|source| ServerBenchError::Talk { host: "tidegate", what: "overrides", source })
}

/// Adds what it has measured to the report.
pub(super) fn measure(program: &Path, quick: bool, report: &mut Report) -> Result<(), ServerBenchError> {
    let mut pair = Pair::start(program)?;
    let (half, millis) = if quick { (3, 500) } else { (8, 1_000) };
    let spans =
        LoadDurations { warm_up: Duration::from_millis(300), measured: Duration::from_millis(millis) };
    let first = pair.measure_half(1, 0..half, spans)?;
    let second = pair.measure_half(0, half..2 * half, spans)?;
    for (what, turns) in [("no overrides", &pair.without), ("10,000 overrides", &pair.with)] {
        report.figures.push(decisions_figure(format!("{what}: decisions for each CPU-second"), turns));
    }
    report.figures.push(others_figure("overrides", &[&pair.without, &pair.with]));
    let name = "decisions per CPU-second with 10,000 overrides, in those without";
    // The geometric mean: a difference between the processes multiplies one of the two and divides the other.
    report.bars.push(Bar::new(name, (first * second).sqrt(), Side::AtLeast, LEAST_LEFT, "x"));
    Ok(())
}

/// Adds the overrides, each for a user of its own; returns their ids.
fn add_overrides(host: &ControlHost) -> Result<Vec<String>, ServerBenchError> {
    let mut admin = host.admin_api()?;
    let mut ids = Vec::new();
    for number in 0..COUNT {
        if number % 1_000 == 0 {
            eprintln!("adding overrides: {number} of {COUNT}");
        }
        let user = format!("user:{:08}", number * EACH);
        // Some lower multipliers would deny what is admitted without them.
        let multiplier = 1.5 + f64::from(number % MULTIPLIERS) / 2.0;
        let body = format!(r#"{{"who":{{"user":"{user}"}},"limit":"hot-user","multiplier":{multiplier}}}"#);
        let added = admin.call("POST", "/api/v1/overrides", "application/json", &body)?;
        ids.push(added["id"].as_str().unwrap_or_default().to_owned());
    }
    Ok(ids)
}

fn remove_overrides(host: &ControlHost, ids: &[String]) -> Result<(), ServerBenchError> {
    eprintln!("removing overrides");
    let mut admin = host.admin_api()?;
    for id in ids {
        admin.call("DELETE", &format!("/api/v1/overrides/{id}"), "", "")?;
    }
    Ok(())
}
