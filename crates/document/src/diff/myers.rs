//! The shortest list of changes between two lists, by Myers' algorithm of 1986: it searches along the diagonals of the
//! grid of both lists, with one more change in each round.

use std::ops::Range;

/// How many changes are searched for. The search remembers a position for each pair of changes, so this bounds memory.
const CHANGES_MAX: usize = 1_000;
/// How many comparisons are made. This bounds the time.
const COMPARISONS_MAX: usize = 20_000_000;

/// Items of the old list that the new list has replaced by others; one of the ranges may be empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) old: Range<usize>,
    pub(super) new: Range<usize>,
}

/// The changes, in order. Beyond the limits of this search, everything between the common start and the common end is
/// one change.
pub(super) fn runs(old: &[u32], new: &[u32]) -> Vec<Run> {
    let start = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    let (old_rest, new_rest) = (&old[start..], &new[start..]);
    let end = old_rest.iter().rev().zip(new_rest.iter().rev()).take_while(|(a, b)| a == b).count();
    let old_rest = &old_rest[..old_rest.len() - end];
    let new_rest = &new_rest[..new_rest.len() - end];
    let whole = Run { old: 0..old_rest.len(), new: 0..new_rest.len() };
    let found = match (old_rest, new_rest) {
        ([], []) => Vec::new(),
        ([], _) | (_, []) => vec![whole],
        _ => search(old_rest, new_rest).unwrap_or_else(|| vec![whole]),
    };
    let moved = |range: Range<usize>| range.start + start..range.end + start;
    found.into_iter().map(|run| Run { old: moved(run.old), new: moved(run.new) }).collect()
}

/// For each round, how far into the old list each diagonal got. Round `d` has the diagonals `-d, -d + 2, …, d`.
type Rounds = Vec<Vec<usize>>;

fn search(old: &[u32], new: &[u32]) -> Option<Vec<Run>> {
    let mut rounds: Rounds = Vec::new();
    let mut comparisons = 0;
    for changes in 0..=CHANGES_MAX.min(old.len() + new.len()) {
        let mut reached = Vec::with_capacity(changes + 1);
        for step in 0..=changes {
            let diagonal = 2 * step as isize - changes as isize;
            let mut x = entry(&rounds, changes, step).0;
            // Outside the grid nothing is equal; such a diagonal stays where it is.
            let mut y = (x as isize - diagonal) as usize;
            while x < old.len() && y < new.len() && old[x] == new[y] {
                (x, y) = (x + 1, y + 1);
                comparisons += 1;
            }
            reached.push(x);
            if x >= old.len() && y >= new.len() {
                rounds.push(reached);
                return Some(walk_back(&rounds, step, old.len()));
            }
        }
        comparisons += changes;
        if comparisons > COMPARISONS_MAX {
            return None;
        }
        rounds.push(reached);
    }
    None
}

/// Where a diagonal begins in a round, and whether an item of the new list was added to get there. Else an item of the
/// old list was removed.
fn entry(rounds: &Rounds, changes: usize, step: usize) -> (usize, bool) {
    let Some(last) = changes.checked_sub(1).map(|last| &rounds[last]) else { return (0, false) };
    // From the diagonal above one is removed, from the one below one is added.
    let added = last.get(step);
    let removed = step.checked_sub(1).map(|step| last[step] + 1);
    match (added, removed) {
        (Some(&added), Some(removed)) if added >= removed => (added, true),
        (_, Some(removed)) => (removed, false),
        (Some(&added), None) => (added, true),
        (None, None) => unreachable!("each diagonal has a neighbour in the round before"),
    }
}

/// Follows the rounds from the end to the start, and joins changes that touch.
fn walk_back(rounds: &Rounds, last_step: usize, old_length: usize) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    let mut step = last_step;
    debug_assert!(rounds.last().is_some_and(|round| round[step] >= old_length));
    for changes in (1..rounds.len()).rev() {
        let diagonal = 2 * step as isize - changes as isize;
        let (x, is_added) = entry(rounds, changes, step);
        let y = (x as isize - diagonal) as usize;
        let run = match is_added {
            true => Run { old: x..x, new: y - 1..y },
            false => Run { old: x - 1..x, new: y..y },
        };
        match runs.last_mut() {
            Some(below) if below.old.start == run.old.end && below.new.start == run.new.end => {
                (below.old.start, below.new.start) = (run.old.start, run.new.start);
            }
            _ => runs.push(run),
        }
        step = if is_added { step } else { step - 1 };
    }
    runs.reverse();
    runs
}
