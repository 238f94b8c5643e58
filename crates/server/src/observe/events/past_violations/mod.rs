//! Reads back the violations of the last thirty days from the events file and the full files beside it, so that a restart
//! does not raise trust scores.
//!
//! The files are opened before the server writes its first event, and each is read up to the length that it has then: an
//! event of this process, which the engine has counted already, is never counted twice, and renaming files meanwhile does
//! no harm. The reading itself is done by a thread of its own.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;
use serde::Deserialize;
use tidegate::Nanos;
use tidegate::engine::trust::{TrustBook, VIOLATIONS_LIFE};

use super::describe::TEXT_CHARS_MAX;
use super::file::numbered;
use crate::bounds::{EVENT_LINE_BYTES_MAX, VIOLATION_BYTES_MAX, VIOLATION_FILES_MAX};

/// The files to read, newest first.
#[derive(Debug)]
pub(crate) struct PastViolations {
    files: Vec<OpenPart>,
    /// Events before this time are not read.
    since: Nanos,
    /// Was something left out because there is too much of it?
    is_cut: bool,
}

/// The end of a file: of a large one, only the last lines are read.
#[derive(Debug)]
struct OpenPart {
    file: File,
    start: u64,
    len: u64,
}

/// What was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct FoundViolations {
    /// Violations of known users in the last thirty days.
    pub(super) violations: u64,
    /// Lines that are not events.
    pub(super) malformed: u64,
    /// Violations of which the event does not name the user: several were merged, or the name was cut.
    pub(super) without_user: u64,
}

/// The members of an event that matter here.
#[derive(Deserialize)]
struct PastEvent<'l> {
    #[serde(rename = "event")]
    _event: &'l str,
    #[serde(default)]
    violation: bool,
    count: u64,
    first: &'l str,
    last: &'l str,
    user: Option<String>,
}

impl PastViolations {
    /// Opens the events file and the full files beside it.
    pub(crate) fn open(path: &Path, now: Nanos) -> PastViolations {
        let since = now.saturating_sub(VIOLATIONS_LIFE);
        let mut past = PastViolations { files: Vec::new(), since, is_cut: false };
        let mut space = VIOLATION_BYTES_MAX;
        for number in 0.. {
            let opened = File::open(numbered(path, number)).and_then(|file| Ok((file.metadata()?, file)));
            let (seen, file) = match opened {
                Ok(opened) => opened,
                // There may be none yet, or another program has renamed it.
                Err(error) if error.kind() == io::ErrorKind::NotFound && number == 0 => continue,
                Err(error) if error.kind() == io::ErrorKind::NotFound => break,
                Err(error) => {
                    let file = numbered(path, number).display().to_string();
                    tracing::warn!(file, %error, "violations before the start cannot be read from this file");
                    break;
                }
            };
            // A file holds nothing that is newer than its last change.
            let changed = u64::try_from(seen.mtime()).map_or(Nanos::ZERO, Nanos::from_secs);
            if !seen.is_file() || changed.saturating_add(Nanos::SECOND) < since {
                break;
            }
            if past.files.len() >= VIOLATION_FILES_MAX || space == 0 {
                past.is_cut = true;
                break;
            }
            let start = seen.len().saturating_sub(space);
            past.is_cut |= start > 0;
            space -= seen.len() - start;
            past.files.push(OpenPart { file, start, len: seen.len() - start });
        }
        past
    }

    /// Adds the violations to a book, on a thread of its own.
    ///
    /// # Errors
    /// When the thread cannot be started.
    pub(crate) fn read_into(self, book: Arc<TrustBook>) -> io::Result<()> {
        if self.files.is_empty() {
            return Ok(());
        }
        let read = move || {
            let is_cut = self.is_cut;
            let found = self.read(|user, count, at| book.restore_violations(user, count, at));
            let FoundViolations { violations, malformed, without_user } = found;
            tracing::info!(
                violations,
                without_user,
                "violations of the last thirty days were read from the events"
            );
            if malformed > 0 {
                tracing::warn!(
                    lines = malformed,
                    "lines of the events files are not events and were skipped"
                );
            }
            if is_cut {
                let (files, bytes) = (VIOLATION_FILES_MAX, VIOLATION_BYTES_MAX);
                tracing::warn!(
                    files,
                    bytes,
                    "the events files are large; violations in the oldest events were not read"
                );
            }
        };
        std::thread::Builder::new().name("past-violations".into()).spawn(read).map(|_| ())
    }

    /// Calls `each` with a user, a number of violations and their time.
    pub(super) fn read(self, mut each: impl FnMut(&str, u64, Nanos)) -> FoundViolations {
        let mut found = FoundViolations::default();
        for part in self.files {
            if let Err(error) = part.lines(|line| found.add(line, self.since, &mut each)) {
                tracing::warn!(%error, "an events file cannot be read; violations in it are not counted");
            }
        }
        found
    }
}

impl OpenPart {
    /// Calls `line` with each line. What follows the last newline is not a line.
    fn lines(mut self, mut line: impl FnMut(&[u8])) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(self.start))?;
        let mut reader = BufReader::with_capacity(1 << 16, self.file.take(self.len));
        let mut text = Vec::new();
        // In the middle of a file, the rest of a line comes first.
        let mut is_whole = self.start == 0;
        loop {
            text.clear();
            let longest = EVENT_LINE_BYTES_MAX as u64 + 1;
            if reader.by_ref().take(longest).read_until(b'\n', &mut text)? == 0 {
                return Ok(());
            }
            let ends = text.pop_if(|byte| *byte == b'\n').is_some();
            if is_whole && (ends || text.len() as u64 == longest) {
                line(&text);
            }
            // Of a line that is too long, the other parts are not read as lines.
            is_whole = ends;
        }
    }
}

impl<'l> PastEvent<'l> {
    /// An event, when it happened first, and when last.
    fn parse(line: &'l [u8]) -> Option<(PastEvent<'l>, Nanos, Nanos)> {
        let event: PastEvent<'l> = serde_json::from_slice(line).ok()?;
        let (first, last) = (wall_time(event.first)?, wall_time(event.last)?);
        Some((event, first, last))
    }
}

impl FoundViolations {
    fn add(&mut self, line: &[u8], since: Nanos, each: &mut impl FnMut(&str, u64, Nanos)) {
        let Some((event, first, last)) = PastEvent::parse(line) else {
            self.malformed += 1;
            return;
        };
        if !event.violation || event.count == 0 || last < since {
            return;
        }
        let Some(user) = event.user.filter(|user| user.chars().count() <= TEXT_CHARS_MAX) else {
            self.without_user += event.count;
            return;
        };
        // Of those in between only the last time is known; they are within seconds of each other.
        if first >= since {
            each(&user, 1, first);
        }
        if event.count > 1 {
            each(&user, event.count - 1, last);
        }
        self.violations += event.count - u64::from(first < since);
    }
}

fn wall_time(text: &str) -> Option<Nanos> {
    let time: Timestamp = text.parse().ok()?;
    u64::try_from(time.as_nanosecond()).ok().map(Nanos::new)
}

#[cfg(test)]
mod tests;
