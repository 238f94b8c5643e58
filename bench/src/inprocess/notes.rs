//! What one must know to read the table fairly.

use super::InprocessPart;
use super::setup::Setup;

const ROUNDS: &str = "Contenders take turns in each round. ns/op is the median over rounds of what a thread spends on an operation, by the slower thread; ratios are medians of the ratios within a round.";

const BY_PART: [(InprocessPart, &[&str]); 5] = [
    (
        InprocessPart::Hot,
        &[
            "Everybody reads a clock of its own in every operation: tidegate and governor the processor's counter, the others the system's clock.",
            "At the odd rate a token is no whole number of nanoseconds, which tidegate counts exactly and others round.",
            "tidegate always works out what remains, the reset and the wait; governor says yes, or until when not; `with state` it tells what remains too.",
        ],
    ),
    (
        InprocessPart::Keyed,
        &[
            "Keys are strings of 13 bytes, written in place before they are asked for, sixteen at a time, by the same code for all; that time is included for all but the bare CAS, which has no keys.",
            "The bare CAS learns each place from the swap before it, as a limiter learns each key from a request: what one access to such a table takes. Known ahead, the processor fetches several places at once, as it does for batches.",
            "All keys were there before, and tidegate's table was made for exactly so many. It asks the system for huge pages; everybody else's memory is as it comes.",
            "throttlecrab needs exclusive access: on two threads it is behind a mutex. It sweeps its map every 100,000 writes, as by default.",
            "pingora-limits estimates: a million keys share its 4 x 1024 counters, which fit the cache. ratelimit has no form with keys.",
        ],
    ),
    (InprocessPart::Batches, &["governor has no batches and is asked one by one."]),
    (
        InprocessPart::Memory,
        &["Memory is how much a process of its own grew by, with every key there; tidegate stores no keys."],
    ),
    (InprocessPart::Latency, &["Single decisions include about 10 ns for reading the counter twice."]),
];

/// The notes on what was measured.
pub(crate) fn of(setup: &Setup) -> Vec<&'static str> {
    let parts = BY_PART.iter().filter(|(part, _)| setup.includes(*part));
    let timed = [InprocessPart::Hot, InprocessPart::Keyed, InprocessPart::Batches]
        .into_iter()
        .any(|part| setup.includes(part));
    timed.then_some(ROUNDS).into_iter().chain(parts.flat_map(|(_, notes)| notes.iter().copied())).collect()
}
