//! The cost of invalid tokens: forward-auth with them, compared with requests without a token.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use tidegate::testing::Random;

use super::closed_loop::{self, ClosedLoad, LoadDurations, TurnResult};
use super::limits::KeySequence;
use super::process::ServerProcess;
use super::wire::ClientProtocol;
use super::wire::forward_auth::{Bearer, ForwardAuth, KEY_ID, encoded};
use super::{ServerBenchError, programs};
use crate::report::{Bar, Figure, Report, Side};
use crate::statistics::{median, median_ratio};

/// The cost of invalid tokens for a server with RSA keys.
///
/// Starts Tidegate with two RSA keys of 2,048 bits and calls `/v1/forward-auth` without a token, with invalid tokens
/// whose signature has to be checked, with the same invalid token again, and with tokens that name no key.
/// Exit 0: done; 1: a bar was missed (with --check) or measuring failed; 2: bad usage.
#[derive(Debug, clap::Args)]
pub(crate) struct TokensArgs {
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

/// The largest ratio of the CPU time of a request with an invalid token to one without a token.
const TIMES_NO_TOKEN: f64 = 2.0;
/// One request after the other, for the cost of a single one; and a busy server, whose requests share system calls and
/// are so cheap that a signature check weighs more.
const LOADS: [(&str, ClosedLoad); 2] = [
    ("one at a time", ClosedLoad { connections: 1, depth: 1, together: true, awake: true }),
    ("32 at a time", ClosedLoad { connections: 32, depth: 1, together: true, awake: true }),
];
/// A policy that denies nothing.
const POLICY: &str = "version: 1
limits: [{ name: per-address, key: [ip], sustained: { rate: 10000000, window: second } }]
";

/// One kind of token, measured in every round.
struct Kind {
    what: &'static str,
    protocol: fn() -> Box<dyn ClientProtocol>,
    /// The results for each load.
    turns: [Vec<TurnResult>; LOADS.len()],
}

fn kinds() -> [Kind; 4] {
    let kind =
        |what, protocol: fn() -> Box<dyn ClientProtocol>| Kind { what, protocol, turns: Default::default() };
    [
        kind("no token", || Box::new(ForwardAuth::new(Bearer::Nothing))),
        kind("junk, its signature new every time", || Box::new(ForwardAuth::new(Bearer::FreshJunk))),
        kind("the same junk again", || Box::new(ForwardAuth::new(Bearer::SameJunk))),
        kind("junk that names no key", || Box::new(ForwardAuth::new(Bearer::NamelessJunk))),
    ]
}

/// Measures, and prints the results.
pub(crate) fn run(args: &TokensArgs) -> Result<ExitCode, ServerBenchError> {
    let (server, address) = start(&programs::tidegate(args.bin.as_deref())?)?;
    let (rounds, millis) = if args.quick { (3, 300) } else { (7, 700) };
    let spans =
        LoadDurations { warm_up: Duration::from_millis(200), measured: Duration::from_millis(millis) };
    let mut kinds = kinds();
    for round in 0..rounds {
        eprintln!("measuring: round {} of {rounds}", round + 1);
        for Kind { what, protocol, turns, .. } in &mut kinds {
            let cpu = || server.cpu_nanos();
            for ((_, load), turns) in LOADS.iter().zip(turns) {
                let turn =
                    closed_loop::run(address, *protocol, *load, &mut KeySequence::new(round), spans, &cpu);
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
        "CPU is the CPU time of all threads of the server, in user and kernel mode",
        "the client never sleeps, so that waking it costs the server no CPU time",
        "ratios are medians of the ratios within rounds",
    ];
    report
}

/// A server with two public keys that have no private keys: checking a wrong signature takes the same time for any
/// modulus.
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
