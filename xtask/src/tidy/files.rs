//! The files that the rules apply to: those that git tracks, and new ones that it does not ignore.

use std::path::Path;
use std::process::Command;

use super::TidyError;

/// A text file of the project.
#[derive(Debug)]
pub struct TextFile {
    /// Relative to the root, with forward slashes.
    pub path: String,
    /// Its content.
    pub text: String,
}

impl TextFile {
    /// A file from memory, which need not exist on disk.
    pub fn new(path: &str, text: &str) -> TextFile {
        TextFile { path: path.to_owned(), text: text.to_owned() }
    }

    /// The last component of the path.
    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }
}

/// Every text file below `root` that is tracked, or new and not ignored.
pub fn tracked(root: &Path) -> Result<Vec<TextFile>, TidyError> {
    let mut files = Vec::new();
    for path in list(root)? {
        let full = root.join(&path);
        // A file deleted but still tracked, a symbolic link and a submodule have no text of their own.
        if !full.symlink_metadata().is_ok_and(|found| found.is_file()) {
            continue;
        }
        let bytes = std::fs::read(&full).map_err(|source| TidyError::Read { path: path.clone(), source })?;
        if let Some(text) = as_text(bytes) {
            files.push(TextFile { path, text });
        }
    }
    Ok(files)
}

fn list(root: &Path) -> Result<Vec<String>, TidyError> {
    let listed = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .map_err(|error| TidyError::List(error.to_string()))?;
    if !listed.status.success() {
        let error = String::from_utf8_lossy(&listed.stderr);
        return Err(TidyError::List(error.trim().to_owned()));
    }
    let names = String::from_utf8_lossy(&listed.stdout);
    Ok(names.split_terminator('\0').map(str::to_owned).collect())
}

fn as_text(bytes: Vec<u8>) -> Option<String> {
    let text = String::from_utf8(bytes).ok()?;
    (!text.contains('\0')).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binary_files_are_not_text() {
        assert_eq!(as_text(b"plain".to_vec()).as_deref(), Some("plain"));
        assert_eq!(as_text(vec![b'a', 0, b'b']), None);
        assert_eq!(as_text(vec![0xff, 0xfe]), None);
    }

    #[test]
    fn a_directory_without_git_is_an_error_that_says_so() {
        let outside = std::env::temp_dir().join("tidy-no-such-directory");
        let error = tracked(&outside).expect_err("there is nothing to list");
        assert!(error.to_string().contains("git"), "{error}");
    }

    #[test]
    fn finds_this_very_file() {
        let files = tracked(&crate::workspace_root()).expect("the workspace is a git checkout");
        assert!(files.iter().any(|file| file.path == "xtask/src/tidy/files.rs"));
    }
}
