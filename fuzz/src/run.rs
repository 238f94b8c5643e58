//! The loop: mutate, try, keep what is new, stop at what fails.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, Seek, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use crate::mutate::mutated;
use crate::watch::Watch;
use crate::{FuzzFailure, FuzzTarget, Random, corpus};

/// An input that takes longer hangs.
const SLOW: Duration = Duration::from_secs(1);
/// Between two looks for one that hangs.
const LOOK: Duration = Duration::from_millis(250);
/// Between two lines of progress.
const REPORT: Duration = Duration::from_secs(5);
/// How many inputs are kept to go on from.
const POOL_MAX: usize = 4_096;

/// What a run came to.
#[derive(Clone, Copy, Debug, Default)]
pub struct FuzzTally {
    /// Inputs tried.
    pub tried: u64,
    /// Kinds of answers seen.
    pub kinds: u64,
    /// How long it took.
    pub took: Duration,
}

/// Why a run stopped early.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// An input failed, and is kept.
    #[error(
        "{failure}\nthe input is in {file}; to try it again:\n  cargo run --release -p tidegate-fuzz -- {target} --replay {file}"
    )]
    Failed {
        /// What was wrong.
        failure: FuzzFailure,
        /// The target's name.
        target: &'static str,
        /// Where the input is.
        file: String,
    },
    /// Files cannot be read or written.
    #[error(transparent)]
    File(#[from] io::Error),
}

/// Tries inputs for a time. Each is written to a file before it is tried, so that one which ends the
/// whole process (by overflowing the stack, say) is still there.
///
/// # Errors
/// At the first input that fails.
pub fn fuzz(target: FuzzTarget, time: Duration, seed: u64) -> Result<FuzzTally, RunError> {
    let dying = corpus::failure(target, "dying")?;
    let tried = AtomicU64::new(0);
    let (done, wait) = mpsc::channel::<()>();
    let outcome = std::thread::scope(|scope| {
        let (tried, dying) = (&tried, &dying);
        scope.spawn(move || look_for_hangs(target, tried, dying, &wait));
        // A thread of the usual stack, as a server would have.
        let worker = scope.spawn(move || {
            let outcome = work(target, time, seed, tried, dying);
            drop(done);
            outcome
        });
        worker.join().expect("a failing target does not fail the loop")
    });
    if outcome.is_ok() {
        fs::remove_file(&dying)?;
    }
    outcome
}

fn work(
    target: FuzzTarget,
    time: Duration,
    seed: u64,
    tried: &AtomicU64,
    dying: &Path,
) -> Result<FuzzTally, RunError> {
    let mut random = Random::new(seed);
    let mut pool = corpus::seeds(target)?;
    let mut kinds = HashSet::new();
    let mut current = File::create(dying)?;
    let (watch, mut reported) = (Watch::start(), Duration::ZERO);
    let mut first: Vec<Vec<u8>> = pool.clone();
    while watch.elapsed() < time {
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
        if watch.elapsed() - reported >= REPORT {
            reported = watch.elapsed();
            let (seconds, found) = (reported.as_secs(), kinds.len());
            println!("{}: {seconds} s, {count} inputs, {found} kinds of answers", target.name());
        }
    }
    Ok(FuzzTally { tried: tried.load(Ordering::Relaxed), kinds: kinds.len() as u64, took: watch.elapsed() })
}

/// Tries so many inputs, however long it takes: for tests, which must not depend on the clock.
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

/// Writes a failing input to a file of its own.
fn keep(target: FuzzTarget, input: &[u8], failure: FuzzFailure) -> io::Result<RunError> {
    let number = input.iter().fold(0_u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(*byte)));
    let file = corpus::failure(target, &format!("{number:016x}"))?;
    fs::write(&file, input)?;
    Ok(RunError::Failed { failure, target: target.name(), file: file.display().to_string() })
}

/// Ends the process if one input takes too long: nothing else can stop it.
fn look_for_hangs(target: FuzzTarget, tried: &AtomicU64, dying: &Path, wait: &mpsc::Receiver<()>) {
    let (mut last, mut since) = (u64::MAX, Watch::start());
    while wait.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
        let count = tried.load(Ordering::Relaxed);
        if count != last {
            (last, since) = (count, Watch::start());
        } else if since.elapsed() >= SLOW {
            let file = dying.display();
            eprintln!(
                "error: an input takes longer than {} s; it is in {file}; to try it again:",
                SLOW.as_secs()
            );
            eprintln!("  cargo run --release -p tidegate-fuzz -- {} --replay {file}", target.name());
            std::process::exit(1);
        }
    }
}
