//! Has a file changed? It is looked at again and again, through symbolic links, so that it does not matter
//! whether it is written in place, replaced by another, or swapped with its whole directory.

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

/// Files that are read together, and how they looked when they were.
#[derive(Debug)]
pub(crate) struct WatchedFiles {
    files: Vec<PathBuf>,
    read: Look,
    /// What was different the last time.
    pending: Option<Look>,
}

/// How files look: `None` for one that cannot be seen.
type Look = Vec<Option<Identity>>;

/// What changes when a file does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity {
    place: (u64, u64),
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl WatchedFiles {
    /// As they look now. To be called before they are read: what changes meanwhile is then noticed.
    pub(crate) fn new(files: Vec<PathBuf>) -> WatchedFiles {
        let read = look(&files);
        WatchedFiles { files, read, pending: None }
    }

    /// Should they be read again? Only what looks the same twice is, since it may be half written.
    pub(crate) fn changed(&mut self) -> bool {
        let now = look(&self.files);
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

    /// Can all of them be read without waiting? Whoever opens a pipe waits for its other end.
    ///
    /// # Errors
    /// What is wrong with one of them.
    pub(crate) fn are_files(&self) -> Result<(), String> {
        let is_other = |file: &&PathBuf| std::fs::metadata(file).is_ok_and(|seen| !seen.is_file());
        match self.files.iter().find(is_other) {
            Some(other) => Err(format!("{} is no regular file", other.display())),
            None => Ok(()),
        }
    }

    /// They are about to be read, whatever they look like.
    pub(crate) fn now(&mut self) {
        (self.read, self.pending) = (look(&self.files), None);
    }
}

fn look(files: &[PathBuf]) -> Look {
    let identity = |file: &PathBuf| {
        let seen = std::fs::metadata(file).ok()?;
        Some(Identity {
            place: (seen.dev(), seen.ino()),
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

    /// How often it is said to have changed in four looks.
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
        watched.now();
        assert_eq!(changes(&mut watched), NEVER);
    }
}
