//! The JSON Schema of a document, for editors, from the same tables that check it.

use crate::shape::{ObjectShape, OpenFields, Shape, ShapeField, decimal_text};

use super::JsonText;

/// The schema (draft 2020-12) of the document `root`, pretty printed; the same text every time. `objects` are all the
/// maps that it refers to, `root` included.
pub fn json_schema(title: &str, root: &ObjectShape, objects: &[&ObjectShape]) -> String {
    let definitions = objects.iter().map(|object| (object.name.to_owned(), object_schema(object))).collect();
    let schema = Json::Map(vec![
        ("$schema".into(), text("https://json-schema.org/draft/2020-12/schema")),
        ("title".into(), text(title)),
        ("$ref".into(), text(format!("#/$defs/{}", root.name))),
        ("$defs".into(), Json::Map(definitions)),
    ]);
    let mut out = String::new();
    schema.write(&mut out, 0);
    out.push('\n');
    out
}

/// A JSON value, as far as a schema needs one.
enum Json {
    Text(String),
    /// A number or a boolean, as written.
    Raw(String),
    List(Vec<Json>),
    Map(Members),
}

type Members = Vec<(String, Json)>;

fn text(text: impl Into<String>) -> Json {
    Json::Text(text.into())
}

fn raw(value: impl ToString) -> Json {
    Json::Raw(value.to_string())
}

fn texts<'a>(items: impl IntoIterator<Item = &'a str>) -> Json {
    Json::List(items.into_iter().map(text).collect())
}

fn object_schema(object: &ObjectShape) -> Json {
    let properties: Members =
        object.fields().map(|field| (field.name.to_owned(), field_schema(field))).collect();
    let required = object.fields().filter(|field| field.required).map(|field| field.name);
    let mut members: Members = vec![
        ("type".into(), text("object")),
        ("description".into(), text(object.about)),
        ("properties".into(), Json::Map(properties)),
    ];
    if let Some(open) = object.open_fields {
        members.push(("patternProperties".into(), open_properties(open)));
    }
    if object.fields().any(|field| field.required) {
        members.push(("required".into(), texts(required)));
    }
    members.push(("additionalProperties".into(), raw(false)));
    Json::Map(members)
}

fn open_properties(open: &OpenFields) -> Json {
    let property = |(pattern, shape): (String, &'static Shape)| (pattern, Json::Map(shape_schema(shape)));
    Json::Map((open.patterns)().into_iter().map(property).collect())
}

fn field_schema(field: &ShapeField) -> Json {
    let mut members = shape_schema(&field.shape);
    let mut about = field.about.to_owned();
    if let Shape::Word(words) | Shape::OneOrMore(Shape::Word(words)) = &field.shape {
        for word in *words {
            about.push_str(&format!("\n- {}: {}", word.name, word.about));
        }
    }
    match field.default.map(|default| (default, default_value(&field.shape, default))) {
        Some((_, Some(value))) => members.push(("default".into(), value)),
        Some((default, None)) => about.push_str(&format!(" Default: {default}.")),
        None => {}
    }
    members.push(("description".into(), text(about)));
    Json::Map(members)
}

/// A default as a value; `None` where the table describes it in words.
fn default_value(shape: &Shape, default: &str) -> Option<Json> {
    match shape {
        // Words here would not be JSON.
        Shape::Integer(..) | Shape::Decimal(..) | Shape::Flag | Shape::ObjectOr(..) => {
            Some(raw(default)).filter(|_| !default.contains(' '))
        }
        Shape::List(_) if default == "[]" => Some(Json::List(Vec::new())),
        Shape::OneOrMore(Shape::Word(_)) => Some(texts([default.trim_matches(['[', ']'])])),
        Shape::Word(_) | Shape::Duration(_) | Shape::Window => Some(text(default)),
        Shape::Custom(_) if !default.contains(' ') => Some(text(default)),
        _ => None,
    }
}

fn shape_schema(shape: &Shape) -> Members {
    let typed = |name: &str| ("type".to_owned(), text(name));
    let pattern = |pattern: String| vec![typed("string"), ("pattern".to_owned(), text(pattern))];
    match shape {
        Shape::Text(max) => vec![scalars(), ("maxLength".into(), raw(max))],
        Shape::Scalar => vec![scalars(), ("minLength".into(), raw(1))],
        Shape::Integer(min, max) if min == max => vec![("const".into(), raw(min))],
        Shape::Integer(min, max) => {
            vec![typed("integer"), ("minimum".into(), raw(min)), ("maximum".into(), raw(max))]
        }
        Shape::Decimal(min, max) => vec![
            typed("number"),
            ("minimum".into(), raw(decimal_text(*min))),
            ("maximum".into(), raw(decimal_text(*max))),
        ],
        Shape::Flag => vec![typed("boolean")],
        Shape::Duration(_) => pattern(format!("^{DURATION}$")),
        Shape::Window => pattern(format!("^(second|minute|hour|day|{DURATION})$")),
        Shape::Word(words) => vec![("enum".into(), texts(words.iter().map(|word| word.name)))],
        Shape::Cidr => pattern("^[0-9A-Fa-f:.]+(/[0-9]{1,3})?$".into()),
        Shape::Instant => vec![typed("string"), ("format".into(), text("date-time"))],
        Shape::Listen => pattern("^(off|.+:[0-9]{1,5})$".into()),
        Shape::Secret(max) => vec![scalars(), ("minLength".into(), raw(1)), ("maxLength".into(), raw(max))],
        Shape::Custom(custom) => {
            let types = match custom.json_types {
                [one] => text(*one),
                several => texts(several.iter().copied()),
            };
            vec![("type".into(), types), ("pattern".into(), text((custom.pattern)()))]
        }
        Shape::List(item) => {
            vec![typed("array"), ("items".into(), Json::Map(shape_schema(item)))]
        }
        Shape::OneOrMore(item) => {
            let mut list = shape_schema(&Shape::List(item));
            if !matches!(item, Shape::Word(_)) {
                list.push(("minItems".into(), raw(1)));
            }
            any_of(vec![shape_schema(item), list])
        }
        Shape::Object(object) => vec![("$ref".into(), text(format!("#/$defs/{}", object.name)))],
        Shape::ObjectOr(object, other) => {
            any_of(vec![shape_schema(other), shape_schema(&Shape::Object(object))])
        }
    }
}

const DURATION: &str = "0*[1-9][0-9]*(ms|s|m|h|d)";

fn any_of(choices: Vec<Members>) -> Members {
    vec![("anyOf".into(), Json::List(choices.into_iter().map(Json::Map).collect()))]
}

fn scalars() -> (String, Json) {
    ("type".into(), texts(["string", "number", "boolean"]))
}

impl Json {
    fn write(&self, out: &mut String, depth: usize) {
        match self {
            Json::Text(text) => quote(out, text),
            Json::Raw(value) => out.push_str(value),
            // Lists of scalars are short: keep them on one line.
            Json::List(items) if items.iter().all(|item| matches!(item, Json::Text(_) | Json::Raw(_))) => {
                out.push('[');
                for (index, item) in items.iter().enumerate() {
                    out.push_str(if index == 0 { "" } else { ", " });
                    item.write(out, depth);
                }
                out.push(']');
            }
            Json::List(items) => block(out, depth, ('[', ']'), items, |item, out| item.write(out, depth + 1)),
            Json::Map(members) if members.is_empty() => out.push_str("{}"),
            Json::Map(members) => block(out, depth, ('{', '}'), members, |(name, value), out| {
                quote(out, name);
                out.push_str(": ");
                value.write(out, depth + 1);
            }),
        }
    }
}

fn quote(out: &mut String, text: &str) {
    JsonText::new(text).write_to(out).expect("writing to a String does not fail");
}

/// Writes each item on a line of its own, between brackets.
fn block<T>(
    out: &mut String,
    depth: usize,
    (open, close): (char, char),
    items: &[T],
    write: impl Fn(&T, &mut String),
) {
    out.push(open);
    for (index, item) in items.iter().enumerate() {
        out.push_str(if index == 0 { "\n" } else { ",\n" });
        out.push_str(&"  ".repeat(depth + 1));
        write(item, out);
    }
    out.push('\n');
    out.push_str(&"  ".repeat(depth));
    out.push(close);
}
