//! Differences between two texts, line by line.

mod myers;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fmt::Write;

use myers::{Run, runs};

/// The longest difference that is written, in bytes.
pub const DIFF_BYTES_MAX: usize = 1 << 20;
/// How many unchanged lines are shown around a change.
const CONTEXT: usize = 3;

/// The difference between two texts in the unified format, which `diff -u` writes and `patch` reads; empty if they are
/// equal. The labels name the two texts.
///
/// Time and length are bounded: texts with very many differences are shown as one large change, and what would make the
/// result longer than [`DIFF_BYTES_MAX`] is left out, with a last line that says so.
///
/// ```
/// let diff = tidegate_document::text_diff("7", "a\nb\n", "8", "a\nc\n");
/// assert_eq!(diff, "--- 7\n+++ 8\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n");
/// ```
pub fn text_diff(old_label: &str, old: &str, new_label: &str, new: &str) -> String {
    if old == new {
        return String::new();
    }
    let old: Vec<&str> = old.split_inclusive('\n').collect();
    let new: Vec<&str> = new.split_inclusive('\n').collect();
    let (old_numbers, new_numbers) = numbered(&old, &new);
    let runs = runs(&old_numbers, &new_numbers);
    let mut diff = format!("--- {old_label}\n+++ {new_label}\n");
    for hunk in hunks(&runs) {
        write_hunk(&mut diff, hunk, &old, &new);
        if diff.len() > DIFF_BYTES_MAX {
            let end = (0..=DIFF_BYTES_MAX).rfind(|end| diff.is_char_boundary(*end)).unwrap_or_default();
            let end = diff[..end].rfind('\n').map_or(0, |line| line + 1);
            diff.truncate(end);
            diff.push_str("\\ The rest of the difference is left out: it is too long\n");
            break;
        }
    }
    diff
}

/// The lines as numbers: equal lines have equal numbers.
fn numbered(old: &[&str], new: &[&str]) -> (Vec<u32>, Vec<u32>) {
    let mut known: HashMap<String, u32> = HashMap::new();
    let mut number = |line: &&str| {
        let next = known.len() as u32;
        *known.entry((*line).to_owned()).or_insert(next)
    };
    (old.iter().map(&mut number).collect(), new.iter().map(&mut number).collect())
}

/// Changes with few unchanged lines between them are shown together.
fn hunks(runs: &[Run]) -> impl Iterator<Item = &[Run]> {
    runs.chunk_by(|above, below| below.old.start - above.old.end <= 2 * CONTEXT)
}

fn write_hunk(diff: &mut String, runs: &[Run], old: &[&str], new: &[&str]) {
    let (Some(first), Some(last)) = (runs.first(), runs.last()) else { return };
    let before = first.old.start.min(CONTEXT);
    let after = (old.len() - last.old.end).min(CONTEXT);
    let old_lines = first.old.start - before..last.old.end + after;
    let new_lines = first.new.start - before..last.new.end + after;
    let place = |lines: &std::ops::Range<usize>| match lines.len() {
        // An empty range is named by the line above it.
        0 => format!("{},0", lines.start),
        1 => format!("{}", lines.start + 1),
        count => format!("{},{count}", lines.start + 1),
    };
    let written = writeln!(diff, "@@ -{} +{} @@", place(&old_lines), place(&new_lines));
    written.expect("writing to a String does not fail");
    let mut at = old_lines.start;
    for run in runs {
        old[at..run.old.start].iter().for_each(|line| write_line(diff, ' ', line));
        old[run.old.clone()].iter().for_each(|line| write_line(diff, '-', line));
        new[run.new.clone()].iter().for_each(|line| write_line(diff, '+', line));
        at = run.old.end;
    }
    old[at..old_lines.end].iter().for_each(|line| write_line(diff, ' ', line));
}

fn write_line(diff: &mut String, sign: char, line: &str) {
    if diff.len() > DIFF_BYTES_MAX {
        return;
    }
    diff.push(sign);
    diff.push_str(line);
    if !line.ends_with('\n') {
        diff.push_str("\n\\ No newline at end of file\n");
    }
}
