//! The output of `tidegate admin` for people: tables for lists, and lines for one object.

use std::fmt::Write;

use serde_json::Value;

use crate::commands::terminal::paint::{Paint, Tone, printable};

/// The columns that come first, in this order.
const FIRST: [&str; 6] = ["name", "id", "version", "seq", "time", "event"];
/// The widest column, in characters.
const COLUMN_MAX: usize = 48;

/// Entries of a list as a table.
pub(super) fn table(items: &[Value], paint: Paint) -> String {
    let mut columns: Vec<&str> = Vec::new();
    for name in items.iter().filter_map(Value::as_object).flat_map(|item| item.keys()) {
        if !columns.contains(&name.as_str()) {
            columns.push(name);
        }
    }
    // What names an entry comes first; objects themselves have no order.
    columns.sort_by_key(|name| FIRST.iter().position(|first| first == name).unwrap_or(FIRST.len()));
    let rows: Vec<Vec<String>> =
        items.iter().map(|item| columns.iter().map(|name| short(item.get(name))).collect()).collect();
    let width = |index: usize| {
        let cells = rows.iter().map(|row| row[index].chars().count());
        cells.max().unwrap_or(0).max(columns[index].chars().count())
    };
    let widths: Vec<usize> = (0..columns.len()).map(width).collect();
    let line = |cells: &[String]| {
        let padded: Vec<String> =
            cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        padded.join("  ").trim_end().to_owned()
    };
    let head: Vec<String> = columns.iter().map(|name| (*name).to_owned()).collect();
    let mut text = format!("{}\n", paint.tone(Tone::Strong, line(&head)));
    rows.iter().for_each(|row| text.push_str(&format!("{}\n", line(row))));
    text
}

/// An object, a line for each member.
pub(super) fn object(value: &Value, paint: Paint) -> String {
    let mut text = String::new();
    lines(value, 0, paint, &mut text);
    text
}

fn lines(value: &Value, depth: usize, paint: Paint, text: &mut String) {
    let indent = "  ".repeat(depth);
    let mut line = |what: String| writeln!(text, "{indent}{what}").expect("writing to memory does not fail");
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                let name = paint.tone(Tone::Strong, printable(name)).to_string();
                match member {
                    Value::Object(_) | Value::Array(_) if !is_empty(member) => {
                        writeln!(text, "{indent}{name}:").expect("writing to memory does not fail");
                        lines(member, depth + 1, paint, text);
                    }
                    member => {
                        writeln!(text, "{indent}{name}: {}", scalar(member))
                            .expect("writing to memory does not fail");
                    }
                }
            }
        }
        Value::Array(items) if items.iter().all(Value::is_object) && !items.is_empty() => {
            let table = table(items, paint);
            table.lines().for_each(|row| line(row.to_owned()));
        }
        Value::Array(items) => items.iter().for_each(|item| line(format!("- {}", scalar(item)))),
        other => line(scalar(other)),
    }
}

/// A problem of a document, as `tidegate validate` tells it: where, how grave, what, and how to fix it.
pub(super) fn problem(problem: &Value, document: &str) -> String {
    let text = |name: &str| problem.get(name).and_then(Value::as_str).map(|text| printable(text).to_string());
    let place =
        match (problem.get("line").and_then(Value::as_u64), problem.get("column").and_then(Value::as_u64)) {
            (Some(line), Some(column)) => format!("{document}:{line}:{column}"),
            _ => document.to_owned(),
        };
    let severity = text("severity").unwrap_or_else(|| "error".to_owned());
    let path =
        text("path").filter(|path| !path.is_empty()).map(|path| format!("{path}: ")).unwrap_or_default();
    let message = text("message").unwrap_or_default();
    let mut lines = format!("{place}: {severity}: {path}{message}\n");
    for name in ["saw", "want", "hint"] {
        if let Some(value) = text(name).filter(|value| !value.is_empty()) {
            lines.push_str(&format!("    {name}: {value}\n"));
        }
    }
    lines
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Object(members) => members.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

fn scalar(value: &Value) -> String {
    match value {
        Value::String(text) => {
            text.lines().map(|line| printable(line).to_string()).collect::<Vec<_>>().join("\n")
        }
        other => other.to_string(),
    }
}

fn short(value: Option<&Value>) -> String {
    let text = match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => printable(text).to_string(),
        Some(other) => other.to_string(),
    };
    match text.chars().count() > COLUMN_MAX {
        true => text.chars().take(COLUMN_MAX - 1).chain(['…']).collect(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lists_are_tables_and_objects_are_lines() {
        let items = [json!({ "name": "a", "rate": 10 }), json!({ "name": "long-name", "plan": ["x"] })];
        let plain = Paint::never();
        assert_eq!(table(&items, plain), "name       rate  plan\na          10\nlong-name        [\"x\"]\n");
        let one = json!({ "version": 8, "warnings": [], "limits": items, "who": { "role": "admin" } });
        let text = object(&one, plain);
        assert!(text.starts_with("limits:\n  name       rate  plan\n"), "{text}");
        assert!(text.ends_with("version: 8\nwarnings: []\nwho:\n  role: admin\n"), "{text}");
    }
}
