//! The bars of the in-process benchmark: the thresholds that Tidegate must meet.

use super::cases::{Case, Work};
use crate::contenders::{bare_cas, governor, ours};
use crate::report::{Bar, Side};
use crate::rounds::Expected;

/// The bars of a case, if it has any.
pub(crate) fn of_case(case: &Case) -> Vec<Bar> {
    let threads = format!("{} thread{}", case.threads, if case.threads == 1 { "" } else { "s" });
    let name = |what: &str| format!("{}, {}, {threads}: {what}", case.work, case.expected);
    let time = |other: &str, most: f64| {
        let times = case.times(ours::NAME, other).unwrap_or(f64::NAN);
        Bar::new(name(&format!("time, in {other}'s")), times, Side::AtMost, most, "x")
    };
    let throughput = |contender: &str, least: f64| {
        let times = case.times(governor::NAME, contender).unwrap_or(f64::NAN);
        Bar::new(name("throughput, in governor's"), times, Side::AtLeast, least, "x")
    };
    match (case.work, case.expected, case.threads) {
        (Work::Hot, _, 1) => vec![time(governor::NAME, 1.2)],
        (Work::Uniform, Expected::Allowing, 1) => {
            vec![throughput(ours::NAME, 2.0), time(bare_cas::NAME, 2.0)]
        }
        // On two threads the lower bound is printed in the table, but there is no bar for it.
        (Work::Uniform, Expected::Allowing, 2) => vec![throughput(ours::NAME, 2.0)],
        (Work::Batches, _, 1) => vec![throughput(ours::BATCH_NAME, 5.0)],
        _ => Vec::new(),
    }
}

/// The memory that a key may use.
pub(crate) fn memory(bytes_per_key: f64) -> Bar {
    Bar::new("memory for a key", bytes_per_key, Side::AtMost, 24.0, "bytes")
}

/// How many keys may find no slot.
pub(crate) fn placement(table: &str, percent: f64) -> Bar {
    Bar::new(format!("keys without a slot in {table}"), percent, Side::AtMost, 0.2, "%")
}

/// How often a flood may get a drained key admitted.
pub(crate) fn flood(admitted: u64) -> Bar {
    Bar::new("a drained key admitted during a flood", admitted as f64, Side::AtMost, 0.0, "times")
}

/// How long a decision may take under load.
pub(crate) fn latency(nanos: f64) -> Bar {
    Bar::new("p99 of a decision under load", nanos / 1_000.0, Side::Below, 10.0, "us")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rounds::{Contender, RoundPlan};

    fn case(work: Work, expected: Expected, threads: usize) -> Case {
        let answer = expected == Expected::Allowing;
        let names = [ours::NAME, ours::BATCH_NAME, governor::NAME, bare_cas::NAME];
        let contenders = names
            .map(|name| Contender::new(name, move |share| share.each_time(|| std::hint::black_box(answer))));
        let plan = RoundPlan { rounds: 1, threads, ops: 1_000, warm_up: 0, sequences: &[] };
        let contenders: Vec<_> = contenders.iter().collect();
        Case::run(work, expected, &contenders, &plan).unwrap()
    }

    #[test]
    fn each_case_has_its_bars() {
        let bars = |work, expected, threads| of_case(&case(work, expected, threads)).len();
        for expected in [Expected::Allowing, Expected::Denying] {
            assert_eq!(bars(Work::Hot, expected, 1), 1);
            assert_eq!(bars(Work::Hot, expected, 2), 0);
            assert_eq!(bars(Work::Zipf, expected, 1), 0);
        }
        assert_eq!(bars(Work::Uniform, Expected::Allowing, 1), 2);
        assert_eq!(bars(Work::Uniform, Expected::Allowing, 2), 1);
        assert_eq!(bars(Work::Uniform, Expected::Denying, 1), 0);
        assert_eq!(bars(Work::Batches, Expected::Allowing, 1), 1);
    }

    #[test]
    fn a_bar_compares_what_it_names() {
        let case = case(Work::Uniform, Expected::Allowing, 1);
        let [throughput, floor] = &of_case(&case)[..] else { panic!("two bars") };
        let ratio = case.times(ours::NAME, governor::NAME).unwrap();
        assert!((throughput.measured * ratio - 1.0).abs() < 1e-9);
        assert_eq!(throughput.name, "keys, uniform, allowing, 1 thread: throughput, in governor's");
        assert_eq!(floor.name, "keys, uniform, allowing, 1 thread: time, in bare CAS's");
    }

    #[test]
    fn the_other_bars() {
        assert!(memory(24.0).met && !memory(24.1).met);
        assert!(placement("a fresh table", 0.2).met && !placement("a fresh table", 0.21).met);
        assert!(flood(0).met && !flood(1).met);
        assert!(latency(9_999.0).met && !latency(10_000.0).met);
    }
}
