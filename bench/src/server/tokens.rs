//! What junk costs: forward-auth with tokens that do not hold, beside the same without any.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use tidegate::testing::Random;

use super::closed_loop::{self, ClosedLoad, LoadDurations, TurnResult};
use super::limits::KeySequence;
use super::process::ServerProcess;
use super::wire::Dialogue;
use super::wire::forward_auth::{Bearer, ForwardAuth, KEY_ID, encoded};
use super::{ServerBenchError, programs};
use crate::report::{Bar, Figure, Report, Side};
use crate::statistics::{median, median_ratio};

/// What tokens that do not hold cost a server with RSA keys.
///
/// Starts Tidegate with two RSA keys of 2,048 bits and asks `/v1/forward-auth` without a token, with junk whose
/// signature has to be checked, with the same junk again, and with junk that names no key.
/// Exit 0: done; 1: a bar was missed (with --check) or measuring failed; 2: bad usage.
#[derive(Debug, clap::Args)]
pub(crate) struct TokensArgs {
    /// Exit 1 if a bar is missed
    #[arg(long)]
    check: bool,
    /// Print JSON instead of tables
    #[arg(long)]
    json: bool,
    /// Measure less of everything, to try it out; the numbers wobble
    #[arg(long)]
    quick: bool,
    /// Tidegate's binary; otherwise it is built
    #[arg(long, value_name = "PATH")]
    bin: Option<PathBuf>,
}

/// How many times what a request without a token costs, one with junk may.
const TIMES_NO_TOKEN: f64 = 2.0;
/// One request after the other, as the cost of a single one is told; and a server that is never idle, whose requests
/// share their system calls and are so cheap that a signature weighs more.
const LOADS: [(&str, ClosedLoad); 2] = [
    ("one at a time", ClosedLoad { connections: 1, depth: 1, together: true, awake: true }),
    ("32 at a time", ClosedLoad { connections: 32, depth: 1, together: true, awake: true }),
];
/// Nobody is refused by it.
const POLICY: &str = "version: 1
limits: [{ name: per-address, key: [ip], sustained: { rate: 10000000, window: second } }]
";

/// One thing that is measured in every round.
struct Kind {
    what: &'static str,
    dialogue: fn() -> Box<dyn Dialogue>,
    /// By load.
    turns: [Vec<TurnResult>; LOADS.len()],
}

fn kinds() -> [Kind; 4] {
    let kind = |what, dialogue: fn() -> Box<dyn Dialogue>| Kind { what, dialogue, turns: Default::default() };
    [
        kind("no token", || Box::new(ForwardAuth::new(Bearer::Nothing))),
        kind("junk, its signature new every time", || Box::new(ForwardAuth::new(Bearer::FreshJunk))),
        kind("the same junk again", || Box::new(ForwardAuth::new(Bearer::SameJunk))),
        kind("junk that names no key", || Box::new(ForwardAuth::new(Bearer::NamelessJunk))),
    ]
}

/// Measures, and prints what came out.
pub(crate) fn run(args: &TokensArgs) -> Result<ExitCode, ServerBenchError> {
    let (server, address) = start(&programs::tidegate(args.bin.as_deref())?)?;
    let (rounds, millis) = if args.quick { (3, 300) } else { (7, 700) };
    let spans =
        LoadDurations { warm_up: Duration::from_millis(200), measured: Duration::from_millis(millis) };
    let mut kinds = kinds();
    for round in 0..rounds {
        eprintln!("measuring: round {} of {rounds}", round + 1);
        for Kind { what, dialogue, turns, .. } in &mut kinds {
            let cpu = || server.cpu_nanos();
            for ((_, load), turns) in LOADS.iter().zip(turns) {
                let turn =
                    closed_loop::run(address, *dialogue, *load, &mut KeySequence::new(round), spans, &cpu);
                turns.push(turn.map_err(|source| ServerBenchError::Talk {
                    host: "tidegate",
                    what,
                    source,
                })?);
            }
        }
    }
    Ok(report(&kinds).finish(args.json, args.check)?)
}

fn report(kinds: &[Kind]) -> Report {
    let mut report = Report::default();
    for (number, (when, _)) in LOADS.iter().enumerate() {
        let micros =
            |kind: &Kind| -> Vec<f64> { kind.turns[number].iter().map(TurnResult::server_micros).collect() };
        let plain = micros(&kinds[0]);
        for kind in kinds {
            let value = median(&micros(kind)).unwrap_or(f64::NAN);
            let what = format!("{when}: CPU of a request, {}", kind.what);
            report.figures.push(Figure { what, contender: "tidegate", value, unit: "us" });
        }
        for kind in &kinds[1..] {
            let times = median_ratio(&micros(kind), &plain).unwrap_or(f64::NAN);
            let name = format!("{when}: CPU of {}, in requests without a token", kind.what);
            report.bars.push(Bar::new(name, times, Side::AtMost, TIMES_NO_TOKEN, "x"));
        }
    }
    report.notes = vec![
        "CPU is what all threads of the server's process had, in the kernel and outside",
        "the client never sleeps, so that the server is not charged for waking it",
        "ratios are medians of the ratios within rounds",
    ];
    report
}

/// A server with two keys. Nobody has their other halves: a signature that is wrong takes as long to check
/// whatever the factors are.
fn start(program: &Path) -> Result<(ServerProcess, std::net::SocketAddr), ServerBenchError> {
    let folder = programs::target()?;
    let (policy, settings, jwks) = (
        folder.join("tidegate-bench-tokens-policy.yaml"),
        folder.join("tidegate-bench-tokens.yaml"),
        folder.join("tidegate-bench-tokens-jwks.json"),
    );
    let write = |file: &Path, text: &str| std::fs::write(file, text).map_err(ServerBenchError::Policy);
    write(&policy, POLICY)?;
    write(&jwks, &format!(r#"{{"keys":[{},{}]}}"#, key(KEY_ID, 1), key("b", 2)))?;
    write(&settings, &format!("jwt: {{ jwks: {:?} }}\n", jwks.display().to_string()))?;
    let mut command = Command::new(program);
    command.arg("serve").arg("--policy").arg(policy).arg("--config").arg(settings);
    command.args(["--admin", "off", "--grpc", "off", "--resp", "off", "--http", "127.0.0.1:0"]);
    let (server, found) = ServerProcess::start_and_read("tidegate", command, &["http"])?;
    Ok((server, found["http"]))
}

/// A key of 2,048 bits: an odd number below a power of two.
fn key(id: &str, seed: u64) -> String {
    let mut random = Random::new(seed);
    let mut modulus: Vec<u8> = (0..32).flat_map(|_| random.bits().to_be_bytes()).collect();
    modulus[0] = 0xff;
    modulus[255] |= 1;
    let modulus = encoded(&modulus);
    format!(r#"{{"kty":"RSA","use":"sig","alg":"RS256","kid":"{id}","n":"{modulus}","e":"AQAB"}}"#)
}
