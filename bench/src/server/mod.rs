//! Measures the server over the loopback interface, beside throttlecrab-server and Redis.

mod bars;
mod closed_loop;
mod connection;
pub(crate) mod control;
mod hosts;
mod lanes;
mod limits;
mod machine;
mod metrics;
mod process;
mod profile;
mod programs;
mod rows;
mod tally;
pub(crate) mod tokens;
mod wire;

use std::collections::HashMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::ValueEnum;
use clap::builder::RangedU64ValueParser;

pub(crate) use process::{ServerProcess, StartError, free_address};
pub(crate) use profile::{ProfileSecond, table as seconds_table};
pub(crate) use programs::{ProgramError, redis};
pub(crate) use rows::{ServedRow, table as served_table};

use crate::report::{Figure, Report};
use closed_loop::LoadDurations;
use connection::ExchangeError;
use hosts::RunningServer;
use lanes::{LANES, Lane, MeasuredLane, ServerKind};
use limits::KeySequence;
use profile::LoadShape;
use tally::Verdicts;

/// The server over the loopback interface: HTTP, RESP and Envoy's rate limit service.
///
/// Starts Tidegate, throttlecrab-server and redis-server, sends requests to all of them with the same client, and
/// prints the CPU time per response; then the bars (thresholds) that Tidegate must meet. throttlecrab-server is built
/// on first use, which needs protoc; redis-server must be installed. Only the servers that are needed are started.
/// Exit 0: done; 1: a bar was missed (with --check) or measuring failed; 2: bad usage.
#[derive(Debug, clap::Args)]
pub(crate) struct ServerArgs {
    /// Exit 1 if a bar is missed
    #[arg(long)]
    check: bool,
    /// Print JSON instead of tables
    #[arg(long)]
    json: bool,
    /// Measure less of everything, for a quick look; the numbers are less stable
    #[arg(long)]
    quick: bool,
    /// The number of rounds; results are medians over the rounds
    #[arg(long, value_name = "N", value_parser = RangedU64ValueParser::<usize>::new().range(1..=1_000))]
    rounds: Option<usize>,
    /// Measure only these parts, and check only their bars
    #[arg(long, value_name = "PART", value_delimiter = ',')]
    only: Vec<ServerPart>,
    /// The number of connections for HTTP and RESP; the bars are meant for the default
    #[arg(long, value_name = "N", default_value_t = lanes::CONNECTIONS, value_parser = RangedU64ValueParser::<usize>::new().range(1..=1_000))]
    connections: usize,
    /// The path of Tidegate's binary; without it, the binary is built
    #[arg(long, value_name = "PATH")]
    bin: Option<PathBuf>,
    /// Instead, run a load of this shape against Tidegate and print the results second by second
    #[arg(long, value_name = "SHAPE", conflicts_with_all = ["quick", "rounds", "only", "connections"])]
    profile: Option<LoadShape>,
    /// The duration of a soak
    #[arg(long, value_name = "N", default_value_t = 60, requires = "profile", value_parser = RangedU64ValueParser::<u64>::new().range(8..=86_400))]
    seconds: u64,
    /// The initial requests per second of a profile
    #[arg(long, value_name = "N", default_value_t = 2_000, requires = "profile", value_parser = RangedU64ValueParser::<u64>::new().range(1..=100_000))]
    rate: u64,
}

/// The parts that can be measured separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ServerPart {
    /// `/v1/throttle` and `/v1/check` over HTTP
    Http,
    /// `CL.THROTTLE` over the Redis protocol, one at a time and pipelined
    Resp,
    /// Envoy's rate limit service
    Rls,
    /// Limits on Redis, compared with limits in memory: hot keys in hybrid mode, and denials in strict mode
    Shared,
    /// Denials while events are written, compared with denials while they are not
    Events,
    /// `/v1/forward-auth`, compared with the same request to `/v1/check`
    ForwardAuth,
}

/// Why a measurement failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServerBenchError {
    #[error(transparent)]
    Program(#[from] ProgramError),
    #[error(transparent)]
    Start(#[from] StartError),
    #[error("could not write the policy or the settings: {0}")]
    Policy(std::io::Error),
    #[error("{host}, {what}: {source}")]
    Talk { host: &'static str, what: &'static str, source: ExchangeError },
    #[error("{host}, {what}: unexpected decisions: {} allowed, {} denied", .verdicts.allowed, .verdicts.denied)]
    Verdicts { host: &'static str, what: &'static str, verdicts: Verdicts },
    #[error("{host}: its metrics could not be read: {source}")]
    Metrics { host: &'static str, source: std::io::Error },
    #[error("{host}: Redis failed, and {fallbacks} decisions were made without it")]
    Fallback { host: &'static str, fallbacks: u64 },
    #[error(transparent)]
    Api(#[from] control::ApiClientError),
    #[error("a change of the policy was not followed by decisions of {0}")]
    NotFollowed(&'static str),
    #[error(
        "{fleet}: {what}: not on all nodes within {} seconds; a node answers {answer}",
        control::REACH_SECONDS
    )]
    NotEverywhere { fleet: &'static str, what: &'static str, answer: String },
    #[error("the wall clock is beyond all calendars: {0}")]
    WallClock(#[source] jiff::Error),
    #[error("could not write JSON: {0}")]
    Json(#[from] serde_json::Error),
}

/// Measures, and prints the results.
pub(crate) fn run(args: &ServerArgs) -> Result<ExitCode, ServerBenchError> {
    if let Some(shape) = args.profile {
        let plan = profile::LoadPlan { shape, rate: args.rate, soak_seconds: args.seconds };
        return profile::run(plan, args.bin.as_deref(), args.json, args.check);
    }
    let included =
        |lane: &&Lane| args.only.is_empty() || lane.parts.iter().any(|part| args.only.contains(part));
    let chosen: Vec<Lane> = LANES.iter().filter(included).map(|lane| lane.with(args.connections)).collect();
    let mut report = Report::default();
    let mut running = HashMap::new();
    for host in ServerKind::ALL.into_iter().filter(|&host| chosen.iter().any(|lane| lane.host == host)) {
        running.insert(host, RunningServer::start(host, args.bin.as_deref())?);
    }
    let idle =
        |host: &ServerKind| running.get(host).map(|running| (*host, megabytes(running.server.idle_bytes)));
    for (host, value) in ServerKind::ALL.iter().filter_map(idle) {
        let what = "resident memory, idle".to_owned();
        report.figures.push(Figure { what, contender: host.name(), value, unit: "MB" });
        if host == ServerKind::Tidegate {
            report.bars.push(bars::idle(value));
        }
    }
    let lanes = measure(&chosen, &running, args)?;
    report.figures.push(Figure {
        what: "processors that something else kept busy, on average".to_owned(),
        contender: "the machine",
        value: others(&lanes),
        unit: "",
    });
    report.figures.extend(store_calls(&running)?);
    report.served = lanes.iter().map(ServedRow::of).collect();
    report.bars.extend(bars::of(&lanes));
    report.notes = NOTES.to_vec();
    Ok(report.finish(args.json, args.check)?)
}

const NOTES: [&str; 3] = [
    "one client thread on the same machine sends all requests; the servers have as many threads as they choose, but \
     Tidegate has one worker where it is compared with itself",
    "CPU is the CPU time of all threads of the server, in user and kernel mode",
    "ratios are medians of the ratios within rounds",
];

fn megabytes(bytes: Option<u64>) -> f64 {
    bytes.map_or(f64::NAN, |bytes| bytes as f64 / 1e6)
}

/// How many CPUs were busy with other programs.
fn others(lanes: &[MeasuredLane]) -> f64 {
    let turns = || lanes.iter().flat_map(|measured| &measured.turns);
    turns().map(|turn| turn.other_seconds).sum::<f64>() / turns().map(|turn| turn.seconds).sum::<f64>()
}

/// The calls of each server to its Redis. Decisions without Redis are an error, because then another mode was measured.
fn store_calls(running: &HashMap<ServerKind, RunningServer>) -> Result<Vec<Figure>, ServerBenchError> {
    let mut figures = Vec::new();
    for host in ServerKind::ALL {
        let Some(store_use) = running.get(&host).and_then(RunningServer::store_use) else { continue };
        let host = host.name();
        let store_use = store_use.map_err(|source| ServerBenchError::Metrics { host, source })?;
        if store_use.fallbacks > 0 {
            return Err(ServerBenchError::Fallback { host, fallbacks: store_use.fallbacks });
        }
        let what = "calls to Redis for 1,000 decisions".to_owned();
        figures.push(Figure { what, contender: host, value: store_use.calls_per_thousand(), unit: "" });
    }
    Ok(figures)
}

/// Runs the rounds; in each, every lane has its turn.
fn measure(
    chosen: &[Lane],
    running: &HashMap<ServerKind, RunningServer>,
    args: &ServerArgs,
) -> Result<Vec<MeasuredLane>, ServerBenchError> {
    let (rounds, millis) = if args.quick { (3, 300) } else { (9, 1_000) };
    let rounds = args.rounds.unwrap_or(rounds);
    let measured = Duration::from_millis(millis);
    let mut lanes: Vec<MeasuredLane> =
        chosen.iter().map(|&lane| MeasuredLane { lane, turns: Vec::with_capacity(rounds) }).collect();
    for round in 0..rounds {
        eprintln!("measuring: round {} of {rounds}", round + 1);
        for MeasuredLane { lane, turns } in &mut lanes {
            let RunningServer { server, .. } = &running[&lane.host];
            let address = running[&lane.host].address(lane.listener);
            let (keys, cpu) = (&mut KeySequence::of(lane.population, round as u64), || server.cpu_nanos());
            let spans = LoadDurations { warm_up: lane.population.warm_up(), measured };
            let turn = closed_loop::run(address, lane.protocol, lane.load, keys, spans, &cpu);
            let (host, what) = (lane.host.name(), lane.what);
            let turn = turn.map_err(|source| ServerBenchError::Talk { host, what, source })?;
            if !lane.population.expects(turn.verdicts) {
                return Err(ServerBenchError::Verdicts { host, what, verdicts: turn.verdicts });
            }
            turns.push(turn);
        }
    }
    Ok(lanes)
}
