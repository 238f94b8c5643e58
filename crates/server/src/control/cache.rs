//! The policy that a node ran last, in a file: with it the node can start while the database does not answer.
//!
//! The first line is a comment with the version and the SHA-256 of what follows, so that a file that was cut off or
//! edited by hand is not taken for a version of the database.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use tidegate::Nanos;

use super::{PolicySource, RunningPolicy};
use crate::serve::reload::policy_file;
use crate::wire::hex;

const MARK: &str = "# tidegate policy version ";

/// Writes the policy. Readers see the old file or the whole new one.
///
/// # Errors
/// When the file cannot be written.
pub(super) fn write(file: &Path, policy: &RunningPolicy) -> io::Result<()> {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let partial = file.with_file_name(format!(".{name}.{}.partial", std::process::id()));
    let written = (|| {
        let mut new =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&partial)?;
        write!(new, "{MARK}{} sha256 {}\n{}", policy.version, hex(&policy.sha256()), policy.text)?;
        new.sync_all()?;
        std::fs::rename(&partial, file)
    })();
    if written.is_err() {
        // The error that is reported is the one before.
        let _removed = std::fs::remove_file(&partial);
    }
    written
}

/// Reads the policy; `None` if there is no file, or it is not whole.
pub(super) fn read(file: &Path, now: Nanos) -> Option<RunningPolicy> {
    let text = policy_file::read(file).ok()?;
    let (head, text) = text.split_once('\n')?;
    let (version, sha256) = head.strip_prefix(MARK)?.split_once(" sha256 ")?;
    let version = version.parse().ok()?;
    let policy = RunningPolicy { source: PolicySource::Database, text: text.into(), version, since: now };
    (hex(&policy.sha256()) == sha256).then_some(policy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_file_is_read_back_and_no_other() {
        let folder = std::env::temp_dir().join(format!("tidegate-cache-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join("last-policy.yaml");
        let policy = RunningPolicy {
            source: PolicySource::Database,
            text: "version: 1\nlimits: []\n".into(),
            version: 7,
            since: Nanos::SECOND,
        };
        assert_eq!(read(&file, Nanos::SECOND), None);
        write(&file, &policy).unwrap();
        assert_eq!(read(&file, Nanos::SECOND), Some(policy));
        let text = std::fs::read_to_string(&file).unwrap();
        for changed in [&text[..text.len() - 1], &text.replace("limits", "limit"), &text[1..], ""] {
            std::fs::write(&file, changed).unwrap();
            assert_eq!(read(&file, Nanos::SECOND), None, "{changed}");
        }
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
