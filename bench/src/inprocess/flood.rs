//! Far more keys than the table has slots: memory must not grow, and no drained key may be refilled by it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use tidegate::{Cost, Keyed, MonotonicClock};

use super::setup::Setup;
use super::{bars, progress};
use crate::contenders::{CommonQuota, ours};
use crate::keys::KeyBlock;
use crate::report::{Figure, Report};
use crate::resident;
use crate::stopwatch::Stopwatch;

const THREADS: u32 = 2;
/// How many keys come between two calls for the drained one.
const DRAINED_EVERY: u32 = 1_000;
const DRAINED: &str = "drained";
const QUOTA: CommonQuota = CommonQuota { tokens: 1, seconds: 3_600, burst: 5 };

/// Floods a table with new keys, and regularly calls it for a drained key.
pub(crate) fn run(setup: &Setup, report: &mut Report) {
    progress(&format!("a flood of {} keys into a table for {}", setup.flood_keys, setup.keys));
    let limiter = ours::empty(setup.keys, QUOTA, MonotonicClock::new());
    let _ = limiter.take(DRAINED, Cost::new(QUOTA.burst));
    // The first keys fill the table, so that all of it is touched before memory is compared.
    flood(&limiter, 0, setup.keys);
    let before = resident::bytes();
    let watch = Stopwatch::start();
    let admitted = AtomicU64::new(0);
    let rest = setup.flood_keys - setup.keys;
    thread::scope(|scope| {
        for part in 0..THREADS {
            let from = setup.keys + rest / THREADS * part;
            let (limiter, admitted) = (&limiter, &admitted);
            scope.spawn(move || {
                let drained_admitted = flood(limiter, from, from + rest / THREADS);
                admitted.fetch_add(drained_admitted, Ordering::Relaxed);
            });
        }
    });
    let keys_per_second = f64::from(rest) / watch.seconds();
    let grown =
        resident::bytes().zip(before).map_or(f64::NAN, |(after, before)| after as f64 - before as f64);
    let stats = limiter.stats();
    let figures = [
        ("flood: new keys", keys_per_second, "keys/s"),
        ("flood: resident memory before", before.map_or(f64::NAN, |bytes| bytes as f64 / 1e6), "MB"),
        ("flood: resident memory grew by", grown / 1e6, "MB"),
        ("flood: keys with a slot of their own", stats.keys as f64, "keys"),
        ("flood: slots given to another key", stats.evictions as f64, "slots"),
        ("flood: charges that went to the shared bucket", stats.overflows as f64, "charges"),
    ];
    let figure = |(what, value, unit): (&str, f64, &'static str)| Figure {
        what: what.to_owned(),
        contender: ours::NAME,
        value,
        unit,
    };
    report.figures.extend(figures.map(figure));
    report.bars.push(bars::flood(admitted.into_inner()));
}

/// Calls the limiter for each key of a range; returns how often the drained key was admitted meanwhile.
fn flood(limiter: &Keyed<str>, from: u32, to: u32) -> u64 {
    let mut block = KeyBlock::new();
    let mut admitted = 0;
    for index in from..to {
        let _ = limiter.take(&block.write(&[index])[0], Cost::ONE);
        if index % DRAINED_EVERY == 0 {
            admitted += u64::from(limiter.take(DRAINED, Cost::ONE).is_allowed());
        }
    }
    admitted
}
