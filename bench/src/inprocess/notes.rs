//! The notes below the table: what a fair reading of the numbers must consider.

use super::InprocessPart;
use super::setup::Setup;

const ROUNDS: &str = "Contenders take turns in each round. ns/op is the median over the rounds of the time per operation of the slower thread; ratios are medians of the ratios within a round.";

const BY_PART: [(InprocessPart, &[&str]); 5] = [
    (
        InprocessPart::Hot,
        &[
            "Every contender reads its own clock in every operation: tidegate and governor the CPU's cycle counter, the others the system clock.",
            "At the odd rate the time per token is not a whole number of nanoseconds; tidegate computes it exactly, others round.",
            "tidegate always computes the remaining tokens, the reset and the wait; governor returns yes, or the time until which it denies; `with state` it also returns the remaining tokens.",
        ],
    ),
    (
        InprocessPart::Keyed,
        &[
            "Keys are strings of 13 bytes, written in place before use, sixteen at a time, by the same code for all; that time is included for all but the bare CAS, which has no keys.",
            "The slot of each bare CAS depends on the previous swap, as a limiter learns each key only from the next request: the latency of one access to such a table. Known ahead, the CPU overlaps several accesses, as it does for batches.",
            "All keys were inserted before, and tidegate's table was created for exactly as many. It requests huge pages from the system; the others use ordinary pages.",
            "throttlecrab needs exclusive access: on two threads it is behind a mutex. It sweeps its map every 100,000 writes, as by default.",
            "pingora-limits estimates: a million keys share its 4 x 1024 counters, which fit the cache. ratelimit does not support keys.",
        ],
    ),
    (InprocessPart::Batches, &["governor has no batches and is called once for each key."]),
    (
        InprocessPart::Memory,
        &["Memory is the growth of a separate process with all keys inserted; tidegate does not store keys."],
    ),
    (InprocessPart::Latency, &["Single decisions include about 10 ns for reading the counter twice."]),
];

/// The notes on the measured parts.
pub(crate) fn of(setup: &Setup) -> Vec<&'static str> {
    let parts = BY_PART.iter().filter(|(part, _)| setup.includes(*part));
    let timed = [InprocessPart::Hot, InprocessPart::Keyed, InprocessPart::Batches]
        .into_iter()
        .any(|part| setup.includes(part));
    timed.then_some(ROUNDS).into_iter().chain(parts.flat_map(|(_, notes)| notes.iter().copied())).collect()
}
