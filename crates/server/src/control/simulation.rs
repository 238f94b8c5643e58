//! A simulation for the admin API: it is bounded in time, keys and output.

use std::io::{self, BufRead, Read, Write};
use std::sync::Arc;

use serde_json::{Value, json};
use tidegate::Nanos;
use tidegate_policy::Policy;

use super::api::ApiError;
use crate::bounds::{SIMULATION_BYTES_MAX, SIMULATION_KEYS_MAX, SIMULATION_TIME_MAX};
use crate::replay::{self, ReplaySettings, SimulateError, Summary};

/// What is simulated.
#[derive(Debug)]
pub(super) struct SimulationJob {
    pub(super) policy: Arc<str>,
    pub(super) trace: String,
    pub(super) max_keys: usize,
    /// Are the decisions answered as lines?
    pub(super) accepts_lines: bool,
}

/// What came of it.
#[derive(Debug)]
pub(super) struct Simulated {
    /// The first decisions, one a line.
    pub(super) lines: String,
    left_out: u64,
    summary: Summary,
}

/// Runs a simulation until the time is up.
///
/// # Errors
/// With the problems of the policy, or at the first line that is not a request; when it takes too long or too many keys.
pub(super) fn run(job: &SimulationJob, is_time_up: impl Fn() -> bool) -> Result<Simulated, ApiError> {
    // A trace brings its own time, so there are no warnings about entries that have expired by today.
    let policy =
        Policy::parse_at(&job.policy, Nanos::ZERO).map_err(|error| ApiError::Problems(error.problems))?;
    let trace = TimedReader { is_time_up, rest: job.trace.as_bytes() };
    let most = if job.accepts_lines { SIMULATION_BYTES_MAX } else { SIMULATION_BYTES_MAX / 16 };
    let mut out = FirstLines { bytes: Vec::new(), most, left_out: 0 };
    let wrong = |detail: String, place: &str| ApiError::Unprocessable {
        detail,
        pointer: place.to_owned(),
        more: Value::Null,
    };
    let ran = replay::run(policy, ReplaySettings::default(), job.max_keys, trace, &mut out, |_| {});
    let summary = ran.map_err(|error| match error {
        SimulateError::Read(error) => wrong(error.to_string(), "/trace"),
        SimulateError::Limiter(error) => wrong(error.to_string(), "/policy"),
        SimulateError::Write(_) => ApiError::Internal,
        SimulateError::TooManyKeys { line, max_keys } => wrong(too_many_keys(line, max_keys), "/max_keys"),
        other => wrong(other.to_string(), "/trace"),
    })?;
    let lines = String::from_utf8(out.bytes).map_err(|_| ApiError::Internal)?;
    Ok(Simulated { lines, left_out: out.left_out, summary })
}

/// The command names its flag there, which a call does not have.
fn too_many_keys(line: u64, max_keys: usize) -> String {
    let advice = match max_keys < SIMULATION_KEYS_MAX {
        true => format!("raise `max_keys`, which is at most {SIMULATION_KEYS_MAX}"),
        false => {
            "that is the most of `max_keys`: send a shorter trace, or run `tidegate simulate`".to_owned()
        }
    };
    format!("line {line} of the trace: more than {max_keys} keys are in use at once; {advice}")
}

impl Simulated {
    /// The answer: a summary, and the first decisions.
    pub(super) fn json(&self) -> Value {
        let decisions = self.lines.lines().map(|line| serde_json::from_str(line).unwrap_or_default());
        let summary = &self.summary;
        json!({
            "summary": {
                "requests": summary.requests,
                "allowed": summary.allowed,
                "denied": summary.requests - summary.allowed,
                "queued": summary.queued,
                "degraded": summary.degraded,
                "denied_by": summary.denied_by,
                "denied_for": summary.denied_for,
                "shadow_denied_by": summary.shadow_denied_by,
                "worst_wait_ms": summary.worst_wait.as_millis_ceil(),
            },
            "decisions": decisions.collect::<Vec<Value>>(),
            "left_out": self.left_out,
        })
    }
}

/// A trace that ends with an error when the time is up. It looks at the clock before each line: one may take long, if many
/// limits apply to it.
struct TimedReader<'t, F> {
    is_time_up: F,
    rest: &'t [u8],
}

impl<F: Fn() -> bool> BufRead for TimedReader<'_, F> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if !self.rest.is_empty() && (self.is_time_up)() {
            let seconds = SIMULATION_TIME_MAX.as_secs();
            let why = format!(
                "the simulation takes longer than {seconds} seconds: send a shorter trace, or run `tidegate simulate`"
            );
            return Err(io::Error::new(io::ErrorKind::TimedOut, why));
        }
        let line = self.rest.iter().position(|byte| *byte == b'\n').map_or(self.rest.len(), |end| end + 1);
        Ok(&self.rest[..line])
    }

    fn consume(&mut self, amount: usize) {
        self.rest = &self.rest[amount..];
    }
}

impl<F: Fn() -> bool> Read for TimedReader<'_, F> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.fill_buf()?.read(buffer)?;
        self.consume(read);
        Ok(read)
    }
}

/// Keeps whole lines up to a number of bytes, and counts the others.
struct FirstLines {
    bytes: Vec<u8>,
    most: usize,
    left_out: u64,
}

impl Write for FirstLines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            if self.left_out == 0 && self.bytes.len() + line.len() <= self.most {
                self.bytes.extend_from_slice(line);
            } else {
                self.left_out += 1;
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    const POLICY: &str = "version: 1\nlimits: [{ name: a, key: [user], sustained: { rate: 1 } }]\n";

    fn job(lines: usize) -> SimulationJob {
        let trace = (0..lines).map(|n| format!("{{\"at_ms\":{n},\"user\":\"1\"}}\n")).collect();
        SimulationJob { policy: POLICY.into(), trace, max_keys: 10, accepts_lines: false }
    }

    #[test]
    fn a_simulation_ends_when_its_time_is_up() {
        for lines in [1, 2, 5] {
            let looks = Cell::new(0);
            let is_time_up = || {
                looks.set(looks.get() + 1);
                looks.get() > lines
            };
            let error = run(&job(10), is_time_up).expect_err("it takes too long");
            assert!(error.to_string().contains("longer than 10 seconds"), "{error}");
            assert_eq!((error.status().as_u16(), looks.get()), (422, lines + 1), "a look before each line");
        }
    }

    #[test]
    fn decisions_beyond_the_bound_are_counted() {
        let simulated = run(&job(10_000), || false).expect("it runs");
        let json = simulated.json();
        let (shown, left_out) = (json["decisions"].as_array().map(Vec::len), json["left_out"].as_u64());
        assert_eq!(shown.zip(left_out).map(|(shown, left_out)| shown + left_out as usize), Some(10_000));
        assert!(left_out > Some(0) && simulated.lines.len() <= SIMULATION_BYTES_MAX / 16);
        assert_eq!(json["summary"]["requests"], 10_000);
    }
}
