//! Raises the limit of open files of the process (`RLIMIT_NOFILE`), which bounds its connections.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::bounds::{ADMIN_CONNECTIONS_MAX, CONNECTIONS_MAX, OTHER_FILES_MAX};

/// Raises the limit as far as the system allows, and returns how many connections fit into it.
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
            "the limit of open files reduces the number of connections; raise it with `ulimit -n`"
        );
    }
    max
}

/// How many connections fit into this many files, those of the admin listener not counted.
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
