//! Notices changed files by polling their metadata through symbolic links, so it makes no difference whether a file is
//! written in place, replaced by another, or swapped with its whole directory.

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

/// Files that are read together, and their metadata when they were last read.
#[derive(Debug)]
pub(crate) struct WatchedFiles {
    files: Vec<PathBuf>,
    read: Snapshot,
    /// A changed snapshot that was seen once.
    pending: Option<Snapshot>,
}

/// The metadata of the files: `None` for a file that cannot be found.
type Snapshot = Vec<Option<FileStamp>>;

/// Metadata of which some part changes when the file does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileStamp {
    inode: (u64, u64),
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl WatchedFiles {
    /// Watches files from now on. To be called before they are read, so that a change meanwhile is noticed.
    pub(crate) fn new(files: Vec<PathBuf>) -> WatchedFiles {
        let read = snapshot(&files);
        WatchedFiles { files, read, pending: None }
    }

    /// Should they be read again? Only when two checks see the same change: before that a file may be half written.
    pub(crate) fn changed(&mut self) -> bool {
        let now = snapshot(&self.files);
        if now == self.read {
            self.pending = None;
            return false;
        }
        if self.pending.as_ref() != Some(&now) {
            self.pending = Some(now);
            return false;
        }
        (self.read, self.pending) = (now, None);
        true
    }

    /// Checks that all of them are regular files: opening a pipe would block until its other end is opened.
    ///
    /// # Errors
    /// The first that is not.
    pub(crate) fn check_regular_files(&self) -> Result<(), String> {
        let is_other = |file: &&PathBuf| std::fs::metadata(file).is_ok_and(|seen| !seen.is_file());
        match self.files.iter().find(is_other) {
            Some(other) => Err(format!("{} is not a regular file", other.display())),
            None => Ok(()),
        }
    }

    /// Takes the current state as read. To be called before reading them.
    pub(crate) fn mark_read(&mut self) {
        (self.read, self.pending) = (snapshot(&self.files), None);
    }
}

fn snapshot(files: &[PathBuf]) -> Snapshot {
    let identity = |file: &PathBuf| {
        let seen = std::fs::metadata(file).ok()?;
        Some(FileStamp {
            inode: (seen.dev(), seen.ino()),
            size: seen.size(),
            modified: (seen.mtime(), seen.mtime_nsec()),
            changed: (seen.ctime(), seen.ctime_nsec()),
        })
    };
    files.iter().map(identity).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    struct Home(PathBuf);

    impl Home {
        fn new(name: &str) -> Home {
            let home = std::env::temp_dir().join(format!("tidegate-watch-{}-{name}", std::process::id()));
            fs::create_dir_all(&home).unwrap();
            Home(home)
        }

        fn file(&self, name: &str) -> PathBuf {
            self.0.join(name)
        }
    }

    impl Drop for Home {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).unwrap();
        }
    }

    /// What four checks in a row return.
    fn changes(watched: &mut WatchedFiles) -> Vec<bool> {
        (0..4).map(|_| watched.changed()).collect()
    }

    const ONCE: [bool; 4] = [false, true, false, false];
    const NEVER: [bool; 4] = [false; 4];

    #[test]
    fn writing_replacing_and_removing_are_noticed_once() {
        let home = Home::new("ways");
        let file = home.file("policy.yaml");
        fs::write(&file, "one").unwrap();
        let mut watched = WatchedFiles::new(vec![file.clone()]);
        assert_eq!(changes(&mut watched), NEVER);
        fs::write(&file, "three").unwrap();
        assert_eq!(changes(&mut watched), ONCE, "in place");
        fs::write(home.file("new"), "seven").unwrap();
        fs::rename(home.file("new"), &file).unwrap();
        assert_eq!(changes(&mut watched), ONCE, "as editors do");
        fs::remove_file(&file).unwrap();
        assert_eq!(changes(&mut watched), ONCE, "gone");
        fs::write(&file, "seven").unwrap();
        assert_eq!(changes(&mut watched), ONCE, "back");
    }

    #[test]
    fn a_directory_swapped_by_symbolic_link_is_noticed() {
        let home = Home::new("swap");
        for (version, text) in [("v1", "one"), ("v2", "two")] {
            fs::create_dir(home.file(version)).unwrap();
            fs::write(home.file(version).join("policy.yaml"), text).unwrap();
        }
        symlink("v1", home.file("..data")).unwrap();
        symlink("..data/policy.yaml", home.file("policy.yaml")).unwrap();
        let mut watched = WatchedFiles::new(vec![home.file("policy.yaml")]);
        symlink("v2", home.file("..data_tmp")).unwrap();
        fs::rename(home.file("..data_tmp"), home.file("..data")).unwrap();
        assert_eq!(changes(&mut watched), ONCE);
    }

    #[test]
    fn what_is_still_being_written_is_not_read() {
        let home = Home::new("half");
        let file = home.file("policy.yaml");
        fs::write(&file, "1").unwrap();
        let mut watched = WatchedFiles::new(vec![file.clone()]);
        for length in 2..6 {
            fs::write(&file, "1".repeat(length)).unwrap();
            assert!(!watched.changed());
        }
        assert!(watched.changed());
        fs::write(&file, "").unwrap();
        watched.mark_read();
        assert_eq!(changes(&mut watched), NEVER);
    }
}
