//! Measures limits on Redis: the cost of a decision for Redis, the calls that leases save, and by how much they
//! overshoot.

mod load;
mod overshoot;
mod three_scripts;
mod world;

use std::process::ExitCode;
use std::time::Duration;

use clap::builder::RangedU64ValueParser;
use tidegate_redis::StoreMode;

use crate::report::{Bar, Figure, Report, Side};
use crate::server::{ProgramError, StartError};
use crate::statistics::{median, median_ratio};
use load::{ArrivalPace, LoadResult};
use world::{BenchStore, Redis};

/// Limits on Redis: strict against three pipelined scripts, hybrid against strict, overshoot against its bound.
///
/// Starts redis-server, which must be installed, and calls it from this process. Results are based on the CPU seconds
/// of redis-server and on its own count of commands.
/// Exit 0: done; 1: a bar was missed (with --check) or measuring failed; 2: bad usage.
#[derive(Debug, clap::Args)]
pub(crate) struct RedisArgs {
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
}

/// Why a measurement failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RedisError {
    #[error(transparent)]
    Program(#[from] ProgramError),
    #[error(transparent)]
    Start(#[from] StartError),
    #[error("could not start a runtime: {0}")]
    Runtime(std::io::Error),
    #[error("the client: {0}")]
    Client(#[from] redis::RedisError),
    #[error(transparent)]
    Address(#[from] tidegate_redis::RedisClientError),
    #[error("the store: {0}")]
    Store(#[from] tidegate_redis::StoreError),
    #[error(transparent)]
    Limit(#[from] tidegate::LimitError),
    #[error("could not read the CPU time of the server: {0}")]
    Usage(std::io::Error),
    #[error("could not write JSON: {0}")]
    Json(#[from] serde_json::Error),
}

/// Concurrent requests of each contender.
const IN_FLIGHT: usize = 256;

/// Measures, and prints the results.
pub(crate) fn run(args: &RedisArgs) -> Result<ExitCode, RedisError> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let report = runtime.map_err(RedisError::Runtime)?.block_on(measure(args))?;
    Ok(report.finish(args.json, args.check)?)
}

async fn measure(args: &RedisArgs) -> Result<Report, RedisError> {
    let (rounds, millis) = if args.quick { (3, 300) } else { (7, 1_500) };
    let (rounds, span) = (args.rounds.unwrap_or(rounds), Duration::from_millis(millis));
    let redis = Redis::start().await?;
    let mut report = Report::default();
    three_limits(&redis, rounds, span, &mut report).await?;
    leases(&redis, rounds, span, &mut report).await?;
    let watched = Duration::from_secs(if args.quick { 1 } else { 5 });
    let seen = overshoot::measure(&redis, watched).await?;
    report.figures.extend(seen.figures());
    report.bars.push(seen.bar());
    report.notes = NOTES.to_vec();
    Ok(report)
}

const NOTES: [&str; 3] = [
    "CPU is the CPU time of all threads of redis-server, in user and kernel mode; commands are counted by the server",
    "three scripts: one HMGET, HMSET and EXPIRE each, sent as one pipeline, with the caller's clock",
    "ratios are medians of the ratios within rounds",
];

fn figure(what: &str, contender: &'static str, value: f64, unit: &'static str) -> Figure {
    Figure { what: what.to_owned(), contender, value, unit }
}

/// Three limits per request: one call against three pipelined scripts.
async fn three_limits(
    redis: &Redis,
    rounds: usize,
    span: Duration,
    report: &mut Report,
) -> Result<(), RedisError> {
    let strict = BenchStore::new(redis, StoreMode::Strict, "three").await?;
    let scripts = three_scripts::Scripts::new(redis).await?;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        eprintln!("measuring: three limits, round {} of {rounds}", round + 1);
        let one = |place: u64| strict.three_limits(place);
        ours.push(load::run(redis, IN_FLIGHT, ArrivalPace::Full(span), one).await?);
        let one = |place: u64| scripts.decide(place);
        theirs.push(load::run(redis, IN_FLIGHT, ArrivalPace::Full(span), one).await?);
    }
    let per_cpu =
        |turns: &[LoadResult]| turns.iter().map(LoadResult::per_server_second).collect::<Vec<f64>>();
    let (a, b) = (per_cpu(&ours), per_cpu(&theirs));
    let what = "three limits: decisions per CPU-second of Redis";
    report.figures.push(figure(what, "tidegate, strict", median(&a).unwrap_or(f64::NAN), "/s"));
    report.figures.push(figure(what, "three scripts", median(&b).unwrap_or(f64::NAN), "/s"));
    let times = median_ratio(&a, &b).unwrap_or(f64::NAN);
    let name = "strict, three limits: decisions per Redis CPU-second, in those of three pipelined scripts";
    report.bars.push(Bar::new(name, times, Side::AtLeast, 1.4, "x"));
    let calls: u64 = ours.iter().map(|turn| turn.calls).sum();
    let decisions: u64 = ours.iter().map(|turn| turn.decisions).sum();
    let name = "strict, three limits: round trips per decision";
    report.bars.push(Bar::new(name, calls as f64 / decisions as f64, Side::AtMost, 1.01, ""));
    Ok(())
}

/// Requests per second in both modes, for counting commands.
const EQUAL_TRAFFIC: u64 = 6_000;

/// Hot keys: the calls that leases save.
async fn leases(redis: &Redis, rounds: usize, span: Duration, report: &mut Report) -> Result<(), RedisError> {
    let strict = BenchStore::new(redis, StoreMode::Strict, "hot").await?;
    let hybrid = BenchStore::new(redis, world::hybrid(), "hot").await?;
    let (mut fewer, mut faster) = (Vec::new(), Vec::new());
    let (mut strict_calls, mut hybrid_calls) = (Vec::new(), Vec::new());
    let (mut strict_speed, mut hybrid_speed) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        eprintln!("measuring: hot keys, round {} of {rounds}", round + 1);
        let ask = async |store: &BenchStore, pace: ArrivalPace| {
            let one = |place: u64| store.hot_key(place);
            // Until its demand is known, a hot key has no lease, so each request is a call.
            load::run(redis, IN_FLIGHT, pace.lasting(Duration::from_millis(400)), one).await?;
            load::run(redis, IN_FLIGHT, pace, one).await
        };
        let even = ArrivalPace::Even(EQUAL_TRAFFIC, span);
        let (a, b) = (ask(&strict, even).await?, ask(&hybrid, even).await?);
        strict_calls.push(a.calls_per_decision());
        hybrid_calls.push(b.calls_per_decision());
        fewer.push(a.calls_per_decision() / b.calls_per_decision());
        let (a, b) =
            (ask(&strict, ArrivalPace::Full(span)).await?, ask(&hybrid, ArrivalPace::Full(span)).await?);
        strict_speed.push(a.per_second());
        hybrid_speed.push(b.per_second());
        faster.push(b.per_second() / a.per_second());
    }
    let middle = |values: &[f64]| median(values).unwrap_or(f64::NAN);
    let what = "hot keys: Redis commands per decision, equal traffic";
    report.figures.push(figure(what, "tidegate, strict", middle(&strict_calls), ""));
    report.figures.push(figure(what, "tidegate, hybrid", middle(&hybrid_calls), ""));
    let what = "hot keys: decisions per second, as many as possible";
    report.figures.push(figure(what, "tidegate, strict", middle(&strict_speed), "/s"));
    report.figures.push(figure(what, "tidegate, hybrid", middle(&hybrid_speed), "/s"));
    let name = "hybrid, hot keys: how many times fewer Redis commands than strict";
    report.bars.push(Bar::new(name, middle(&fewer), Side::AtLeast, 20.0, "x"));
    let name = "hybrid, hot keys: decisions per second, in strict's";
    report.bars.push(Bar::new(name, middle(&faster), Side::AtLeast, 10.0, "x"));
    Ok(())
}
