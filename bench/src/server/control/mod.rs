//! The control plane: how long a change of a large policy takes until it is in force, and what changes and records cost the
//! decisions.

mod api_client;
mod candidate;
pub(crate) mod console;
mod host;
mod lookup;
mod overrides;
mod publish;
mod reach;
mod records;
mod tenant_tree;
mod writing;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::ValueEnum;

use super::closed_loop::{ClosedLoad, TurnResult};
use super::{ServerBenchError, programs};
use crate::report::{Figure, Report};
use crate::statistics::median;

pub(crate) use api_client::ApiClientError;
pub(crate) use reach::{REACH_SECONDS, ReachCell, table as reach_table};
pub(crate) use tenant_tree::CUSTOMERS;

/// The control plane: changes of the policy, and the cost of changes and records for decisions.
///
/// Starts Tidegate with a database (SQLite, or the given PostgreSQL). With a policy of 1,000 tenants it measures how long
/// a change takes until decisions follow it, and how many decisions are left at one change a second; then how many are
/// left while denials are recorded, and how many with 10,000 overrides. Decisions are counted for each CPU-second of the
/// threads that decide. It measures what a candidate costs beside limits on Redis, and how long a lookup of the keys of a
/// request takes, against a check of it on the same Redis. At last, on fleets of several kinds, it measures how long what is
/// done to one node (a reset, a block, an override and so on) takes until every node decides by it.
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
    /// Measure only these parts, and check only their bars
    #[arg(long, value_name = "PART", value_delimiter = ',')]
    only: Vec<ControlPart>,
    /// A PostgreSQL database for Tidegate, instead of SQLite. The policy in it is replaced
    #[arg(long, value_name = "URL")]
    postgres: Option<String>,
    /// The path of Tidegate's binary; without it, the binary is built
    #[arg(long, value_name = "PATH")]
    bin: Option<PathBuf>,
}

/// The parts that can be measured separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ControlPart {
    /// From the request that changes a tenant to the first decision that follows the change
    Publish,
    /// Decisions at one change a second, compared with no changes
    Writing,
    /// Denials that are recorded in the database, compared with those that are not
    Records,
    /// Looking up the keys of a request, compared with a check of it
    Lookup,
    /// Decisions with 10,000 overrides, compared with none
    Overrides,
    /// Decisions by limits on Redis beside a candidate, compared with none
    Candidate,
    /// From each action on live state to the decisions of all nodes, on Redis, on a database and on one node
    Reach,
}

/// The load that decisions are counted under. The client never sleeps, so that waking it costs the server no CPU time.
const LOAD: ClosedLoad = ClosedLoad { connections: 32, depth: 1, together: true, awake: true };
/// The names of the threads that decide begin with this.
const DECIDING: &str = "worker";
/// The least part of the decisions that must be left.
const LEAST_LEFT: f64 = 0.95;

/// Measures, and prints the results.
pub(crate) fn run(args: &ControlArgs) -> Result<ExitCode, ServerBenchError> {
    let program = programs::tidegate(args.bin.as_deref())?;
    let database = args.postgres.as_deref();
    let is_chosen = |part| args.only.is_empty() || args.only.contains(&part);
    let mut report = Report::default();
    if is_chosen(ControlPart::Publish) {
        publish::measure(&program, database, args.quick, &mut report)?;
    }
    if is_chosen(ControlPart::Writing) {
        writing::measure(&program, database, args.quick, &mut report)?;
    }
    if is_chosen(ControlPart::Records) {
        records::measure(&program, database, args.quick, &mut report)?;
    }
    if is_chosen(ControlPart::Lookup) {
        lookup::measure(&program, args.quick, &mut report)?;
    }
    if is_chosen(ControlPart::Overrides) {
        overrides::measure(&program, args.quick, &mut report)?;
    }
    if is_chosen(ControlPart::Candidate) {
        candidate::measure(&program, database, args.quick, &mut report)?;
    }
    if is_chosen(ControlPart::Reach) {
        reach::measure(&program, database, args.quick, &mut report)?;
    }
    report.notes = vec![
        "CPU is the CPU time of the threads that decide, in user and kernel mode, unless it is said",
        "ratios are medians of the ratios within rounds",
    ];
    Ok(report.finish(args.json, args.check)?)
}

/// Decisions for each CPU-second of the threads that decide, turn by turn.
fn per_cpu_second(turns: &[TurnResult]) -> Vec<f64> {
    turns.iter().map(TurnResult::per_server_second).collect()
}

/// The median over the turns.
fn decisions_figure(what: String, turns: &[TurnResult]) -> Figure {
    let value = median(&per_cpu_second(turns)).unwrap_or(f64::NAN);
    Figure { what, contender: "tidegate", value, unit: "/s" }
}

/// How many CPUs were busy with other programs and with the other threads of the server.
fn others_figure(what: &str, turns: &[&[TurnResult]]) -> Figure {
    let turns = || turns.iter().flat_map(|turns| turns.iter());
    let (others, seconds) = turns()
        .fold((0.0, 0.0), |(others, seconds), turn| (others + turn.other_seconds, seconds + turn.seconds));
    let what = format!("{what}: processors that something else kept busy, on average");
    Figure { what, contender: "the machine", value: others / seconds, unit: "" }
}
