//! `cargo run --release -p tidegate-fuzz -- policy --seconds 60`

use std::hash::{BuildHasher, RandomState};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use tidegate_fuzz::{FuzzTarget, fuzz};

/// Runs mutated inputs through a parser until the time is up or an input fails.
///
/// Exit 0: nothing failed; 1: an input failed; 2: bad usage.
#[derive(Debug, Parser)]
#[command(name = "tidegate-fuzz")]
struct Cli {
    /// The parser to fuzz
    target: FuzzTarget,
    /// How many seconds to run
    #[arg(long, value_name = "N", default_value_t = 60)]
    seconds: u64,
    /// The seed of the random inputs; random if omitted. The same seed gives the same inputs
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Run only this input
    #[arg(long, value_name = "FILE")]
    replay: Option<PathBuf>,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let outcome = match &cli.replay {
        Some(file) => replay(cli.target, file),
        None => run(&cli),
    };
    match outcome {
        Ok(message) => {
            println!("{message}");
            ExitCode::SUCCESS
        }
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
    }
}

/// A random seed; short, because people copy it.
fn random_seed() -> u64 {
    RandomState::new().hash_one(0_u8) >> 32
}

fn run(cli: &Cli) -> Result<String, String> {
    let (name, seed) = (cli.target.name(), cli.seed.unwrap_or_else(random_seed));
    println!("{name}: {} s with --seed {seed}", cli.seconds);
    // Panics are caught and reported with the input; the hook only adds the location.
    std::panic::set_hook(Box::new(|panic| {
        let location = panic.location().map(ToString::to_string).unwrap_or_default();
        eprintln!("panic at {location}");
    }));
    let tally =
        fuzz(cli.target, Duration::from_secs(cli.seconds), seed).map_err(|error| error.to_string())?;
    let a_second = u128::from(tally.tried) * 1_000 / tally.took.as_millis().max(1);
    let (tried, kinds) = (tally.tried, tally.kinds);
    Ok(format!("{name}: nothing failed in {tried} inputs, {a_second} a second, {kinds} kinds of outcomes"))
}

fn replay(target: FuzzTarget, file: &PathBuf) -> Result<String, String> {
    let input = std::fs::read(file).map_err(|error| format!("cannot read {}: {error}", file.display()))?;
    target.try_input(&input).map_err(|failure| failure.to_string())?;
    Ok(format!("{}: it does not fail", file.display()))
}
