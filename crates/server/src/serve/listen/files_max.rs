//! How many files the process may have open, which bounds its connections.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::bounds::{ADMIN_CONNECTIONS_MAX, CONNECTIONS_MAX, OTHER_FILES_MAX};

/// Raises the limit to what the system grants at most, and tells how many connections that is good for.
pub(crate) fn connections_max() -> usize {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let granted = match setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        Ok(()) => maximum,
        Err(_) => current,
    };
    let files = granted.map_or(usize::MAX, |files| usize::try_from(files).unwrap_or(usize::MAX));
    let max = within(files);
    if max < CONNECTIONS_MAX {
        tracing::warn!(
            files,
            connections = max,
            "few open files are allowed, so fewer connections are; raise `ulimit -n`"
        );
    }
    max
}

/// The connections that decide, of so many files.
fn within(files: usize) -> usize {
    files.saturating_sub(OTHER_FILES_MAX + ADMIN_CONNECTIONS_MAX).clamp(1, CONNECTIONS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_files_have_their_share() {
        assert_eq!(within(1_024), 1_024 - OTHER_FILES_MAX - ADMIN_CONNECTIONS_MAX);
        assert_eq!(within(usize::MAX), CONNECTIONS_MAX);
        assert_eq!(within(3), 1);
    }

    #[test]
    fn the_limit_is_raised() {
        assert!(connections_max() >= 1);
        let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
        assert_eq!(current, maximum);
    }
}
