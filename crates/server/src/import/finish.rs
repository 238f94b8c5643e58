//! The end of an import: is there anything to write, and can it be read back?

use tidegate_document::{Problem, Span};

use super::draft::Draft;
use super::log::ImportLog;
use super::{ImportFormat, Imported};

/// The policy with its notes.
///
/// # Errors
/// With what keeps the document from being carried over; if every single item failed, with what
/// was wrong with each.
pub(super) fn finish(
    from: ImportFormat,
    mut draft: Draft,
    mut log: ImportLog,
) -> Result<Imported, Vec<Problem>> {
    if !log.problems.is_empty() || (draft.is_idle() && !log.skipped.is_empty()) {
        let mut problems = log.problems;
        problems.append(&mut log.skipped);
        problems.sort_by_key(|problem| problem.at);
        return Err(problems);
    }
    let start = Span { line: 1, column: 1, length: 1 };
    if draft.is_empty() && !log.has_empty_list {
        let problem = Problem::error(start, "", "there is nothing to import");
        let hint = format!("is it really of the format `{}`?", from.name());
        return Err(vec![problem.want(from.expected()).hint(hint)]);
    }
    let policy = write(&mut draft, &mut log, start)?;
    let mut notes = log.notes;
    notes.sort_by_key(|note| note.at);
    Ok(Imported { policy, notes })
}

/// What is written can be read: an entry that no policy takes is left out, and noted.
fn write(draft: &mut Draft, log: &mut ImportLog, start: Span) -> Result<String, Vec<Problem>> {
    loop {
        let policy = draft.write();
        let (_, problems) = tidegate_policy::read(&policy);
        let errors: Vec<Problem> = problems.into_iter().filter(Problem::is_error).collect();
        if errors.is_empty() {
            return Ok(policy);
        }
        let has_fewer = drop_entries(draft, &errors, log);
        if !has_fewer || draft.is_idle() {
            return Err(errors.into_iter().map(|problem| told(problem, start)).collect());
        }
    }
}

/// The place is one of the policy's, which nobody has seen.
fn told(problem: Problem, at: Span) -> Problem {
    let message = format!("no policy can be written from this: {}", problem.message);
    Problem { at, message, ..problem }
}

/// Takes out the entries that have errors; `false` if there is nothing to take out.
fn drop_entries(draft: &mut Draft, errors: &[Problem], log: &mut ImportLog) -> bool {
    let mut places: Vec<(&str, usize, &Problem)> =
        errors.iter().filter_map(|error| place(&error.path).map(|(list, at)| (list, at, error))).collect();
    // From the end, so that the places before stay what they are.
    places.sort_by_key(|&(list, index, _)| (list, std::cmp::Reverse(index)));
    places.dedup_by_key(|&mut (list, index, _)| (list, index));
    let mut any = false;
    for (list, index, problem) in places {
        if let Some(entry) = draft.drop_entry(list, index) {
            log.note_dropped(&entry, problem);
            any = true;
        }
    }
    any
}

/// `limits[3].match` is the fourth of the limits.
fn place(path: &str) -> Option<(&str, usize)> {
    let (list, rest) = path.split_once('[')?;
    let (index, _) = rest.split_once(']')?;
    Some((list, index.parse().ok()?))
}
