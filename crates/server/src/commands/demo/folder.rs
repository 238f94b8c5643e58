//! The folder of the demo's database: a new one that is removed at the end, or one that is kept.

use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use super::super::serve::{running, usage};
use crate::commands::terminal::exit::{CommandFailure, print_stderr};
use crate::control::access::new_secret;
use crate::settings::DatabaseSettings;

/// The folder. If it is not to be kept, it is removed when this is dropped.
pub(super) struct DemoFolder {
    pub(super) path: PathBuf,
    is_kept: bool,
}

/// How often removing is tried: the last writes to the database may make a file meanwhile.
const REMOVALS_MAX: u32 = 10;

impl DemoFolder {
    /// The folder that the flag names, or else a new one.
    ///
    /// # Errors
    /// When it cannot be made, or has a database: the demo would change the policy in it.
    pub(super) fn new(kept: Option<&Path>) -> Result<DemoFolder, CommandFailure> {
        if let Some(path) = kept {
            let database = DatabaseSettings::in_folder(path);
            if database.file_exists() {
                return Err(usage(format!(
                    "--data: {place} has a database already, and the demo would change its policy; name a new folder, \
                     or look at what is there with `tidegate serve --data {place}`",
                    place = path.display()
                )));
            }
            database.make_folder().map_err(running)?;
            return Ok(DemoFolder { path: path.to_path_buf(), is_kept: true });
        }
        // A name that nobody can guess, in a folder where others may write too.
        let path = std::env::temp_dir().join(new_secret("tidegate-demo-").map_err(running)?);
        let made = std::fs::DirBuilder::new().mode(0o700).create(&path);
        made.map_err(|error| running(format!("cannot make the folder {}: {error}", path.display())))?;
        Ok(DemoFolder { path, is_kept: false })
    }

    /// Where the data is, and what becomes of it.
    pub(super) fn description(&self) -> String {
        let fate = if self.is_kept {
            "kept; see it again with `tidegate serve --data`"
        } else {
            "removed at the end"
        };
        format!("{} ({fate})", self.path.display())
    }
}

impl Drop for DemoFolder {
    fn drop(&mut self) {
        if self.is_kept {
            return;
        }
        let mut removed = Ok(());
        for _ in 0..REMOVALS_MAX {
            removed = std::fs::remove_dir_all(&self.path);
            if removed.is_ok() {
                return;
            }
        }
        if let Err(error) = removed {
            print_stderr(format_args!("cannot remove {}: {error}\n", self.path.display()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_with_a_database_is_left_alone() {
        let outer = DemoFolder::new(None).expect("it can be made");
        let kept = DemoFolder::new(Some(&outer.path)).expect("there is no database yet");
        assert!(kept.is_kept);
        drop(kept);
        std::fs::write(outer.path.join("tidegate.db"), "").expect("it can be written");
        let refused = DemoFolder::new(Some(&outer.path)).err().expect("it has one now").to_string();
        assert!(refused.contains("has a database already"), "{refused}");
        let path = outer.path.clone();
        drop(outer);
        assert!(!path.exists());
    }
}
