//! The cost of the control plane for decisions: denials that are recorded in a database, compared with those that are not.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use super::closed_loop::{self, ClosedLoad, LoadDurations, TurnResult};
use super::limits::{DENIED, KeySequence, policy_of_modes};
use super::process::ServerProcess;
use super::wire::http::Http;
use super::{ServerBenchError, programs};
use crate::report::{Bar, Figure, Report, Side};
use crate::statistics::{median, median_ratio};

/// The cost of the control plane for decisions.
///
/// Starts Tidegate with and without a database (SQLite), and denies requests of 10,000 users, far more than 10,000 a second.
/// The numbers are decisions for each CPU-second of the threads that decide.
/// Exit 0: done; 1: a bar was missed (with --check) or measuring failed; 2: bad usage.
#[derive(Debug, clap::Args)]
pub(crate) struct ControlArgs {
    /// Exit 1 if a bar is missed
    #[arg(long)]
    check: bool,
    /// Print JSON instead of tables
    #[arg(long)]
    json: bool,
    /// Measure less of everything, for a quick look; the numbers are less stable
    #[arg(long)]
    quick: bool,
    /// The path of Tidegate's binary; without it, the binary is built
    #[arg(long, value_name = "PATH")]
    bin: Option<PathBuf>,
}

/// The least part of the decisions that are left with records.
const LEFT_WITH_RECORDS: f64 = 0.95;
const LOAD: ClosedLoad = ClosedLoad { connections: 32, depth: 1, together: true, awake: true };
/// The names of the threads that decide begin with this.
const DECIDING: &str = "worker";

/// A server, and its results round by round.
struct Recording {
    what: &'static str,
    server: ServerProcess,
    address: SocketAddr,
    turns: Vec<TurnResult>,
}

/// Measures, and prints the results.
pub(crate) fn run(args: &ControlArgs) -> Result<ExitCode, ServerBenchError> {
    let program = programs::tidegate(args.bin.as_deref())?;
    let mut servers =
        [start(&program, "no records", false)?, start(&program, "records in a database", true)?];
    let (rounds, millis) = if args.quick { (5, 500) } else { (15, 1_000) };
    let spans =
        LoadDurations { warm_up: Duration::from_millis(300), measured: Duration::from_millis(millis) };
    for round in 0..rounds {
        eprintln!("measuring: round {} of {rounds}", round + 1);
        for Recording { what, server, address, turns } in &mut servers {
            let cpu = || server.cpu_nanos_of(DECIDING);
            let protocol = || Box::new(Http::check(DENIED)) as _;
            let turn = closed_loop::run(*address, protocol, LOAD, &mut KeySequence::new(round), spans, &cpu);
            turns.push(turn.map_err(|source| ServerBenchError::Talk { host: "tidegate", what, source })?);
        }
    }
    Ok(report(&servers).finish(args.json, args.check)?)
}

fn report([without, with]: &[Recording; 2]) -> Report {
    let mut report = Report::default();
    let all = |of: &Recording| -> Vec<f64> { of.turns.iter().map(TurnResult::per_server_second).collect() };
    for server in [without, with] {
        let value = median(&all(server)).unwrap_or(f64::NAN);
        let what = format!("denials for each CPU-second of the deciding threads, {}", server.what);
        report.figures.push(Figure { what, contender: "tidegate", value, unit: "/s" });
    }
    let left = median_ratio(&all(with), &all(without)).unwrap_or(f64::NAN);
    let name = "denials with records in a database, in those without".to_owned();
    report.bars.push(Bar::new(name, left, Side::AtLeast, LEFT_WITH_RECORDS, "x"));
    report.notes = vec![
        "CPU is the CPU time of the threads that decide, in user and kernel mode",
        "the ratio is the median of the ratios within rounds",
    ];
    report
}

fn start(program: &Path, what: &'static str, records: bool) -> Result<Recording, ServerBenchError> {
    let folder = programs::target()?;
    let (policy, data) =
        (folder.join("tidegate-bench-control-policy.yaml"), folder.join("tidegate-bench-control"));
    std::fs::write(&policy, policy_of_modes()).map_err(ServerBenchError::Policy)?;
    let mut command = Command::new(program);
    command.arg("serve").arg("--policy").arg(policy);
    command.args([
        "--workers",
        "1",
        "--admin",
        "off",
        "--grpc",
        "off",
        "--resp",
        "off",
        "--http",
        "127.0.0.1:0",
    ]);
    if records {
        // Records of an earlier run would make the tables larger.
        let _there_was_none = std::fs::remove_dir_all(&data);
        command.arg("--data").arg(data);
    }
    let (server, found) = ServerProcess::start_and_read("tidegate", command, &["http"])?;
    Ok(Recording { what, server, address: found["http"], turns: Vec::new() })
}
