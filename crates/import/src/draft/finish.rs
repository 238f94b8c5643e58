//! The last step of an import: writes the draft as a policy and checks that the policy can be read.

use tidegate_policy::{Policy, PolicyError};

use super::Draft;
use crate::log::ImportLog;
use crate::source::Problem;
use crate::{ImportFormat, Imported, START};

/// Returns the policy with its notes.
///
/// # Errors
/// With the problems of the document as a whole; if not a single item could be imported, with the problems of each.
pub(crate) fn finish(
    from: ImportFormat,
    mut draft: Draft,
    mut log: ImportLog,
) -> Result<Imported, Vec<Problem>> {
    if !log.problems.is_empty() || (draft.limits_nothing() && !log.skipped.is_empty()) {
        let mut problems = log.problems;
        problems.append(&mut log.skipped);
        problems.sort_by_key(|problem| problem.at);
        return Err(problems);
    }
    if draft.is_empty() && !log.has_empty_list {
        let problem = Problem::error(START, "", "there is nothing to import");
        let hint = format!("is this really a document of the format `{}`?", from.name());
        return Err(vec![problem.want(from.expected()).hint(hint)]);
    }
    let policy = write(&mut draft, &mut log)?;
    let mut notes = log.notes;
    notes.sort_by_key(|note| note.at);
    Ok(Imported { policy, notes })
}

/// Writes the policy and reads it back. An entry that the reader refuses is repaired or removed, with a note, until the
/// rest is accepted.
fn write(draft: &mut Draft, log: &mut ImportLog) -> Result<String, Vec<Problem>> {
    loop {
        let policy = draft.write();
        let Err(PolicyError { problems }) = Policy::parse(&policy) else { return Ok(policy) };
        let errors: Vec<Problem> = problems.into_iter().filter(Problem::is_error).collect();
        let is_repaired = repair(draft, &errors, log);
        if !is_repaired || draft.limits_nothing() {
            return Err(errors.into_iter().map(at_start).collect());
        }
    }
}

/// Moves the problem to the start of the source: its own position is in the written policy, which the user does not
/// see.
fn at_start(problem: Problem) -> Problem {
    let message = format!("cannot write a policy from this: {}", problem.message);
    Problem { at: START, message, ..problem }
}

/// Repairs or removes the entries that have errors; `false` if there are none.
fn repair(draft: &mut Draft, errors: &[Problem], log: &mut ImportLog) -> bool {
    let mut bad: Vec<(&str, usize, &str, &Problem)> = errors
        .iter()
        .filter_map(|error| entry_of(&error.path).map(|(list, at, within)| (list, at, within, error)))
        .collect();
    // From the end of each list, so that removing an entry does not move those still to be removed.
    bad.sort_by_key(|&(list, index, ..)| (list, std::cmp::Reverse(index)));
    bad.dedup_by_key(|&mut (list, index, ..)| (list, index));
    let mut any = false;
    for (list, index, within, problem) in bad {
        if let Some(what) = draft.repair(list, index, within) {
            log.note_repaired(what, problem);
            any = true;
        }
    }
    any
}

/// The list, the index and the rest of a path: `limits`, 3 and `.match` for `limits[3].match`.
fn entry_of(path: &str) -> Option<(&str, usize, &str)> {
    let (list, rest) = path.split_once('[')?;
    let (index, within) = rest.split_once(']')?;
    Some((list, index.parse().ok()?, within))
}
