//! The events file: a line of JSON for each event. When the file is full, it is renamed to `<name>.1`, what was `<name>.1`
//! becomes `<name>.2`, and so on; the oldest is deleted.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::event::AuditEvent;
use super::sink::{EventSink, EventsUnwritten};

/// The file, and when it is full.
#[derive(Debug)]
pub(super) struct EventFile {
    path: PathBuf,
    max_bytes: u64,
    /// How many full files are kept.
    keep: u32,
    open: Option<OpenFile>,
    lines: Vec<u8>,
}

#[derive(Debug)]
struct OpenFile {
    file: File,
    /// Its number in the file system, by which it is recognized.
    inode: u64,
    len: u64,
}

/// The path of the full file with this number; 0 is the one that is written to.
pub(crate) fn numbered(path: &Path, number: u32) -> PathBuf {
    if number == 0 {
        return path.to_owned();
    }
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{number}"));
    name.into()
}

impl EventFile {
    /// Opens the file; lines are appended to it.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub(super) fn open(path: PathBuf, max_bytes: u64, keep: u32) -> io::Result<EventFile> {
        let mut file = EventFile { path, max_bytes, keep, open: None, lines: Vec::new() };
        file.reopen()?;
        Ok(file)
    }

    fn reopen(&mut self) -> io::Result<&mut OpenFile> {
        // Events have names and addresses of people, so the file is not for everybody.
        let mut file =
            OpenOptions::new().read(true).append(true).create(true).mode(0o640).open(&self.path)?;
        let seen = file.metadata()?;
        if !seen.is_file() {
            return Err(io::Error::other("it is not a regular file"));
        }
        let mut len = seen.len();
        // The machine has stopped in the middle of a line: the next one must not be appended to it.
        let mut last = [b'\n'];
        if len > 0 && file.read_at(&mut last, len - 1)? == 1 && last != [b'\n'] {
            file.write_all(b"\n")?;
            len += 1;
        }
        Ok(self.open.insert(OpenFile { file, inode: seen.ino(), len }))
    }

    /// The open file. If another program has renamed or removed it, as log rotators do, a new one is begun.
    fn current(&mut self) -> io::Result<&mut OpenFile> {
        let there = fs::metadata(&self.path).map(|seen| (seen.ino(), seen.len()));
        match (&mut self.open, there) {
            (Some(open), Ok((inode, len))) if open.inode == inode => open.len = len,
            _ => return self.reopen(),
        }
        Ok(self.open.as_mut().expect("it was found to be open"))
    }

    /// Appends the collected lines: all of them, or none if that fails.
    fn append(&mut self) -> io::Result<()> {
        if self.lines.is_empty() {
            return Ok(());
        }
        let lines = std::mem::take(&mut self.lines);
        let open = self.current()?;
        let written = open.file.write_all(&lines);
        match written {
            Ok(()) => open.len += lines.len() as u64,
            // A part of a line must not stay: the next line would be appended to it.
            Err(_) => _ = open.file.set_len(open.len),
        }
        self.lines = lines;
        self.lines.clear();
        written
    }

    /// Renames the full file, and begins a new one.
    fn rotate(&mut self) -> io::Result<()> {
        self.open = None;
        if self.keep == 0 {
            fs::remove_file(&self.path)?;
        }
        for number in (0..self.keep).rev() {
            match fs::rename(numbered(&self.path, number), numbered(&self.path, number + 1)) {
                // There are not so many yet.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                renamed => renamed?,
            }
        }
        self.reopen().map(|_| ())
    }
}

impl EventFile {
    /// Writes events, and sets `written` to how many are in the file.
    fn write_counted(&mut self, events: &[AuditEvent], written: &mut usize) -> io::Result<()> {
        self.lines.clear();
        let mut len = self.current()?.len;
        for (index, event) in events.iter().enumerate() {
            let start = self.lines.len();
            event.write_line(&mut self.lines);
            let line_len = (self.lines.len() - start) as u64;
            if len > 0 && len + line_len > self.max_bytes {
                let line = self.lines.split_off(start);
                self.append()?;
                *written = index;
                self.rotate()?;
                (self.lines, len) = (line, 0);
            }
            len += line_len;
        }
        self.append()?;
        *written = events.len();
        Ok(())
    }
}

impl EventSink for EventFile {
    fn name(&self) -> &'static str {
        "file"
    }

    fn write(&mut self, events: &[AuditEvent]) -> Result<(), EventsUnwritten> {
        let mut written = 0;
        self.write_counted(events, &mut written).map_err(|error| EventsUnwritten { written, error })
    }
}

#[cfg(test)]
mod tests;
