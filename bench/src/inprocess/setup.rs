//! How much is measured.

use clap::builder::RangedU64ValueParser;

use super::InprocessPart;
use crate::keys::KEYS_MAX;
use crate::random::{Zipf, uniform};

/// The numbers of keys that fit everything: a flood needs fifty times as many.
const KEYS_RANGE: std::ops::RangeInclusive<u64> = 1_000..=(KEYS_MAX / FLOOD_TIMES) as u64;
const FLOOD_TIMES: u32 = 50;

/// The library alone, within this process: time, memory, floods of keys.
///
/// Prints a table of Tidegate and its peers, then the bars that Tidegate must reach.
/// Exit 0: done; 1: a bar was missed (with --check) or measuring failed; 2: bad usage.
#[derive(Debug, clap::Args)]
pub(crate) struct InprocessArgs {
    /// Exit 1 if a bar is missed
    #[arg(long)]
    pub(crate) check: bool,
    /// Print JSON instead of tables
    #[arg(long)]
    pub(crate) json: bool,
    /// Measure less of everything, to try it out; the numbers wobble
    #[arg(long)]
    quick: bool,
    /// How many keys there are; memory is measured with four times as many. The bars are meant for the
    /// default: fewer keys fit the processor's cache
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = RangedU64ValueParser::<u32>::new().range(KEYS_RANGE))]
    keys: u32,
    /// How often each contender is measured in each case; the median counts
    #[arg(long, value_name = "N", value_parser = RangedU64ValueParser::<usize>::new().range(1..=1_000))]
    rounds: Option<usize>,
    /// Measure these alone, and judge only their bars
    #[arg(long, value_name = "PART", value_delimiter = ',')]
    only: Vec<InprocessPart>,
}

/// The same, worked out.
#[derive(Debug)]
pub(crate) struct Setup {
    pub(crate) keys: u32,
    pub(crate) rounds: usize,
    /// Timed operations of a thread in a round.
    pub(crate) ops: usize,
    /// With how many keys memory is measured.
    pub(crate) memory_keys: u32,
    /// How many keys a flood has.
    pub(crate) flood_keys: u32,
    only: Vec<InprocessPart>,
}

impl Setup {
    pub(crate) fn new(args: &InprocessArgs) -> Setup {
        let (rounds, ops, memory_times, flood_times) =
            if args.quick { (3, 200_000, 1, 5) } else { (7, 500_000, 4, FLOOD_TIMES) };
        Setup {
            keys: args.keys,
            rounds: args.rounds.unwrap_or(rounds),
            ops,
            memory_keys: args.keys * memory_times,
            flood_keys: args.keys * flood_times,
            only: args.only.clone(),
        }
    }

    pub(crate) fn includes(&self, part: InprocessPart) -> bool {
        self.only.is_empty() || self.only.contains(&part)
    }

    /// Operations that bring most of a table of many keys back into the cache.
    pub(crate) fn warm_up(&self) -> usize {
        self.keys as usize / 2
    }

    /// Uniform keys for each thread.
    pub(crate) fn uniform(&self, threads: usize) -> Vec<Vec<u32>> {
        (1..=threads as u64).map(|seed| uniform(self.keys, self.sequence_length(), seed)).collect()
    }

    /// Keys by Zipf's law for each thread.
    pub(crate) fn zipf(&self, threads: usize) -> Vec<Vec<u32>> {
        let zipf = Zipf::new(self.keys);
        (1..=threads as u64).map(|seed| zipf.draw(self.sequence_length(), seed)).collect()
    }

    /// Several rounds' worth; from then on rounds begin at other places of the same.
    fn sequence_length(&self) -> usize {
        3 * (self.warm_up() + self.ops)
    }
}
