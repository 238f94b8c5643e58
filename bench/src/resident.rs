//! The resident memory of a process.

use std::fs;

/// The resident memory of this process in bytes; `None` if the system does not report it.
pub(crate) fn bytes() -> Option<u64> {
    of(std::process::id())
}

/// The same for another process.
pub(crate) fn of(process: u32) -> Option<u64> {
    parse(&fs::read_to_string(format!("/proc/{process}/status")).ok()?)
}

fn parse(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_resident_line_is_read() {
        assert_eq!(parse("VmHWM:\t  9000 kB\nVmRSS:\t    4312 kB\nRssAnon:\t 1 kB\n"), Some(4312 * 1024));
        assert_eq!(parse("VmHWM:\t  9000 kB\n"), None);
    }

    #[test]
    fn this_process_has_some() {
        assert!(bytes().is_some_and(|bytes| bytes > 0));
    }
}
