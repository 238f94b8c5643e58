//! Renders the problems of a document: position, source line, what was found, what is expected, and a hint.

use std::fmt::Write;

use serde_json::json;
use tidegate_policy::{Problem, Severity};

use crate::commands::terminal::paint::{Paint, Tone};

/// How many characters of a source line are shown.
const LINE_MAX: usize = 120;

/// All problems of a file, one after the other.
pub(crate) fn text(file: &str, source: &str, problems: &[Problem], paint: Paint) -> String {
    let lines: Vec<&str> = source.lines().collect();
    let mut out = String::new();
    for problem in problems {
        let line = (problem.at.line as usize).checked_sub(1).and_then(|line| lines.get(line)).copied();
        one(&mut out, file, line, problem, paint).expect("writing to memory does not fail");
        out.push('\n');
    }
    out
}

fn one(
    out: &mut String,
    file: &str,
    line: Option<&str>,
    problem: &Problem,
    paint: Paint,
) -> std::fmt::Result {
    let Problem { severity, path, at, message, saw, want, hint } = problem;
    let tone = match severity {
        Severity::Error => Tone::Bad,
        Severity::Warning => Tone::Warn,
    };
    writeln!(out, "{}: {}", paint.tone(tone, severity), paint.tone(Tone::Strong, message))?;
    let bar = paint.tone(Tone::Faint, "|");
    if at.line > 0 {
        let arrow = paint.tone(Tone::Faint, "-->");
        let within = if path.is_empty() { String::new() } else { format!("  in {path}") };
        writeln!(out, "  {arrow} {file}:{}:{}{within}", at.line, at.column)?;
    }
    if let Some(line) = line.filter(|line| !line.trim().is_empty()) {
        let shown: String =
            line.chars().take(LINE_MAX).map(|c| if c.is_control() { ' ' } else { c }).collect();
        let before = (at.column as usize).saturating_sub(1);
        let room = shown.chars().count().saturating_sub(before);
        writeln!(out, "{:>5} {bar} {shown}", at.line)?;
        if room > 0 {
            let marks = "^".repeat(marked(&shown, before, at.length as usize).clamp(1, room));
            writeln!(out, "      {bar} {}{}", " ".repeat(before), paint.tone(tone, marks))?;
        }
    }
    let hint = hint.as_deref().unwrap_or_default();
    // Do not print the same text under two labels.
    let hint = if *hint == format!("use {want}") { "" } else { hint };
    let want = if want == hint { "" } else { want.as_str() };
    for (label, text) in [("saw", saw.as_str()), ("want", want), ("hint", hint)] {
        if !text.is_empty() {
            writeln!(out, "      {} {label}: {text}", paint.tone(Tone::Faint, "="))?;
        }
    }
    Ok(())
}

/// How many characters to underline: all up to a comment at the end of the line.
fn marked(line: &str, before: usize, length: usize) -> usize {
    let text: String = line.chars().skip(before).take(length).collect();
    text.split(" #").next().unwrap_or_default().trim_end().chars().count()
}

/// The problems of a file as JSON.
pub(crate) fn json(file: &str, problems: &[Problem]) -> serde_json::Value {
    let one = |problem: &Problem| {
        json!({
            "severity": problem.severity.to_string(),
            "file": file,
            "line": problem.at.line,
            "column": problem.at.column,
            "length": problem.at.length,
            "path": problem.path,
            "message": problem.message,
            "saw": problem.saw,
            "want": problem.want,
            "hint": problem.hint,
        })
    };
    serde_json::Value::Array(problems.iter().map(one).collect())
}

/// "1 limit", "2 limits".
pub(crate) fn count(number: usize, what: &str) -> String {
    match number {
        1 => format!("1 {what}"),
        _ => format!("{number} {what}s"),
    }
}

/// "2 errors and 1 warning".
pub(crate) fn counts(problems: &[Problem]) -> String {
    let errors = problems.iter().filter(|problem| problem.is_error()).count();
    let warnings = problems.len() - errors;
    match (errors, warnings) {
        (0, 0) => "no problems".to_owned(),
        (errors, 0) => count(errors, "error"),
        (0, warnings) => count(warnings, "warning"),
        _ => format!("{} and {}", count(errors, "error"), count(warnings, "warning")),
    }
}
