//! Replays a trace through the real engine in virtual time, for `tidegate simulate`.
//!
//! The engine's clock is set only from the trace, so the same input gives the same output, byte for byte. If there are
//! more keys than the store has slots, it depends on random hash keys which of them would share the overflow bucket; so
//! the run stops with an error instead. Trust scores are computed by a book that forgets without chance.

mod summary;

use std::collections::HashMap;
use std::io::{BufRead, Read, Write};
use std::sync::Arc;

use tidegate::engine::trust::{AccountFacts, TrustBook, TrustOptions};
use tidegate::engine::{BURST_KEYS_MAX, InvalidCredentials, Limiter, LimiterError, Policy, RuleSet};
use tidegate::{Clock, ManualClock, Memory, MemoryOptions, Nanos};

use crate::wire;

pub use summary::Summary;

/// Maximum length of a line of a trace.
pub const LINE_BYTES_MAX: usize = 1 << 20;

/// Lines between two progress reports.
const REPORT_LINES: u64 = 4_096;

/// Why a run stopped. Decisions made before are written.
#[derive(Debug, thiserror::Error)]
pub enum SimulateError {
    /// A line is not a request.
    #[error("line {line}, column {column}: {problem}")]
    Line {
        /// Its number, from one.
        line: u64,
        /// The column, from one.
        column: usize,
        /// What is wrong with it.
        problem: String,
    },
    /// More keys than `max_keys`.
    #[error("line {line}: more than {max_keys} keys are in use at once; raise --max-keys")]
    TooManyKeys {
        /// The line at which it was noticed.
        line: u64,
        /// The maximum.
        max_keys: usize,
    },
    /// More keys than burst detectors can watch.
    #[error(
        "line {line}: more than {max_keys} keys at once for burst detectors, which is their fixed maximum"
    )]
    TooManyWatched {
        /// The line at which it was noticed.
        line: u64,
        /// The maximum.
        max_keys: usize,
    },
    /// The policy has too many limits, or there is not enough memory for the keys.
    #[error(transparent)]
    Limiter(#[from] LimiterError),
    /// Reading failed.
    #[error("cannot read the trace: {0}")]
    Read(std::io::Error),
    /// Writing failed.
    #[error("cannot write the decisions: {0}")]
    Write(std::io::Error),
}

/// The progress of a run.
#[derive(Clone, Copy, Debug)]
pub struct ReplayProgress {
    /// Lines decided.
    pub lines: u64,
    /// Bytes read.
    pub bytes: u64,
}

/// Facts about users, as in a trust file.
pub type ListedAccounts = HashMap<Box<str>, AccountFacts>;

/// What the settings of a server add to a run.
#[derive(Clone, Debug, Default)]
pub struct ReplaySettings {
    /// What happens to invalid credentials.
    pub invalid: InvalidCredentials,
    /// How trust is computed, and what is known about users; `None` if requests have only the trust that they state.
    pub trust: Option<(TrustOptions, ListedAccounts)>,
}

/// Decides every line of a trace, in order, and writes the decisions to `out`.
///
/// # Errors
/// At the first line that is not a request, and when reading or writing fails.
pub fn run(
    rules: impl Into<RuleSet>,
    settings: ReplaySettings,
    max_keys: usize,
    trace: impl BufRead,
    out: impl Write,
    report: impl FnMut(ReplayProgress),
) -> Result<Summary, SimulateError> {
    let clock = ManualClock::new(Nanos::ZERO);
    let options = MemoryOptions { max_keys, max_log_entries: max_keys.saturating_mul(4) };
    let mut limiter = Limiter::in_memory(rules, options, clock.clone())?;
    limiter.set_invalid_credentials(settings.invalid);
    if let Some((options, accounts)) = settings.trust {
        let book = TrustBook::reproducible(options);
        book.replace_listed(accounts);
        limiter = limiter.with_trust_book(Arc::new(book));
    }
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
    // Write the decisions made before a bad line too.
    let written = replay.flush();
    ran.and(written)?;
    replay.summary.finish(&replay.limiter);
    Ok(replay.summary)
}

/// Decisions are written in pieces of about this many bytes.
const PENDING_MAX: usize = 1 << 16;

/// A run.
struct Replay<W> {
    limiter: VirtualLimiter,
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
            return Err(wrong(LINE_BYTES_MAX, format!("the line is longer than {LINE_BYTES_MAX} bytes")));
        }
        let text = std::str::from_utf8(line)
            .map_err(|error| wrong(error.valid_up_to() + 1, "the line is not valid UTF-8".to_owned()))?
            .trim_end_matches(['\n', '\r']);
        if text.trim().is_empty() {
            return Err(wrong(1, "the line is empty; write one JSON request per line".to_owned()));
        }
        let line = wire::trace_line(text).map_err(|error| wrong(error.column, error.to_string()))?;
        if line.at < self.clock.now() {
            let problem = format!(
                "`at_ms` goes back to {}; sort the trace by time, `at_ms` must never decrease",
                line.at_text
            );
            return Err(wrong(1, problem));
        }
        self.clock.set(line.at);
        let decision = self.limiter.take_place_at(&line.request, line.at);
        self.check_capacity()?;
        self.pending.extend_from_slice(b"{\"at_ms\":");
        self.pending.extend_from_slice(line.at_text.as_bytes());
        if let Some(id) = line.id {
            self.pending.extend_from_slice(b",\"id\":");
            self.pending.extend_from_slice(id.as_bytes());
        }
        self.pending.push(b',');
        decision.write_json_members(&mut self.pending);
        self.pending.extend_from_slice(b"}\n");
        self.summary.count(&decision);
        Ok(())
    }

    /// Stops the run before a decision that would depend on chance is written.
    fn check_capacity(&self) -> Result<(), SimulateError> {
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

/// Reads up to the end of a line, at most one byte more than the maximum length.
fn read_line(trace: &mut impl BufRead, line: &mut Vec<u8>) -> std::io::Result<usize> {
    trace.take(LINE_BYTES_MAX as u64 + 1).read_until(b'\n', line)
}

type VirtualLimiter = Limiter<Memory<ManualClock>, ManualClock>;

/// The decisions of a trace as text, for tests.
///
/// # Errors
/// Every problem of the policy, or the first line that is not a request.
pub fn run_text(policy: &str, trace: &str) -> Result<String, String> {
    run_text_with(policy, trace, ReplaySettings::default())
}

/// The same with the settings of a server.
///
/// # Errors
/// Every problem of the policy, or the first line that is not a request.
pub fn run_text_with(policy: &str, trace: &str, settings: ReplaySettings) -> Result<String, String> {
    let policy = Policy::parse(policy).map_err(|error| error.to_string())?;
    let mut out = Vec::new();
    let ran = run(policy, settings, 10_000, trace.as_bytes(), &mut out, |_| {});
    ran.map_err(|error| error.to_string())?;
    Ok(String::from_utf8(out).expect("JSON is text"))
}
