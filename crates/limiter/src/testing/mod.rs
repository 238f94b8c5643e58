//! The conformance suite: checks that every [`Store`] must pass, to run on your own.
//!
//! ```
//! use std::future::Future;
//! use tidegate::testing::{Harness, block_on_ready, conformance};
//! use tidegate::{ManualClock, Memory, MemoryOptions};
//!
//! struct InMemory;
//!
//! impl Harness for InMemory {
//!     type Store = Memory<ManualClock>;
//!
//!     fn store(&self, max_keys: usize) -> Self::Store {
//!         let options = MemoryOptions { max_keys, ..MemoryOptions::default() };
//!         Memory::with_clock(options, ManualClock::default()).expect("the memory can be allocated")
//!     }
//!
//!     fn run<F: Future>(&self, future: F) -> F::Output {
//!         block_on_ready(future)
//!     }
//! }
//!
//! conformance(&InMemory);
//! ```
//!
//! A check that fails panics with what it found. Every instant in the suite is a whole number of microseconds.

mod bench;
mod bursting;
mod carrying;
mod deciding;
mod delayed;
mod keys;
mod overriding;
mod random;
mod together;
mod trusting;

use std::future::Future;

use crate::now_or_later::ready;
use crate::{Charge, Store};

#[doc(hidden)]
pub use random::Random;

/// How the suite creates stores and runs their futures.
pub trait Harness: Sync {
    /// The store under test.
    type Store: Store;

    /// A new, empty store that uses the `now` of each call, and keeps about `max_keys` keys if it is bounded.
    fn store(&self, max_keys: usize) -> Self::Store;

    /// Runs a future to completion; called from several threads at once.
    fn run<F: Future>(&self, future: F) -> F::Output;
}

/// For stores that never wait: polls once.
///
/// # Panics
/// The future is pending.
pub fn block_on_ready<F: Future>(future: F) -> F::Output {
    ready(future)
}

/// Runs every check on fresh stores.
///
/// # Panics
/// A check fails.
pub fn conformance<H: Harness>(harness: &H) {
    for (name, check) in checks::<H>() {
        eprintln!("conformance: {name}");
        check(harness);
    }
}

type Check<H> = (&'static str, fn(&H));

fn checks<H: Harness>() -> Vec<Check<H>> {
    vec![
        ("the burst is exact", deciding::exact_burst),
        ("the refill is exact", deciding::exact_refill),
        ("a denial changes nothing", deciding::denied_changes_nothing),
        ("the retry promise is kept", deciding::retry_promise),
        ("a cost above the capacity is never admitted", deciding::cost_above_capacity),
        ("a peek takes nothing", deciding::peek_takes_nothing),
        ("a refund is capped", deciding::refund_is_capped),
        ("a reset makes a key unused", deciding::reset_is_unused),
        ("a reset applies to edited limits", deciding::reset_after_edits),
        ("a step back of the clock refills nothing", deciding::step_back),
        ("several limits are charged together or not at all", together::all_or_nothing),
        ("so they are when many race", together::all_or_nothing_in_a_race),
        ("one bucket twice in a request is charged twice", together::same_bucket_twice),
        ("an advisory charge refuses nothing", together::advisory),
        ("an edit carries the tokens over", carrying::edits),
        ("an edit hands out no token over time", carrying::edits_at_their_time),
        ("an old handle does not undo an edit", carrying::old_handle),
        ("a full bucket stays full", carrying::full_stays_full),
        ("trust scales a limit", trusting::scaled),
        ("all levels of trust share one state", trusting::one_state),
        ("asking at another trust changes nothing", trusting::asking_changes_nothing),
        ("a bucket that is full at less trust is not full at more", trusting::full_at_less),
        ("alternating trust admits no more than the most trust", trusting::alternating),
        ("an edit reaches keys at any trust", trusting::edits),
        ("the retry promise is kept across a change of trust", trusting::retry_promise),
        ("an override replaces the numbers of a limit", overriding::other_numbers),
        ("all overrides share one state", overriding::one_state),
        ("asking in other numbers changes nothing", overriding::asking_changes_nothing),
        ("a full bucket fills up in the numbers of an override", overriding::full_at_less),
        ("a refund of nothing writes a bucket in the numbers of an override", overriding::renumbering),
        ("alternating overrides admit no more than the largest", overriding::alternating),
        ("an edit reaches keys under an override", overriding::edits),
        ("the retry promise is kept across a change of the override", overriding::retry_promise),
        ("a delayed charge denies others", delayed::denies_others),
        ("places in a queue are exact", delayed::exact_places),
        ("a place given up was never taken", delayed::handed_back),
        ("a place given up moves no other", delayed::handed_back_from_the_middle),
        ("places are taken together or not at all", delayed::all_or_nothing),
        ("a delayed charge delays no other", delayed::time_stays),
        ("a burst warns, and one while warned blocks", bursting::escalates),
        ("bursts are counted in aligned windows", bursting::windows_are_aligned),
        ("an edit of a detector keeps penalties", bursting::edits_keep_penalties),
        ("shared penalties are listed until they are lifted", bursting::penalties_are_listed_and_lifted),
        ("hostile keys are told apart", keys::hostile_keys),
        ("limits are told apart", keys::limits_apart),
        ("a flood of keys refills nobody", keys::flood_refills_nobody),
        ("a key that overflowed is not granted twice", keys::overflow_is_not_granted_twice),
    ]
}
