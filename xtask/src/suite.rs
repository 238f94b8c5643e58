//! Builds the tests once, and runs those that mostly wait beside those that mostly compute.
//!
//! `cargo test` runs one test binary after the other. Many of ours wait for sockets and timers; meanwhile the processor
//! can look for counterexamples.

use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::Instant;

use cargo_metadata::Message;

/// Tests of these places wait for sockets, timers and other processes. They also notice when they are kept from the
/// processor, so what runs beside them is to make way.
const WAITING: &[&str] =
    &["crates/redis/", "crates/server/tests/", "crates/sim/tests/against_redis", "crates/tower/"];

/// Tests of these places are among those, and yet compute.
const COMPUTING: &[&str] = &["crates/server/tests/engine/"];

/// How many tests of one binary wait at a time.
const WAIT_AT_ONCE: &str = "3";

/// How far those that compute make way, as `nice` counts it.
const MAKES_WAY: &str = "10";

/// Why the tests could not be run at all.
#[derive(Debug, thiserror::Error)]
pub enum SuiteError {
    /// Cargo could not be started, or not be read.
    #[error("cannot run cargo: {0}")]
    Cargo(#[from] std::io::Error),
    /// Cargo has said why on its own.
    #[error("the tests do not build")]
    Build,
    /// The arguments name no test.
    #[error("there is no test to run")]
    Nothing,
}

/// A test binary.
#[derive(Debug, Clone)]
struct Binary {
    /// Its main file, relative to the root: a name that nothing else has.
    source: String,
    /// The folder of its package, where cargo runs tests too.
    package: PathBuf,
    file: PathBuf,
}

impl Binary {
    fn waits(&self) -> bool {
        let is_in = |places: &[&str]| places.iter().any(|place| self.source.starts_with(place));
        is_in(WAITING) && !is_in(COMPUTING)
    }

    fn command(&self) -> Command {
        let mut command = if self.waits() {
            let mut command = Command::new(&self.file);
            command.env("RUST_TEST_THREADS", WAIT_AT_ONCE);
            command
        } else {
            let mut command = Command::new("nice");
            command.args(["-n", MAKES_WAY]).arg(&self.file);
            command
        };
        command.current_dir(&self.package).env("CARGO_MANIFEST_DIR", &self.package).stdin(Stdio::null());
        command
    }
}

/// What came of all binaries.
#[derive(Debug, Default)]
pub struct TestTally {
    /// Tests that passed.
    pub passed: usize,
    /// The binaries that failed, by their main files.
    pub failed: Vec<String>,
}

/// Builds what `cargo test` with these arguments would run, and runs it.
pub fn run(root: &Path, arguments: &[&str]) -> Result<TestTally, SuiteError> {
    let (waiting, computing): (Vec<Binary>, Vec<Binary>) =
        build(root, arguments)?.into_iter().partition(Binary::waits);
    if waiting.is_empty() && computing.is_empty() {
        return Err(SuiteError::Nothing);
    }
    let tally = Mutex::new(TestTally::default());
    std::thread::scope(|scope| {
        for lane in [waiting, computing] {
            let tally = &tally;
            scope.spawn(move || lane.iter().for_each(|binary| run_one(binary, tally)));
        }
    });
    Ok(tally.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner))
}

fn build(root: &Path, arguments: &[&str]) -> Result<Vec<Binary>, SuiteError> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut building = Command::new(cargo)
        .arg("test")
        .args(arguments)
        .args(["--no-run", "--message-format=json-render-diagnostics"])
        .current_dir(root)
        .stdout(Stdio::piped())
        .spawn()?;
    let mut binaries = Vec::new();
    if let Some(said) = building.stdout.take() {
        for message in Message::parse_stream(BufReader::new(said)) {
            binaries.extend(test_binary(root, message?));
        }
    }
    if building.wait()?.success() { Ok(binaries) } else { Err(SuiteError::Build) }
}

fn test_binary(root: &Path, message: Message) -> Option<Binary> {
    let Message::CompilerArtifact(artifact) = message else { return None };
    let file = artifact.executable.filter(|_| artifact.profile.test)?;
    let source = artifact.target.src_path.into_std_path_buf();
    Some(Binary {
        source: source.strip_prefix(root).unwrap_or(&source).display().to_string(),
        package: artifact.manifest_path.parent()?.as_std_path().to_owned(),
        file: file.into_std_path_buf(),
    })
}

#[expect(clippy::disallowed_methods, reason = "how long tests take is for people to see")]
fn run_one(binary: &Binary, tally: &Mutex<TestTally>) {
    let began = Instant::now();
    let (ended_well, said) = match output(binary.command()) {
        Ok(ended) => ended,
        Err(error) => (false, format!("cannot run {}: {error}\n", binary.file.display())),
    };
    let took = began.elapsed().as_secs_f32();
    // Whoever prints has the lock, so that lines of two binaries do not mix.
    let mut tally = tally.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    match passed(&said).filter(|_| ended_well) {
        Some(passed) => {
            tally.passed += passed;
            println!("ok      {} ({passed} tests, {took:.1} s)", binary.source);
        }
        None => {
            println!("{said}\nFAILED  {} ({took:.1} s); it is {}", binary.source, binary.file.display());
            tally.failed.push(binary.source.clone());
        }
    }
}

/// Runs a program to its end: whether it ended well, and all it said, in the order in which it said it.
fn output(mut command: Command) -> std::io::Result<(bool, String)> {
    let (mut said, saying) = std::io::pipe()?;
    let mut running = command.stdout(saying.try_clone()?).stderr(saying).spawn()?;
    // The command holds the pipe open as long as it is there.
    drop(command);
    let mut text = Vec::new();
    said.read_to_end(&mut text)?;
    Ok((running.wait()?.success(), String::from_utf8_lossy(&text).into_owned()))
}

/// How many tests passed, by the last line of a binary that came to its end.
fn passed(said: &str) -> Option<usize> {
    let result = said.lines().rev().find_map(|line| line.strip_prefix("test result: ok. "))?;
    result.split_once(" passed")?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn binary(source: &str) -> Binary {
        Binary { source: source.into(), package: PathBuf::from("."), file: PathBuf::from("true") }
    }

    #[test]
    fn who_talks_to_others_waits() {
        assert!(binary("crates/redis/tests/all/main.rs").waits());
        assert!(!binary("crates/server/tests/engine/main.rs").waits());
        assert!(!binary("crates/core/src/lib.rs").waits());
    }

    #[test]
    fn what_passed_is_counted_and_what_broke_off_has_not() {
        let line =
            "test result: ok. 34 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.9s";
        assert_eq!(passed(&format!("running 34 tests\n{line}\n\n")), Some(34));
        assert_eq!(passed(&line.replace("ok. 34", "FAILED. 33")), None);
        assert_eq!(passed("running 34 tests\n"), None);
    }

    #[test]
    fn all_that_is_said_is_kept_and_failures_are_seen() {
        let shell = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            output(command).expect("a shell starts")
        };
        assert_eq!(shell("echo a; echo b >&2; echo c"), (true, "a\nb\nc\n".to_owned()));
        assert_eq!(shell("echo a; exit 3"), (false, "a\n".to_owned()));
    }
}
