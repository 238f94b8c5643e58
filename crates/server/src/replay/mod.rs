//! A trace run through the real engine, in virtual time.
//!
//! The engine takes its time from the trace and nothing else, so the same input
//! gives the same output, byte for byte. Where the store would have to put keys
//! together for want of room, which ones would be chance: the run stops instead.

mod summary;

use std::io::{BufRead, Read, Write};

use tidegate::engine::{BURST_KEYS_MAX, InvalidCredentials, Limiter, LimiterError, Policy, RuleSet};
use tidegate::{Clock, ManualClock, Memory, MemoryOptions, Nanos};

use crate::wire;

pub use summary::Summary;

/// The longest line of a trace.
pub const LINE_BYTES_MAX: usize = 1 << 20;

/// Lines between two reports.
const REPORT_LINES: u64 = 4_096;

/// Why a run stopped. What was decided before is written.
#[derive(Debug, thiserror::Error)]
pub enum SimulateError {
    /// A line is no request.
    #[error("line {line}, column {column}: {problem}")]
    Line {
        /// Its number, from one.
        line: u64,
        /// Where in it.
        column: usize,
        /// What is wrong with it.
        problem: String,
    },
    /// More keys than there is room for.
    #[error("line {line}: more than {max_keys} keys are in use at once; raise --max-keys")]
    TooManyKeys {
        /// The line at which it was noticed.
        line: u64,
        /// How many there is room for.
        max_keys: usize,
    },
    /// More keys than burst detectors can watch.
    #[error("line {line}: burst detectors watch more than {max_keys} keys at once, which they cannot")]
    TooManyWatched {
        /// The line at which it was noticed.
        line: u64,
        /// How many they can watch.
        max_keys: usize,
    },
    /// The policy has too many limits, or there is no memory for the keys.
    #[error(transparent)]
    Limiter(#[from] LimiterError),
    /// Reading failed.
    #[error("cannot read the trace: {0}")]
    Read(std::io::Error),
    /// Writing failed.
    #[error("cannot write the decisions: {0}")]
    Write(std::io::Error),
}

/// How far a run has come.
#[derive(Clone, Copy, Debug)]
pub struct ReplayProgress {
    /// Lines decided.
    pub lines: u64,
    /// Bytes read.
    pub bytes: u64,
}

/// Decides every line of a trace, in order.
///
/// # Errors
/// At the first line that is no request, and when reading or writing fails.
pub fn run(
    rules: impl Into<RuleSet>,
    max_keys: usize,
    trace: impl BufRead,
    out: impl Write,
    report: impl FnMut(ReplayProgress),
) -> Result<Summary, SimulateError> {
    run_with(rules, InvalidCredentials::Deny, max_keys, trace, out, report)
}

/// The same, where credentials that do not hold are what they are said to be.
fn run_with(
    rules: impl Into<RuleSet>,
    invalid: InvalidCredentials,
    max_keys: usize,
    trace: impl BufRead,
    out: impl Write,
    report: impl FnMut(ReplayProgress),
) -> Result<Summary, SimulateError> {
    let clock = ManualClock::new(Nanos::ZERO);
    let options = MemoryOptions { max_keys, max_log_entries: max_keys.saturating_mul(4) };
    let limiter = Limiter::in_memory(rules, options, clock.clone())?;
    limiter.set_invalid_credentials(invalid);
    let mut replay = Replay {
        limiter,
        clock,
        max_keys,
        out,
        pending: Vec::with_capacity(2 * PENDING_MAX),
        summary: Summary::default(),
        progress: ReplayProgress { lines: 0, bytes: 0 },
    };
    let ran = replay.all(trace, report);
    // What was decided before a line that is none is written.
    let written = replay.flush();
    ran.and(written)?;
    replay.summary.finish(&replay.limiter);
    Ok(replay.summary)
}

/// Decisions are written in pieces of about so many bytes.
const PENDING_MAX: usize = 1 << 16;

/// A run.
struct Replay<W> {
    limiter: Virtual,
    clock: ManualClock,
    max_keys: usize,
    out: W,
    /// Decisions that are not written yet.
    pending: Vec<u8>,
    summary: Summary,
    progress: ReplayProgress,
}

impl<W: Write> Replay<W> {
    fn all(
        &mut self,
        mut trace: impl BufRead,
        mut report: impl FnMut(ReplayProgress),
    ) -> Result<(), SimulateError> {
        let mut line = Vec::new();
        loop {
            line.clear();
            let read = read_line(&mut trace, &mut line).map_err(SimulateError::Read)?;
            if read == 0 {
                break;
            }
            self.progress.lines += 1;
            self.progress.bytes += read as u64;
            self.decide(&line)?;
            if self.pending.len() > PENDING_MAX {
                self.write()?;
            }
            if self.progress.lines.is_multiple_of(REPORT_LINES) {
                report(self.progress);
            }
        }
        report(self.progress);
        Ok(())
    }

    fn decide(&mut self, line: &[u8]) -> Result<(), SimulateError> {
        let number = self.progress.lines;
        let wrong = |column: usize, problem: String| SimulateError::Line { line: number, column, problem };
        if line.len() > LINE_BYTES_MAX {
            return Err(wrong(LINE_BYTES_MAX, format!("longer than {LINE_BYTES_MAX} bytes")));
        }
        let text = std::str::from_utf8(line)
            .map_err(|error| wrong(error.valid_up_to() + 1, "this is no UTF-8 text".to_owned()))?
            .trim_end_matches(['\n', '\r']);
        if text.trim().is_empty() {
            return Err(wrong(1, "the line is empty; write one request a line".to_owned()));
        }
        let asked = wire::trace_line(text).map_err(|error| wrong(error.column, error.to_string()))?;
        if asked.at < self.clock.now() {
            let problem = format!("`at_ms` goes back to {}; a trace is in the order of time", asked.at_text);
            return Err(wrong(1, problem));
        }
        self.clock.set(asked.at);
        let decision = self.limiter.take_place_at(&asked.request, asked.at);
        self.check_room()?;
        self.pending.extend_from_slice(b"{\"at_ms\":");
        self.pending.extend_from_slice(asked.at_text.as_bytes());
        self.pending.push(b',');
        decision.write_json_members(&mut self.pending);
        self.pending.extend_from_slice(b"}\n");
        self.summary.count(&decision);
        Ok(())
    }

    /// What would be chance is not written.
    fn check_room(&self) -> Result<(), SimulateError> {
        let line = self.progress.lines;
        if self.limiter.store().overflows() > 0 {
            return Err(SimulateError::TooManyKeys { line, max_keys: self.max_keys });
        }
        if self.limiter.untracked_bursts() > 0 {
            return Err(SimulateError::TooManyWatched { line, max_keys: BURST_KEYS_MAX });
        }
        Ok(())
    }

    fn write(&mut self) -> Result<(), SimulateError> {
        self.out.write_all(&self.pending).map_err(SimulateError::Write)?;
        self.pending.clear();
        Ok(())
    }

    fn flush(&mut self) -> Result<(), SimulateError> {
        self.write()?;
        self.out.flush().map_err(SimulateError::Write)
    }
}

/// Reads up to the end of a line, and no more than tells that it is too long.
fn read_line(trace: &mut impl BufRead, line: &mut Vec<u8>) -> std::io::Result<usize> {
    trace.take(LINE_BYTES_MAX as u64 + 1).read_until(b'\n', line)
}

type Virtual = Limiter<Memory<ManualClock>, ManualClock>;

/// The decisions on a trace, for tests.
///
/// # Errors
/// Every problem of the policy, or the line that is no request.
pub fn run_text(policy: &str, trace: &str) -> Result<String, String> {
    run_text_with(policy, trace, InvalidCredentials::Deny)
}

/// The same, with what becomes of credentials that do not hold.
///
/// # Errors
/// Every problem of the policy, or the line that is no request.
pub fn run_text_with(policy: &str, trace: &str, invalid: InvalidCredentials) -> Result<String, String> {
    let policy = Policy::parse(policy).map_err(|error| error.to_string())?;
    let mut out = Vec::new();
    let ran = run_with(policy, invalid, 10_000, trace.as_bytes(), &mut out, |_| {});
    ran.map_err(|error| error.to_string())?;
    Ok(String::from_utf8(out).expect("JSON is text"))
}
