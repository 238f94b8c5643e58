//! A temporary directory for one test.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A directory that is removed when the test ends.
pub(crate) struct Home(PathBuf);

impl Home {
    pub(crate) fn new() -> Home {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let home = std::env::temp_dir().join(format!("tidegate-test-{}-{number}", std::process::id()));
        fs::create_dir_all(&home).expect("it can be made");
        Home(home)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// The path of a file, as a command line argument.
    pub(crate) fn arg(&self, name: &str) -> String {
        self.path(name).to_str().expect("it is text").to_owned()
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> String {
        fs::write(self.path(name), text).expect("it can be written");
        self.arg(name)
    }

    /// Replaces a file atomically by a rename, as editors do.
    pub(crate) fn replace(&self, name: &str, text: &str) {
        self.write(".new", text);
        fs::rename(self.path(".new"), self.path(name)).expect("it can be renamed");
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        _ = fs::remove_dir_all(&self.0);
    }
}

/// A policy with this burst, and one more per hour, for each user.
pub(crate) fn policy(burst: u32) -> String {
    format!(
        "version: 1\nlimits:\n- {{ name: per-user, key: [user], sustained: {{ rate: 1, window: hour }}, \
         burst: {{ capacity: {burst} }} }}\n"
    )
}
