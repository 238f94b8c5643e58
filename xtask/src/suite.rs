//! Builds the tests once, and runs those that mostly wait in parallel to those that mostly compute.
//!
//! `cargo test` runs one test binary after the other. Many of ours wait for sockets and timers; meanwhile the CPU can
//! run property tests.

use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::Instant;

use cargo_metadata::Message;

/// Tests below these paths wait for sockets, timers and other processes. They are sensitive to scheduling delays, so
/// the tests that run in parallel to them have a lower priority.
const WAITING: &[&str] =
    &["crates/redis/", "crates/server/tests/", "crates/sim/tests/against_redis", "crates/tower/"];

/// Exceptions: tests below the paths above that mostly compute.
const COMPUTING: &[&str] = &["crates/server/tests/engine/"];

/// How many tests of one waiting binary run in parallel.
const WAITING_TEST_THREADS: &str = "3";

/// The niceness of the tests that compute.
const COMPUTING_NICENESS: &str = "10";

/// Why the tests could not be run at all.
#[derive(Debug, thiserror::Error)]
pub enum SuiteError {
    /// Cargo could not be started, or its output not be read.
    #[error("cannot run cargo: {0}")]
    Cargo(#[from] std::io::Error),
    /// The build failed; cargo has printed the errors.
    #[error("the tests do not build")]
    Build,
    /// The arguments name no test.
    #[error("there is no test to run")]
    Nothing,
}

/// A test binary.
#[derive(Debug, Clone)]
struct Binary {
    /// Its main file, relative to the root; unique.
    source: String,
    /// The folder of its package, the working directory of the tests.
    package: PathBuf,
    file: PathBuf,
}

impl Binary {
    fn waits(&self) -> bool {
        let is_in = |paths: &[&str]| paths.iter().any(|path| self.source.starts_with(path));
        is_in(WAITING) && !is_in(COMPUTING)
    }

    fn command(&self) -> Command {
        let mut command = if self.waits() {
            let mut command = Command::new(&self.file);
            command.env("RUST_TEST_THREADS", WAITING_TEST_THREADS);
            command
        } else {
            let mut command = Command::new("nice");
            command.args(["-n", COMPUTING_NICENESS]).arg(&self.file);
            command
        };
        command.current_dir(&self.package).env("CARGO_MANIFEST_DIR", &self.package).stdin(Stdio::null());
        command
    }
}

/// The results of all binaries.
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
    let mut building = crate::cargo()
        .arg("test")
        .args(arguments)
        .args(["--no-run", "--message-format=json-render-diagnostics"])
        .current_dir(root)
        .stdout(Stdio::piped())
        .spawn()?;
    let mut binaries = Vec::new();
    if let Some(output) = building.stdout.take() {
        for message in Message::parse_stream(BufReader::new(output)) {
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

#[expect(clippy::disallowed_methods, reason = "the duration of tests is printed for people")]
fn run_one(binary: &Binary, tally: &Mutex<TestTally>) {
    let began = Instant::now();
    let (succeeded, printed) = match output(binary.command()) {
        Ok(ended) => ended,
        Err(error) => (false, format!("cannot run {}: {error}\n", binary.file.display())),
    };
    let took = began.elapsed().as_secs_f32();
    // Hold the lock while printing, so that lines of two binaries do not mix.
    let mut tally = tally.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    match passed(&printed).filter(|_| succeeded) {
        Some(passed) => {
            tally.passed += passed;
            println!("ok      {} ({passed} tests, {took:.1} s)", binary.source);
        }
        None => {
            println!("{printed}\nFAILED  {} ({took:.1} s); binary: {}", binary.source, binary.file.display());
            tally.failed.push(binary.source.clone());
        }
    }
}

/// Runs a program to its end; returns whether it succeeded, and its standard output and error in order.
fn output(mut command: Command) -> std::io::Result<(bool, String)> {
    let (mut reader, writer) = std::io::pipe()?;
    let mut running = command.stdout(writer.try_clone()?).stderr(writer).spawn()?;
    // The command holds the writing end of the pipe, so reading would never end.
    drop(command);
    let mut text = Vec::new();
    reader.read_to_end(&mut text)?;
    Ok((running.wait()?.success(), String::from_utf8_lossy(&text).into_owned()))
}

/// How many tests passed, from the last line of the output; `None` if the binary failed or did not finish.
fn passed(printed: &str) -> Option<usize> {
    let result = printed.lines().rev().find_map(|line| line.strip_prefix("test result: ok. "))?;
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
