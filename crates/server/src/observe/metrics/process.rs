//! Metrics of this process, read from `/proc`.

use tidegate::Nanos;

/// Linux reports CPU time in `USER_HZ`, which is 100 on all platforms.
const TICKS_PER_SECOND: u64 = 100;

/// The values found; all `None` on systems without `/proc`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) cpu: Option<Nanos>,
    pub(crate) resident_bytes: Option<u64>,
    pub(crate) virtual_bytes: Option<u64>,
    pub(crate) open_fds: Option<u64>,
    pub(crate) max_fds: Option<u64>,
    pub(crate) started: Option<Nanos>,
}

impl Process {
    /// Reads the current values.
    pub(crate) fn read() -> Process {
        let text = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let open_fds = std::fs::read_dir("/proc/self/fd").map(|entries| entries.count() as u64).ok();
        let mut process = Process { open_fds, ..Process::default() };
        process.read_stat(&text("/proc/self/stat"), &text("/proc/stat"));
        process.read_status(&text("/proc/self/status"));
        process.read_limits(&text("/proc/self/limits"));
        process
    }

    /// `/proc/self/stat` has fields by position, after the program's name in brackets, which may contain anything.
    fn read_stat(&mut self, stat: &str, system: &str) {
        let Some((_, after_name)) = stat.rsplit_once(')') else { return };
        let fields: Vec<&str> = after_name.split_whitespace().collect();
        // The first field here is the third of the file.
        let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
        let ticks = |ticks: u64| Nanos::new(ticks.saturating_mul(Nanos::SECOND.get() / TICKS_PER_SECOND));
        self.cpu = field(14).zip(field(15)).map(|(user, system)| ticks(user.saturating_add(system)));
        let boot = number_after(system, "btime ");
        self.started =
            boot.zip(field(22)).map(|(boot, since)| Nanos::from_secs(boot).saturating_add(ticks(since)));
    }

    fn read_status(&mut self, status: &str) {
        let bytes = |name| number_after(status, name).map(|kib| kib.saturating_mul(1_024));
        self.resident_bytes = bytes("VmRSS:");
        self.virtual_bytes = bytes("VmSize:");
    }

    fn read_limits(&mut self, limits: &str) {
        self.max_fds = number_after(limits, "Max open files");
    }
}

/// The number that follows a word at the beginning of a line.
fn number_after(text: &str, word: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(word))?;
    rest.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_does_not_mislead() {
        let stat = "7 (a) b) R 1 7 7 0 -1 0 0 0 0 0 250 50 0 0 20 0 4 0 1000 0 0";
        let mut process = Process::default();
        process.read_stat(stat, "cpu 1 2\nbtime 1700000000\n");
        assert_eq!(process.cpu, Some(Nanos::from_secs(3)));
        assert_eq!(process.started, Some(Nanos::from_secs(1_700_000_010)));
    }

    #[test]
    fn nonsense_is_nothing() {
        let mut process = Process::default();
        for text in ["", ")", "1 (x) R", "VmRSS: many kB", "Max open files unlimited unlimited files"] {
            process.read_stat(text, text);
            process.read_status(text);
            process.read_limits(text);
        }
        assert_eq!(process, Process::default());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_is_known() {
        let process = Process::read();
        assert!(process.resident_bytes.is_some_and(|bytes| bytes > 100_000), "{process:?}");
        assert!(process.open_fds.is_some_and(|count| count >= 3), "{process:?}");
        assert!(process.cpu.is_some() && process.max_fds.is_some() && process.started.is_some());
    }
}
