//! The output of `tidegate admin` for people: tables for lists, and lines for one object.

use serde_json::Value;

use crate::commands::terminal::paint::{Paint, Tone, printable};

/// The columns that come first, in this order.
const FIRST: [&str; 6] = ["name", "id", "version", "seq", "time", "event"];
/// The widest column, in characters.
const COLUMN_MAX: usize = 48;

/// The place of a member among others: small if it names what has it.
fn rank(name: &str) -> usize {
    FIRST.iter().position(|first| *first == name).unwrap_or(FIRST.len())
}

/// Entries of a list as a table.
pub(super) fn table(items: &[Value], paint: Paint) -> String {
    let mut columns: Vec<&str> = Vec::new();
    for name in items.iter().filter_map(Value::as_object).flat_map(|item| item.keys()) {
        if !columns.contains(&name.as_str()) {
            columns.push(name);
        }
    }
    // What names an entry comes first; objects themselves have no order.
    columns.sort_by_key(|name| rank(name));
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

/// An object, a line for each member; what a member has itself is indented below it, and nothing is cut.
pub(super) fn object(value: &Value, paint: Paint) -> String {
    lines(value, paint).into_iter().map(|line| line + "\n").collect()
}

fn lines(value: &Value, paint: Paint) -> Vec<String> {
    match value {
        Value::Object(members) => {
            members.iter().flat_map(|(name, member)| member_lines(name, member, paint)).collect()
        }
        Value::Array(items) if fits_table(items) => table(items, paint).lines().map(str::to_owned).collect(),
        Value::Array(items) => items.iter().flat_map(|item| entry_lines(item, paint)).collect(),
        other => scalar(other),
    }
}

/// A member of an object: on one line if it has one, else below its name.
fn member_lines(name: &str, member: &Value, paint: Paint) -> Vec<String> {
    let name = paint.tone(Tone::Strong, printable(name));
    let below = match member {
        _ if is_empty(member) => vec![member.to_string()],
        member => lines(member, paint),
    };
    match (below.as_slice(), is_nested(member)) {
        ([], _) => vec![format!("{name}:")],
        ([only], false) => vec![format!("{name}: {only}")],
        _ => [format!("{name}:")].into_iter().chain(below.iter().map(|line| format!("  {line}"))).collect(),
    }
}

/// An entry of a list that is no table. As in a table, what names it comes first, and members without a value are left
/// out.
fn entry_lines(item: &Value, paint: Paint) -> Vec<String> {
    let own = match item {
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().filter(|(_, member)| !member.is_null()).collect();
            members.sort_by_key(|(name, _)| rank(name));
            members.into_iter().flat_map(|(name, member)| member_lines(name, member, paint)).collect()
        }
        other => lines(other, paint),
    };
    let mark = |(place, line): (usize, String)| format!("{}{line}", if place == 0 { "- " } else { "  " });
    own.into_iter().enumerate().map(mark).collect()
}

/// Can a list inside of an object be a table without cutting anything? Short lists of values are cells as they are.
fn fits_table(items: &[Value]) -> bool {
    let is_cell = |cell: &Value| match cell {
        Value::Array(values) => !values.iter().any(is_nested),
        cell => !is_nested(cell),
    };
    let fits = |cell: &Value| is_cell(cell) && uncut(Some(cell)).chars().count() <= COLUMN_MAX;
    let fits_row = |item: &Value| item.as_object().is_some_and(|members| members.values().all(fits));
    !items.is_empty() && items.iter().all(fits_row)
}

/// Has it entries of its own?
fn is_nested(value: &Value) -> bool {
    (value.is_object() || value.is_array()) && !is_empty(value)
}

/// What an error answer of the API says.
pub(super) struct Refusal {
    /// Where and what, on one line.
    pub(super) told: String,
    /// Everything else that it has, such as a hint, as lines.
    pub(super) more: Vec<String>,
}

/// Reads an error answer; `None` if it says nothing. The problems of documents are not part of it.
pub(super) fn refusal(body: &Value) -> Option<Refusal> {
    let text = |value: &Value, name: &str| value.get(name).and_then(Value::as_str).map(printable);
    let placed = |value: &Value, detail: String| match text(value, "pointer") {
        Some(pointer) if pointer.starts_with('/') => {
            format!("{pointer}: {}", detail.strip_prefix("body: ").unwrap_or(&detail))
        }
        // Parameters and headers are named in the detail; an empty pointer is the whole body.
        _ => detail,
    };
    let told = placed(body, text(body, "detail")?);
    let error = |error: &Value| {
        let detail = text(error, "detail").or_else(|| text(error, "message")).unwrap_or_default();
        placed(error, detail)
    };
    let errors = body.get("errors").and_then(Value::as_array).into_iter().flatten().map(error);
    let known = ["type", "title", "status", "detail", "pointer", "errors", "problems"];
    let members = body.as_object().into_iter().flatten();
    let others = members.filter(|(name, value)| !known.contains(&name.as_str()) && !value.is_null());
    let others = others.flat_map(|(name, value)| member_lines(name, value, Paint::stderr()));
    Some(Refusal { told, more: errors.chain(others).collect() })
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

/// The lines of a value that has no entries.
fn scalar(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) if text.is_empty() => vec![String::new()],
        Value::String(text) => text.lines().map(printable).collect(),
        other => vec![other.to_string()],
    }
}

/// A cell of a table, cut to the widest column.
fn short(value: Option<&Value>) -> String {
    let text = uncut(value);
    match text.chars().count() > COLUMN_MAX {
        true => text.chars().take(COLUMN_MAX - 1).chain(['…']).collect(),
        false => text,
    }
}

fn uncut(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => printable(text),
        Some(other) => other.to_string(),
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

    #[test]
    fn what_a_list_inside_of_an_object_has_is_not_cut() {
        let reason = "launch day: twice as much as usual, until the crowd of the first evening is gone";
        let bucket = json!({
            "key": [{ "descriptor": "user", "value": "42" }],
            "before": { "limit": 10, "remaining": 9 },
            "override": { "reason": reason, "until": "2027-01-01T00:00:00Z" },
        });
        let value = json!({ "limits": [
            { "tier": "user", "name": "per-user", "why_not": null, "match": [], "bucket": bucket },
            { "name": "per-ip", "tier": "ip", "match": ["ip\u{1b}", "path"], "note": "two\nlines" },
        ] });
        let expected = format!(
            "\
limits:
  - name: per-user
    bucket:
      before:
        limit: 10
        remaining: 9
      key:
        descriptor  value
        user        42
      override:
        reason: {reason}
        until: 2027-01-01T00:00:00Z
    match: []
    tier: user
  - name: per-ip
    match:
      - ip\\u{{1b}}
      - path
    note:
      two
      lines
    tier: ip
"
        );
        assert_eq!(object(&value, Paint::never()), expected);
        let long = json!({ "examples": [{ "path": "/a".repeat(40) }] });
        assert_eq!(
            object(&long, Paint::never()),
            format!("examples:\n  - path: {}\n", "/a".repeat(40)),
            "a long cell is no cell of a table"
        );
    }

    #[test]
    fn an_error_says_where_and_what_and_all_else_that_it_knows() {
        let told = |body: Value| refusal(&body).map(|refusal| refusal.told).unwrap_or_default();
        let out_of_range = json!({ "title": "Unprocessable Content", "status": 422, "type": "about:blank",
            "detail": "it must be from 0.01 to 100", "pointer": "/multiplier" });
        assert_eq!(told(out_of_range), "/multiplier: it must be from 0.01 to 100");
        let in_body = json!({ "detail": "body: unknown field `x`", "pointer": "/request/x" });
        assert_eq!(told(in_body), "/request/x: unknown field `x`");
        let parameter = json!({ "detail": "query parameter `limit`: it is no number", "pointer": "limit" });
        assert_eq!(told(parameter), "query parameter `limit`: it is no number");
        let more =
            refusal(&json!({ "detail": "two are wrong", "pointer": "", "hint": "read\u{1b} the guide",
            "errors": [{ "pointer": "/a", "detail": "too low" }, { "detail": "too\u{1b} high" }],
            "allocation": { "sum": 3, "total": 2 }, "problems": [{}], "title": "t", "none": null }));
        let more = more.expect("it says something");
        assert_eq!(more.told, "two are wrong");
        let expected = [
            "/a: too low",
            "too\\u{1b} high",
            "allocation:",
            "  sum: 3",
            "  total: 2",
            "hint: read\\u{1b} the guide",
        ];
        assert_eq!(more.more, expected);
        assert!(refusal(&json!({ "status": 404 })).is_none());
    }
}
