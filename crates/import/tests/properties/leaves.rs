//! The leaves of a document, and what else could be written in their place.

use serde_json::{Map, Value};
use tidegate_document::{DocumentNode, ValueKind};

/// A step from a value to one that it contains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Member(String),
    Item(usize),
}

/// The way from the root to a leaf.
pub(crate) type LeafPath = Vec<Step>;

/// The path as notes write it: `rules[3].match`.
pub(crate) fn written(path: &[Step]) -> String {
    path.iter().fold(String::new(), |text, step| match step {
        Step::Member(name) if text.is_empty() => name.clone(),
        Step::Member(name) => format!("{text}.{name}"),
        Step::Item(index) => format!("{text}[{index}]"),
    })
}

/// A parsed document as a tree that can be changed and written again.
pub(crate) fn tree(node: &DocumentNode) -> Value {
    match &node.kind {
        ValueKind::Null => Value::Null,
        ValueKind::Bool(flag) => Value::Bool(*flag),
        ValueKind::Number(text) => serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.clone())),
        ValueKind::Text(text) => Value::String(text.clone()),
        ValueKind::List(items) => Value::Array(items.iter().map(tree).collect()),
        ValueKind::Map(entries) => {
            let members = entries.iter().map(|(key, node)| (key.value.clone(), tree(node)));
            Value::Object(members.collect::<Map<String, Value>>())
        }
    }
}

/// Every scalar, empty list and empty map.
pub(crate) fn leaves(root: &Value) -> Vec<LeafPath> {
    let mut found = Vec::new();
    collect(root, &mut Vec::new(), &mut found);
    found
}

fn collect(value: &Value, path: &mut LeafPath, found: &mut Vec<LeafPath>) {
    let children: Vec<(Step, &Value)> = match value {
        Value::Array(items) => {
            items.iter().enumerate().map(|(index, item)| (Step::Item(index), item)).collect()
        }
        Value::Object(members) => {
            members.iter().map(|(name, member)| (Step::Member(name.clone()), member)).collect()
        }
        _ => Vec::new(),
    };
    if children.is_empty() {
        found.push(path.clone());
    }
    for (step, child) in children {
        path.push(step);
        collect(child, path, found);
        path.pop();
    }
}

/// The kind of a map: the name of the member that it is, or of the list that it is in.
pub(crate) fn kind(path: &[Step]) -> Option<&str> {
    path.iter().rev().find_map(|step| match step {
        Step::Member(name) => Some(name.as_str()),
        Step::Item(_) => None,
    })
}

/// Every map, the document itself included.
pub(crate) fn maps(root: &Value) -> Vec<LeafPath> {
    let mut found = vec![Vec::new()];
    found.extend(parts(root));
    found.retain(|path| at(root, path).is_object());
    found
}

/// Every member and every item, on any level.
pub(crate) fn parts(root: &Value) -> Vec<LeafPath> {
    let mut found: Vec<LeafPath> = Vec::new();
    for leaf in leaves(root) {
        // The leaves come in order, so what the last one is not in has not been found yet.
        let known = found.last().map_or(0, |last| last.iter().zip(&leaf).take_while(|(a, b)| a == b).count());
        found.extend((known + 1..=leaf.len()).map(|length| leaf[..length].to_vec()));
    }
    found
}

/// The value at the end of the path.
pub(crate) fn at<'a>(root: &'a Value, path: &[Step]) -> &'a Value {
    path.iter().fold(root, |value, step| match step {
        Step::Member(name) => &value[name.as_str()],
        Step::Item(index) => &value[*index],
    })
}

/// The document with another value at the end of the path, or without any.
pub(crate) fn changed(root: &Value, path: &[Step], to: Option<Value>) -> Value {
    let Some((step, rest)) = path.split_first() else { return to.unwrap_or_default() };
    let mut root = root.clone();
    match step {
        Step::Member(name) => {
            let members = root.as_object_mut().expect("the path leads through maps and lists");
            if rest.is_empty() && to.is_none() {
                members.remove(name);
            } else {
                let inner = changed(members.get(name).unwrap_or(&Value::Null), rest, to);
                members.insert(name.clone(), inner);
            }
        }
        Step::Item(index) => {
            let items = root.as_array_mut().expect("the path leads through maps and lists");
            if rest.is_empty() && to.is_none() {
                items.remove(*index);
            } else {
                items[*index] = changed(&items[*index], rest, to);
            }
        }
    }
    root
}

/// Words that a member of this name may have in one format or another. A word that the format does not know makes the
/// import complain, and then proves nothing.
const WORDS: &[(&str, &[&str])] = &[
    ("sharing", &["private", "inherit", "enforce"]),
    ("algorithm", &["token_bucket", "sliding_window", "cost_based"]),
    ("scope", &["global", "tenant", "user", "ip", "route", "endpoint"]),
    ("strategy", &["reject", "queue", "degrade"]),
    ("mode", &["unlimited", "allocated", "shared", "enforce", "shadow"]),
    ("window", &["second", "minute", "hour", "day"]),
    ("limit_type", &["per_user", "per_ip", "per_client", "global"]),
    ("unit", &["second", "minute", "hour", "day", "week", "month", "year"]),
    ("period", &["5m", "1h", "1d", "7d"]),
    ("cost_source", &["fixed", "header:x-weight", "query:weight"]),
    ("cost_key", &["fixed", "header:x-weight", "query:weight"]),
    ("limit_keys", &["ip:address", "jwt:team", "ua:bot"]),
    ("action", &["warn", "throttle", "reject"]),
    ("estimator", &["header_hint", "simple_word"]),
    ("key_pattern", &["global", "ip:{ip}", "user:{user_id}", "endpoint:/else", "user:7"]),
    ("path", &["/else", "/else/*"]),
    ("endpoint", &["/else", "/else/*"]),
    ("route", &["/else"]),
    ("pathPrefix", &["/", "/else/"]),
    ("timeout", &["9s", "700ms"]),
    ("conditions", &["descriptors[0].else == 'x'", "descriptors[0].else > 3"]),
    ("variables", &["descriptors[0].else", "request.size()"]),
    ("expires_at", &["2031-05-06T07:08:09Z"]),
    ("is_active", &["f"]),
];

/// Other values for a leaf, most of them of the same shape.
pub(crate) fn alternatives(root: &Value, path: &[Step]) -> Vec<Value> {
    let value = at(root, path);
    let name = kind(path);
    let words = WORDS.iter().filter(|(member, _)| name == Some(member)).flat_map(|(_, words)| words.iter());
    let mut found: Vec<Value> = words.map(|&word| Value::from(word)).collect();
    match value {
        Value::Bool(flag) => found = vec![Value::from(!flag)],
        Value::Number(number) => {
            found.extend(number.as_u64().map(|whole| Value::from(whole + 1)));
            let double = number.as_f64().map_or(3.0, |float| float * 2.0);
            found.push(if double.fract() == 0.0 {
                Value::from(format!("{double:.0}"))
            } else {
                Value::from(double)
            });
        }
        Value::String(text) => {
            found.push(Value::from(format!("{text}x")));
            if let Ok(number) = text.parse::<f64>() {
                found.push(Value::from((number * 2.0).to_string()));
            }
        }
        Value::Null => found.extend(["other", "7"].map(Value::from)),
        Value::Array(_) | Value::Object(_) => {}
    }
    let text = |value: &Value| value.to_string().trim_matches('"').to_owned();
    found.retain(|other| text(other) != text(value));
    found
}
