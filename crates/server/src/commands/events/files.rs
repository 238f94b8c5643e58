//! Reads the lines of the events file and of the full files beside it, oldest first, also while the server appends to
//! them and renames them.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::bounds::EVENT_LINE_BYTES_MAX;
use crate::observe::events::file::numbered;

/// The events file and the full files beside it.
#[derive(Debug)]
pub(super) struct EventFiles {
    path: PathBuf,
    /// The file that is being read, by its number in the file system, and the line that is not complete yet.
    current: Option<(u64, BufReader<File>)>,
    partial: Vec<u8>,
}

/// A file with its number in the file system, which stays when it is renamed.
type NumberedFile = (u64, File);

impl EventFiles {
    pub(super) fn new(path: &Path) -> EventFiles {
        EventFiles { path: path.to_owned(), current: None, partial: Vec::new() }
    }

    /// Calls `line` with every complete line that was not read yet, and returns whether there was a file.
    ///
    /// # Errors
    /// When a file cannot be read, or `line` fails.
    pub(super) fn read_new(&mut self, mut line: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<bool> {
        loop {
            if let Some((_, reader)) = &mut self.current {
                read_lines(reader, &mut self.partial, &mut line)?;
            }
            let files = self.unread()?;
            // The newest one has no successor yet: the server goes on writing to it.
            let Some((inode, file)) = files.into_iter().next() else { return Ok(self.current.is_some()) };
            if let Some((_, mut reader)) = self.current.take() {
                // Lines that came before the file was renamed.
                read_lines(&mut reader, &mut self.partial, &mut line)?;
            }
            self.partial.clear();
            self.current = Some((inode, BufReader::new(file)));
        }
    }

    /// The files that come after the current one, oldest first: all of them, if the current one has been deleted. It
    /// is open, so its number is not given to another file.
    fn unread(&self) -> io::Result<Vec<NumberedFile>> {
        let files = self.list()?;
        let current = self.current.as_ref().map(|(inode, _)| *inode);
        let place = files.iter().position(|(inode, _)| Some(*inode) == current);
        Ok(files.into_iter().skip(place.map_or(0, |place| place + 1)).collect())
    }

    /// All files, oldest first. They are opened newest first: a file that is renamed meanwhile is seen twice rather
    /// than not at all.
    fn list(&self) -> io::Result<Vec<NumberedFile>> {
        let mut files: Vec<NumberedFile> = Vec::new();
        for number in 0.. {
            match File::open(numbered(&self.path, number)) {
                Ok(file) => {
                    let inode = file.metadata()?.ino();
                    if files.iter().all(|(known, _)| *known != inode) {
                        files.push((inode, file));
                    }
                }
                // The file itself is missing for an instant while it is renamed.
                Err(error) if error.kind() == io::ErrorKind::NotFound && number == 0 => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => break,
                Err(error) => return Err(error),
            }
        }
        files.reverse();
        Ok(files)
    }
}

/// Calls `line` with each line up to the end of the file. What follows the last newline stays in `partial`.
fn read_lines(
    from: &mut impl BufRead,
    partial: &mut Vec<u8>,
    line: &mut impl FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<()> {
    loop {
        let seen = from.fill_buf()?;
        if seen.is_empty() {
            return Ok(());
        }
        let end = seen.iter().position(|byte| *byte == b'\n');
        let taken = end.map_or(seen.len(), |end| end + 1);
        let space = EVENT_LINE_BYTES_MAX.saturating_sub(partial.len());
        partial.extend_from_slice(&seen[..end.unwrap_or(taken).min(space)]);
        from.consume(taken);
        if end.is_some() {
            line(partial)?;
            partial.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder that is removed at the end.
    struct Folder(PathBuf);

    impl Drop for Folder {
        fn drop(&mut self) {
            let _removed = std::fs::remove_dir_all(&self.0);
        }
    }

    fn new_lines(files: &mut EventFiles) -> Vec<String> {
        let mut lines = Vec::new();
        let read = files.read_new(|line| {
            lines.push(String::from_utf8_lossy(line).into_owned());
            Ok(())
        });
        read.expect("the files can be read");
        lines
    }

    #[test]
    fn every_line_is_read_once_whatever_is_renamed_meanwhile() {
        let folder = Folder(std::env::temp_dir().join(format!("tidegate-follow-{}", std::process::id())));
        std::fs::create_dir_all(&folder.0).unwrap();
        let path = folder.0.join("events.jsonl");
        let rotate = || {
            for number in (0..4).rev() {
                let _missing = std::fs::rename(numbered(&path, number), numbered(&path, number + 1));
            }
        };
        let append = |text: &str| {
            use std::io::Write;
            let mut file = File::options().append(true).create(true).open(&path).unwrap();
            file.write_all(text.as_bytes()).unwrap();
        };
        let mut files = EventFiles::new(&path);
        assert_eq!(new_lines(&mut files), [""; 0], "there is no file yet");
        append("1\n2\n3");
        assert_eq!(new_lines(&mut files), ["1", "2"]);
        append("3\n");
        rotate();
        append("4\n");
        rotate();
        append("5\n");
        assert_eq!(new_lines(&mut files), ["33", "4", "5"], "two were begun since");
        rotate();
        assert_eq!(new_lines(&mut files), [""; 0], "the newest is missing for an instant");
        append("6\n");
        assert_eq!(new_lines(&mut files), ["6"]);
        assert_eq!(new_lines(&mut EventFiles::new(&path)), ["1", "2", "33", "4", "5", "6"]);
    }
}
