//! Files and functions have a maximum length. Tests count like all other code.

use proc_macro2::{Delimiter, TokenTree};

use super::TidyProblem;
use super::exceptions::{Exception, HOME};
use super::source::{SourceFile, as_group, each_level, is_word, item_end, line};

/// The absolute maximum of a file, without exceptions.
const FILE_CEILING: usize = 600;
const FILE_LINES: usize = 400;
const FUNCTION_LINES: usize = 70;

const WHY: &str = "long code is hard to read and to review";
const RATCHET: &str = "the list of exceptions only shrinks";

/// Finds code that is too long, and exceptions that are not needed, or no longer.
pub fn check(sources: &[SourceFile], exceptions: &[Exception]) -> Vec<TidyProblem> {
    let things: Vec<Thing<'_>> = sources.iter().flat_map(Thing::all_in).collect();
    let long = things.iter().filter(|thing| thing.lines > thing.limit());
    let too_long = long.filter_map(|thing| thing.problem(exceptions));
    too_long.chain(exceptions.iter().filter_map(|entry| entry_problem(entry, &things))).collect()
}

/// A file, or a function in it.
struct Thing<'a> {
    file: &'a str,
    function: Option<String>,
    line: usize,
    lines: usize,
}

impl Thing<'_> {
    fn all_in(source: &SourceFile) -> Vec<Thing<'_>> {
        let file = &source.path;
        let mut things = vec![Thing { file, function: None, line: 1, lines: source.lines }];
        each_level(&source.tokens, &mut |level| {
            for at in 0..level.len() {
                if let Some((name, line, lines)) = function_at(level, at) {
                    things.push(Thing { file, function: Some(name), line, lines });
                }
            }
        });
        things
    }

    fn limit(&self) -> usize {
        if self.function.is_some() { FUNCTION_LINES } else { FILE_LINES }
    }

    fn name(&self) -> String {
        match &self.function {
            Some(name) => format!("function `{name}`"),
            None => "file".to_owned(),
        }
    }

    fn matches(&self, entry: &Exception) -> bool {
        entry.file == self.file && entry.function == self.function.as_deref()
    }

    /// The problem with this thing, which is longer than its limit; `None` if it is an exception.
    fn problem(&self, exceptions: &[Exception]) -> Option<TidyProblem> {
        let (name, lines) = (self.name(), self.lines);
        if self.function.is_none() && lines > FILE_CEILING {
            let what = format!("{name} of {lines} lines, the ceiling is {FILE_CEILING}");
            let fix = "split it by responsibility; the ceiling has no exceptions";
            return Some(TidyProblem::new(self.file, self.line, what, WHY, fix));
        }
        match exceptions.iter().find(|entry| self.matches(entry)) {
            None => {
                let what = format!("{name} of {lines} lines, the limit is {}", self.limit());
                let fix = "split it by responsibility";
                Some(TidyProblem::new(self.file, self.line, what, WHY, fix))
            }
            Some(entry) if lines > entry.lines => {
                let what = format!("{name} grew from {} to {lines} lines", entry.lines);
                let fix = format!("shorten it to at most {} lines", entry.lines);
                Some(TidyProblem::new(self.file, self.line, what, RATCHET, fix))
            }
            Some(_) => None,
        }
    }
}

/// The problem with an entry of the list: it is not needed, or higher than needed.
fn entry_problem(entry: &Exception, things: &[Thing<'_>]) -> Option<TidyProblem> {
    let matching = things.iter().filter(|thing| thing.matches(entry));
    let longest = matching.max_by_key(|thing| thing.lines);
    let (what, fix) = match longest {
        Some(thing) if thing.lines > thing.limit() => {
            let (name, lines) = (thing.name(), thing.lines);
            if lines >= entry.lines {
                return None;
            }
            let what = format!("{name} in {} shrank from {} to {lines} lines", entry.file, entry.lines);
            (what, format!("lower its record to {lines}"))
        }
        Some(thing) => {
            let what = format!("{} in {} is within the limit now", thing.name(), entry.file);
            (what, "remove its entry".to_owned())
        }
        None => {
            let what = format!("{} {} is gone", entry.file, entry.function.unwrap_or("itself"));
            (what, "remove its entry".to_owned())
        }
    };
    Some(TidyProblem::new(HOME, entry.entry_line as usize, what, RATCHET, fix))
}

/// The function whose `fn` is at `at`: its name, its line, and its lines up to the closing brace.
fn function_at(level: &[TokenTree], at: usize) -> Option<(String, usize, usize)> {
    if !is_word(level.get(at), "fn") {
        return None;
    }
    let name = match (level.get(at + 1)?, level.get(at + 2)) {
        (TokenTree::Ident(name), _) => name.to_string(),
        // In a macro: `fn $name`.
        (TokenTree::Punct(_), Some(TokenTree::Ident(name))) => name.to_string(),
        _ => return None,
    };
    let body = as_group(level.get(item_end(level, at)?), Delimiter::Brace)?;
    let first = line(&level[at]);
    let last = body.span_close().end().line;
    Some((name, first, last - first + 1))
}

#[cfg(test)]
mod tests;
