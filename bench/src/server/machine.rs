//! The CPU time of the whole machine, to see whether other programs disturbed a run.

/// Clock ticks per second, as Linux reports them.
const TICKS: f64 = 100.0;

/// The seconds since boot in which CPUs were not idle, summed over all CPUs; `None` if the system does not
/// report it. Time stolen by the hypervisor counts.
pub(crate) fn busy_seconds() -> Option<f64> {
    parse(&std::fs::read_to_string("/proc/stat").ok()?)
}

fn parse(stat: &str) -> Option<f64> {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let ticks: Vec<u64> = line.split_ascii_whitespace().map_while(|number| number.parse().ok()).collect();
    let &[user, nice, system, _idle, _waiting, irq, softirq, stolen, ..] = &ticks[..] else { return None };
    Some([user, nice, system, irq, softirq, stolen].iter().sum::<u64>() as f64 / TICKS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_but_idle_counts() {
        let stat = "cpu  100 20 30 9999 888 4 5 41 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n";
        assert_eq!(parse(stat), Some(2.0));
        assert_eq!(parse("cpu0 1 1 1 1 1 1 1 1 0 0\n"), None);
        assert!(busy_seconds().is_some_and(|seconds| seconds > 0.0));
    }
}
