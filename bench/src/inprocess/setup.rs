//! The arguments and sizes of the in-process benchmark.

use clap::builder::RangedU64ValueParser;

use super::InprocessPart;
use crate::keys::KEYS_MAX;
use crate::random::{Zipf, uniform};

/// The valid numbers of keys: a flood needs fifty times as many.
const KEYS_RANGE: std::ops::RangeInclusive<u64> = 1_000..=(KEYS_MAX / FLOOD_TIMES) as u64;
const FLOOD_TIMES: u32 = 50;

/// The library within this process: time, memory, floods of keys.
///
/// Prints a table of Tidegate and other limiters, then the bars (thresholds) that Tidegate must meet.
/// Exit 0: done; 1: a bar was missed (with --check) or measuring failed; 2: bad usage.
#[derive(Debug, clap::Args)]
pub(crate) struct InprocessArgs {
    /// Exit 1 if a bar is missed
    #[arg(long)]
    pub(crate) check: bool,
    /// Print JSON instead of tables
    #[arg(long)]
    pub(crate) json: bool,
    /// Measure less of everything, for a quick look; the numbers are less stable
    #[arg(long)]
    quick: bool,
    /// The number of keys; memory is measured with four times as many. The bars are meant for the
    /// default: fewer keys fit into the CPU cache
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = RangedU64ValueParser::<u32>::new().range(KEYS_RANGE))]
    keys: u32,
    /// The number of rounds of each case; results are medians over the rounds
    #[arg(long, value_name = "N", value_parser = RangedU64ValueParser::<usize>::new().range(1..=1_000))]
    rounds: Option<usize>,
    /// Measure only these parts, and check only their bars
    #[arg(long, value_name = "PART", value_delimiter = ',')]
    only: Vec<InprocessPart>,
}

/// The sizes derived from the arguments.
#[derive(Debug)]
pub(crate) struct Setup {
    pub(crate) keys: u32,
    pub(crate) rounds: usize,
    /// Timed operations of a thread in a round.
    pub(crate) ops: usize,
    /// The number of keys for measuring memory.
    pub(crate) memory_keys: u32,
    /// The number of keys of a flood.
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

    /// Enough for several rounds; later rounds start at other positions of the same sequence.
    fn sequence_length(&self) -> usize {
        3 * (self.warm_up() + self.ops)
    }
}
