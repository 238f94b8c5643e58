//! The latency of single decisions while every thread calls the limiter as fast as it can.

use std::hint::black_box;
use std::sync::Barrier;
use std::thread;

use tidegate::Cost;

use super::setup::Setup;
use super::{bars, progress};
use crate::contenders::{governor, ours};
use crate::keys::{BLOCK, KeyBlock};
use crate::report::{Figure, Report};
use crate::rounds::Expected;
use crate::statistics::percentile;
use crate::stopwatch::FineWatch;

const THREADS: usize = 2;
const SHARES: [(&str, f64); 3] = [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)];

/// Times each decision on its own.
pub(crate) fn run(setup: &Setup, report: &mut Report) {
    progress(&format!("single decisions, {THREADS} threads"));
    let sequences = setup.uniform(THREADS);
    let our_limiter = ours::full(setup.keys, Expected::Allowing);
    let mut times = sample(&sequences, |key| _ = black_box(&our_limiter.take(key, Cost::ONE)));
    let p99 = add_percentiles(ours::NAME, &mut times, report);
    report.bars.push(bars::latency(p99));

    let governors = governor::full(setup.keys, Expected::Allowing);
    let mut times = sample(&sequences, |key| _ = black_box(&governors.check_key(key)));
    add_percentiles(governor::NAME, &mut times, report);
}

/// Nanoseconds of every call of every thread.
fn sample(sequences: &[Vec<u32>], ask: impl Fn(&String) + Sync) -> Vec<u32> {
    let (watch, ready) = (FineWatch::new(), Barrier::new(sequences.len()));
    let work = |indexes: &[u32]| {
        let mut times = Vec::with_capacity(indexes.len());
        let mut block = KeyBlock::new();
        ready.wait();
        for indexes in indexes.chunks(BLOCK) {
            for key in block.write(indexes) {
                let (nanos, ()) = watch.time(|| ask(key));
                times.push(u32::try_from(nanos).unwrap_or(u32::MAX));
            }
        }
        times
    };
    thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = sequences.iter().map(|indexes| scope.spawn(move || work(indexes))).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("a contender does not panic")).collect()
    })
}

/// Adds the percentiles to the report, and returns the 99th.
fn add_percentiles(contender: &'static str, times: &mut [u32], report: &mut Report) -> f64 {
    times.sort_unstable();
    let at = |share| percentile(times, share).map_or(f64::NAN, f64::from);
    for (name, share) in SHARES {
        let what = format!("{name} of a decision under load");
        report.figures.push(Figure { what, contender, value: at(share), unit: "ns" });
    }
    at(0.99)
}
