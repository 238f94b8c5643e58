//! Lists as CSV (RFC 4180). The columns come from the shape of the entries, so that all pages of a list have the same.

use serde_json::{Map, Value};

use super::shape::JsonShape;

/// The last column of entries that may have members of any name: an object with those.
const MORE: &str = "more";

/// The columns of a list, in the order of their names.
pub(super) fn columns(shape: Option<&JsonShape>) -> Vec<String> {
    let schema = shape.map(JsonShape::schema).unwrap_or_default();
    let mut columns: Vec<String> =
        schema["properties"].as_object().map(|members| members.keys().cloned().collect()).unwrap_or_default();
    columns.sort_unstable();
    let is_open = matches!(shape, None | Some(JsonShape::Object)) || schema["patternProperties"].is_object();
    columns.extend(is_open.then(|| MORE.to_owned()));
    columns
}

/// Entries as CSV: a line with the columns, and a line for each entry.
pub(super) fn text(items: &[Value], columns: &[String]) -> String {
    let line = |cells: Vec<String>| cells.join(",") + "\r\n";
    let mut text = line(columns.iter().map(|name| cell(name)).collect());
    for item in items {
        let value = |name: &String| match name.as_str() {
            MORE if item.get(MORE).is_none() => value_cell(others(item, columns).as_ref()),
            name => value_cell(item.get(name)),
        };
        text.push_str(&line(columns.iter().map(value).collect()));
    }
    text
}

/// The members of an entry that have no column.
fn others(item: &Value, columns: &[String]) -> Option<Value> {
    let members = item.as_object()?.iter().filter(|(name, _)| !columns.contains(name));
    let members: Map<String, Value> = members.map(|(name, value)| (name.clone(), value.clone())).collect();
    (!members.is_empty()).then_some(Value::Object(members))
}

fn value_cell(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => cell(text),
        Some(other) => cell(&other.to_string()),
    }
}

/// A cell. Spreadsheets take a cell that begins with one of these characters for a formula, and what clients have sent
/// must not be run: such a cell begins with an apostrophe.
fn cell(text: &str) -> String {
    let text = match text.chars().next() {
        Some('=' | '+' | '-' | '@' | '\t' | '\r') if text.parse::<f64>().is_err() => format!("'{text}"),
        _ => text.to_owned(),
    };
    match text.contains([',', '"', '\r', '\n']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::control::api::table::routes;

    #[test]
    fn the_columns_are_those_of_the_shape_and_nothing_is_run() {
        let columns = ["a", "b", MORE].map(str::to_owned);
        let items = [
            json!({ "a": "x,\"y\"", "b": -1 }),
            json!({ "header:c": [1], "a": "=HYPERLINK(1)" }),
            json!({ "a": null }),
        ];
        let written =
            "a,b,more\r\n\"x,\"\"y\"\"\",-1,\r\n'=HYPERLINK(1),,\"{\"\"header:c\"\":[1]}\"\r\n,,\r\n";
        assert_eq!(text(&items, &columns), written);
        assert_eq!(text(&[], &columns), "a,b,more\r\n", "the line with the columns is always there");
    }

    #[test]
    fn every_list_has_columns() {
        for route in routes() {
            if let Some(shape) = route.listed() {
                assert!(columns(Some(shape)).len() > 1, "{}: {:?}", route.path, columns(Some(shape)));
            }
        }
    }
}
