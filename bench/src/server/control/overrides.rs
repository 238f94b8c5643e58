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

/// A server, and its results round by round.
struct Overridden {
    what: &'static str,
    host: ControlHost,
    turns: Vec<TurnResult>,
}

/// Adds what it has measured to the report.
pub(super) fn measure(program: &Path, quick: bool, report: &mut Report) -> Result<(), ServerBenchError> {
    let start = |what, name| -> Result<Overridden, ServerBenchError> {
        let policy = policy_of_modes();
        let options = HostOptions { name, policy: Some(&policy), database: HostDatabase::None };
        Ok(Overridden { what, host: ControlHost::start(program, options)?, turns: Vec::new() })
    };
    let mut servers = [start("no overrides", "plain")?, start("10,000 overrides", "overrides")?];
    add_overrides(&servers[1].host)?;
    let (rounds, millis) = if quick { (5, 500) } else { (15, 1_000) };
    let spans =
        LoadDurations { warm_up: Duration::from_millis(300), measured: Duration::from_millis(millis) };
    for round in 0..rounds {
        eprintln!("overrides: round {} of {rounds}", round + 1);
        // In turns, so that neither of the two always comes first.
        for index in if round % 2 == 0 { [0, 1] } else { [1, 0] } {
            let Overridden { what, host, turns } = &mut servers[index];
            let cpu = || host.server.cpu_nanos_of(DECIDING);
            let mut keys = KeySequence::of(KeyPopulation::Many, round);
            let protocol = || Box::new(Http::check(HOT_THREE)) as _;
            let turn = closed_loop::run(host.http, protocol, LOAD, &mut keys, spans, &cpu);
            turns.push(turn.map_err(|source| ServerBenchError::Talk { host: "tidegate", what, source })?);
        }
    }
    let [without, with] = &servers;
    for server in [without, with] {
        let what = format!("{}: decisions for each CPU-second", server.what);
        report.figures.push(decisions_figure(what, &server.turns));
    }
    report.figures.push(others_figure("overrides", &[&without.turns, &with.turns]));
    let left = median_ratio(&per_cpu_second(&with.turns), &per_cpu_second(&without.turns));
    let name = "decisions per CPU-second with 10,000 overrides, in those without";
    report.bars.push(Bar::new(name, left.unwrap_or(f64::NAN), Side::AtLeast, LEAST_LEFT, "x"));
    Ok(())
}

/// Adds the overrides, each for a user of its own.
fn add_overrides(host: &ControlHost) -> Result<(), ServerBenchError> {
    let mut admin = host.admin_api()?;
    for number in 0..COUNT {
        if number % 1_000 == 0 {
            eprintln!("adding overrides: {number} of {COUNT}");
        }
        let user = format!("user:{:08}", number * EACH);
        let body = format!(r#"{{"who":{{"user":"{user}"}},"limit":"hot-user","multiplier":1.5}}"#);
        admin.call("POST", "/api/v1/overrides", "application/json", &body)?;
    }
    Ok(())
}
