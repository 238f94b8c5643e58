//! Memory per key. Each contender runs in its own process, so that none reuses memory that another
//! has freed.

use std::process::{Command, ExitCode};

use clap::ValueEnum;

use super::setup::Setup;
use super::{BenchError, bars, progress};
use crate::contenders::{governor, ours, throttlecrab};
use crate::report::{Figure, Report};
use crate::resident;
use crate::rounds::Expected;

/// Fills one limiter and prints by how many bytes the process has grown.
#[derive(Debug, clap::Args)]
pub(crate) struct FillArgs {
    #[arg(long)]
    contender: Filled,
    #[arg(long)]
    keys: u32,
}

/// The contenders whose memory is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Filled {
    Tidegate,
    Governor,
    Throttlecrab,
}

impl Filled {
    fn name(self) -> &'static str {
        match self {
            Filled::Tidegate => ours::NAME,
            Filled::Governor => governor::NAME,
            Filled::Throttlecrab => throttlecrab::NAME,
        }
    }
}

/// Measures memory, and checks Tidegate's bar.
pub(crate) fn run(setup: &Setup, report: &mut Report) -> Result<(), BenchError> {
    for &contender in Filled::value_variants() {
        progress(&format!("memory of {} with {} keys", contender.name(), setup.memory_keys));
        let bytes = grown_by(contender, setup.memory_keys)?;
        let value = bytes as f64 / f64::from(setup.memory_keys);
        let what = format!("memory for a key, of {}", setup.memory_keys);
        report.figures.push(Figure { what, contender: contender.name(), value, unit: "bytes" });
        if contender == Filled::Tidegate {
            report.bars.push(bars::memory(value));
        }
    }
    Ok(())
}

/// Runs [`fill`] in another process, and returns its result.
fn grown_by(contender: Filled, keys: u32) -> Result<u64, BenchError> {
    let failed = |why: &dyn ToString| BenchError::Fill(why.to_string());
    let program = std::env::current_exe().map_err(|error| failed(&error))?;
    let output = Command::new(program)
        .args(["fill", "--contender", contender.name(), "--keys", &keys.to_string()])
        .output()
        .map_err(|error| failed(&error))?;
    if !output.status.success() {
        return Err(failed(&String::from_utf8_lossy(&output.stderr).trim()));
    }
    String::from_utf8_lossy(&output.stdout).trim().parse().map_err(|error| failed(&error))
}

/// The command that the other process runs.
pub(crate) fn fill(args: &FillArgs) -> Result<ExitCode, BenchError> {
    let resident = || {
        resident::bytes()
            .ok_or_else(|| BenchError::Fill("the system does not report resident memory".to_owned()))
    };
    let before = resident()?;
    // A scarce quota, so that no key becomes idle and is evicted before all have been added.
    let after = match args.contender {
        Filled::Tidegate => holding(&ours::full(args.keys, Expected::Denying), resident),
        Filled::Governor => holding(&governor::full(args.keys, Expected::Denying), resident),
        Filled::Throttlecrab => holding(&throttlecrab::full(args.keys, Expected::Denying), resident),
    };
    println!("{}", after?.saturating_sub(before));
    Ok(ExitCode::SUCCESS)
}

/// Measures while the limiter is still alive.
fn holding<L, T>(_limiter: &L, measure: impl FnOnce() -> T) -> T {
    measure()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_other_process_understands_every_name() {
        for filled in Filled::value_variants() {
            assert_eq!(Filled::from_str(filled.name(), false).as_ref(), Ok(filled));
        }
    }
}
