//! `cargo run --release -p tidegate-fuzz -- policy --seconds 60`

use std::hash::{BuildHasher, RandomState};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use tidegate_fuzz::{FuzzTarget, fuzz};

/// Mutates what others write until the time is up or something fails.
///
/// Exit 0: nothing failed; 1: something did; 2: bad usage.
#[derive(Debug, Parser)]
#[command(name = "tidegate-fuzz")]
struct Cli {
    /// What to fuzz
    target: FuzzTarget,
    /// How long
    #[arg(long, value_name = "N", default_value_t = 60)]
    seconds: u64,
    /// The same seed gives the same inputs; another one each time unless told
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Try this input alone
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
        Ok(said) => {
            println!("{said}");
            ExitCode::SUCCESS
        }
        Err(said) => {
            eprintln!("error: {said}");
            ExitCode::FAILURE
        }
    }
}

/// A seed that is another one each time; short, since people copy it.
fn any_seed() -> u64 {
    RandomState::new().hash_one(0_u8) >> 32
}

fn run(cli: &Cli) -> Result<String, String> {
    let (name, seed) = (cli.target.name(), cli.seed.unwrap_or_else(any_seed));
    println!("{name}: {} s with --seed {seed}", cli.seconds);
    // A panic is caught and told with the input; where it was is all the hook has to add.
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        eprintln!("panic at {place}");
    }));
    let tally =
        fuzz(cli.target, Duration::from_secs(cli.seconds), seed).map_err(|error| error.to_string())?;
    let a_second = u128::from(tally.tried) * 1_000 / tally.took.as_millis().max(1);
    let (tried, kinds) = (tally.tried, tally.kinds);
    Ok(format!("{name}: nothing failed in {tried} inputs, {a_second} a second, {kinds} kinds of answers"))
}

fn replay(target: FuzzTarget, file: &PathBuf) -> Result<String, String> {
    let input = std::fs::read(file).map_err(|error| format!("cannot read {}: {error}", file.display()))?;
    target.try_input(&input).map_err(|failure| failure.to_string())?;
    Ok(format!("{}: it does not fail", file.display()))
}
