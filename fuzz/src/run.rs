//! The main loop: mutates inputs, runs them, keeps those with a new outcome, and stops at a failure.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, Seek, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use crate::mutate::mutated;
use crate::timer::RunTimer;
use crate::{FuzzFailure, FuzzTarget, Random, corpus};

/// An input that takes longer counts as a hang.
const SLOW: Duration = Duration::from_secs(1);
/// The interval of checks for hangs.
const HANG_CHECK: Duration = Duration::from_millis(250);
/// The interval of progress lines.
const REPORT: Duration = Duration::from_secs(5);
/// How many inputs are kept for further mutation.
const POOL_MAX: usize = 4_096;

/// The result of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct FuzzTally {
    /// Inputs tried.
    pub tried: u64,
    /// Kinds of outcomes seen.
    pub kinds: u64,
    /// How long it took.
    pub took: Duration,
}

/// Why a run stopped early.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// An input failed, and was written to a file.
    #[error(
        "{failure}\nthe input is in {file}; to run it again:\n  cargo run --release -p tidegate-fuzz -- {target} --replay {file}"
    )]
    Failed {
        /// What was wrong.
        failure: FuzzFailure,
        /// The target's name.
        target: &'static str,
        /// The file with the input.
        file: String,
    },
    /// Files cannot be read or written.
    #[error(transparent)]
    File(#[from] io::Error),
}

/// Runs inputs for a time. Each is written to a file before it runs, so that an input which kills the
/// whole process (by a stack overflow, for example) is not lost.
///
/// # Errors
/// At the first input that fails.
pub fn fuzz(target: FuzzTarget, time: Duration, seed: u64) -> Result<FuzzTally, RunError> {
    let current_file = corpus::failure(target, "crash")?;
    let tried = AtomicU64::new(0);
    let (done, wait) = mpsc::channel::<()>();
    let outcome = std::thread::scope(|scope| {
        let (tried, current_file) = (&tried, &current_file);
        scope.spawn(move || look_for_hangs(target, tried, current_file, &wait));
        // A thread with the default stack size, as the server has.
        let worker = scope.spawn(move || {
            let outcome = work(target, time, seed, tried, current_file);
            drop(done);
            outcome
        });
        worker.join().expect("panics of a target are caught")
    });
    if outcome.is_ok() {
        fs::remove_file(&current_file)?;
    }
    outcome
}

fn work(
    target: FuzzTarget,
    time: Duration,
    seed: u64,
    tried: &AtomicU64,
    current_file: &Path,
) -> Result<FuzzTally, RunError> {
    let mut random = Random::new(seed);
    let mut pool = corpus::seeds(target)?;
    let mut kinds = HashSet::new();
    let mut current = File::create(current_file)?;
    let (timer, mut reported) = (RunTimer::start(), Duration::ZERO);
    let mut first: Vec<Vec<u8>> = pool.clone();
    while timer.elapsed() < time {
        let input = first.pop().unwrap_or_else(|| mutated(&pool, target.words(), &mut random));
        current.set_len(0)?;
        current.rewind()?;
        current.write_all(&input)?;
        match target.try_input(&input) {
            Ok(kind) => {
                if kinds.insert(kind) && pool.len() < POOL_MAX {
                    pool.push(input);
                }
            }
            Err(failure) => return Err(keep(target, &input, failure)?),
        }
        let count = tried.fetch_add(1, Ordering::Relaxed) + 1;
        if timer.elapsed() - reported >= REPORT {
            reported = timer.elapsed();
            let (seconds, found) = (reported.as_secs(), kinds.len());
            println!("{}: {seconds} s, {count} inputs, {found} kinds of outcomes", target.name());
        }
    }
    Ok(FuzzTally { tried: tried.load(Ordering::Relaxed), kinds: kinds.len() as u64, took: timer.elapsed() })
}

/// Runs a fixed number of inputs: for tests, which must not depend on the clock.
///
/// # Errors
/// At the first input that fails.
pub fn try_some(target: FuzzTarget, inputs: usize, seed: u64) -> Result<(), RunError> {
    let mut random = Random::new(seed);
    let pool = corpus::seeds(target)?;
    for _ in 0..inputs {
        let input = mutated(&pool, target.words(), &mut random);
        if let Err(failure) = target.try_input(&input) {
            return Err(keep(target, &input, failure)?);
        }
    }
    Ok(())
}

/// Writes a failing input to its own file.
fn keep(target: FuzzTarget, input: &[u8], failure: FuzzFailure) -> io::Result<RunError> {
    let number = input.iter().fold(0_u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(*byte)));
    let file = corpus::failure(target, &format!("{number:016x}"))?;
    fs::write(&file, input)?;
    Ok(RunError::Failed { failure, target: target.name(), file: file.display().to_string() })
}

/// Ends the process if an input takes too long: a thread that hangs cannot be stopped.
fn look_for_hangs(target: FuzzTarget, tried: &AtomicU64, current_file: &Path, wait: &mpsc::Receiver<()>) {
    let (mut last, mut since) = (u64::MAX, RunTimer::start());
    while wait.recv_timeout(HANG_CHECK) == Err(RecvTimeoutError::Timeout) {
        let count = tried.load(Ordering::Relaxed);
        if count != last {
            (last, since) = (count, RunTimer::start());
        } else if since.elapsed() >= SLOW {
            let file = current_file.display();
            eprintln!(
                "error: an input takes longer than {} s; it is in {file}; to run it again:",
                SLOW.as_secs()
            );
            eprintln!("  cargo run --release -p tidegate-fuzz -- {} --replay {file}", target.name());
            std::process::exit(1);
        }
    }
}
