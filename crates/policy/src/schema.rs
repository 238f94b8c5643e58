//! The JSON Schema of the policy document, for editors, from the same tables
//! that check it.

use crate::JsonText;
use crate::descriptor::{PLAIN, PREFIXES};
use crate::shape::{
    CREDENTIALS, NAME_PATTERN, OBJECTS, ObjectShape, POLICY, Shape, ShapeField, decimal_text,
};

/// The schema (draft 2020-12), pretty printed; the same text every time.
pub fn json_schema() -> String {
    let definitions = OBJECTS.iter().map(|object| (object.name.to_owned(), object_schema(object))).collect();
    let schema = Json::Map(vec![
        ("$schema".into(), text("https://json-schema.org/draft/2020-12/schema")),
        ("title".into(), text("Tidegate policy, version 1")),
        ("$ref".into(), text(format!("#/$defs/{}", POLICY.name))),
        ("$defs".into(), Json::Map(definitions)),
    ]);
    let mut out = String::new();
    schema.write(&mut out, 0);
    out.push('\n');
    out
}

/// As much of JSON as a schema needs.
enum Json {
    Text(String),
    /// Numbers and truth values.
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
    if object.descriptors {
        members.push(("patternProperties".into(), conditions()));
    }
    if object.fields().any(|field| field.required) {
        members.push(("required".into(), texts(required)));
    }
    members.push(("additionalProperties".into(), raw(false)));
    Json::Map(members)
}

/// Conditions by descriptor; the patterns exclude each other.
fn conditions() -> Json {
    let own = ["path", "ip", "method", "credential"];
    let others: Vec<&str> = PLAIN.iter().map(|(name, _)| *name).filter(|name| !own.contains(name)).collect();
    let prefixed = PREFIXES.join("|");
    let any_of = |item: &'static Shape| Json::Map(shape_schema(&Shape::OneOrMore(item)));
    Json::Map(vec![
        ("^path$".into(), any_of(&Shape::Path)),
        ("^ip(:address)?$".into(), any_of(&Shape::Cidr)),
        ("^methods?$".into(), any_of(&Shape::Method)),
        ("^credential$".into(), any_of(&Shape::Word(CREDENTIALS))),
        (format!("^({}|({prefixed}):.+)$", others.join("|")), any_of(&Shape::Scalar)),
    ])
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

/// A default as a value; `None` where the table has it in words.
fn default_value(shape: &Shape, default: &str) -> Option<Json> {
    match shape {
        Shape::Integer(..) | Shape::Decimal(..) | Shape::Flag | Shape::ObjectOr(..) => Some(raw(default)),
        Shape::List(_) if default == "[]" => Some(Json::List(Vec::new())),
        Shape::OneOrMore(Shape::Word(_)) => Some(texts([default.trim_matches(['[', ']'])])),
        Shape::Word(_) | Shape::Duration(_) | Shape::Window => Some(text(default)),
        Shape::Name { .. } if !default.contains(' ') => Some(text(default)),
        _ => None,
    }
}

fn shape_schema(shape: &Shape) -> Members {
    let typed = |name: &str| ("type".to_owned(), text(name));
    let pattern = |pattern: String| vec![typed("string"), ("pattern".to_owned(), text(pattern))];
    match shape {
        Shape::Name { reserved } => {
            let start = if *reserved { "^(?!tenant:)" } else { "^" };
            vec![
                ("type".into(), texts(["string", "integer"])),
                ("pattern".into(), text(format!("{start}{NAME_PATTERN}$"))),
            ]
        }
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
        Shape::Descriptor(_) => pattern(descriptor_pattern()),
        Shape::Path => pattern("^/[^?#]*$".into()),
        Shape::Method => pattern("^[A-Z0-9_-]{1,32}$".into()),
        Shape::Cidr => pattern("^[0-9A-Fa-f:.]+(/[0-9]{1,3})?$".into()),
        Shape::Instant => vec![typed("string"), ("format".into(), text("date-time"))],
        Shape::Listen => pattern("^(off|.+:[0-9]{1,5})$".into()),
        Shape::Secret(max) => vec![scalars(), ("minLength".into(), raw(1)), ("maxLength".into(), raw(max))],
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

fn descriptor_pattern() -> String {
    let prefixed = format!("({}):.+", PREFIXES.join("|"));
    let plain: Vec<&str> = PLAIN.iter().map(|(name, _)| *name).collect();
    format!("^({}|ip:address|{prefixed})$", plain.join("|"))
}

impl Json {
    fn write(&self, out: &mut String, depth: usize) {
        match self {
            Json::Text(text) => quote(out, text),
            Json::Raw(value) => out.push_str(value),
            // Lists of plain values are short and read better on one line.
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
    JsonText::new(text).write_to(out).expect("a String takes all");
}

/// Items on lines of their own, between brackets.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::{DocumentNode, ValueKind, parse};

    fn schema() -> DocumentNode {
        parse(&json_schema()).expect("the schema is JSON")
    }

    /// Walks every map of the schema.
    fn each_map(node: &DocumentNode, visit: &mut impl FnMut(&DocumentNode)) {
        visit(node);
        node.items().iter().for_each(|item| each_map(item, visit));
        node.entries().iter().for_each(|(_, child)| each_map(child, visit));
    }

    #[test]
    fn it_is_the_same_every_time_and_names_every_field() {
        assert_eq!(json_schema(), json_schema());
        let schema = schema();
        let definitions = schema.get("$defs").unwrap();
        for object in OBJECTS {
            let definition = definitions.get(object.name).unwrap();
            assert_eq!(definition.get("additionalProperties").unwrap().kind, ValueKind::Bool(false));
            let properties = definition.get("properties").unwrap();
            for field in object.fields() {
                let property = properties.get(field.name).unwrap();
                let about = property.get("description").unwrap().scalar().unwrap();
                assert!(about.starts_with(field.about), "{}.{}", object.name, field.name);
            }
            assert_eq!(definition.get("patternProperties").is_some(), object.descriptors);
        }
    }

    #[test]
    fn every_reference_leads_somewhere() {
        let schema = schema();
        let definitions = schema.get("$defs").unwrap();
        let mut references = 0;
        each_map(&schema, &mut |node| {
            if let Some(target) = node.get("$ref").and_then(DocumentNode::scalar) {
                let name = target.strip_prefix("#/$defs/").unwrap();
                assert!(definitions.get(name).is_some(), "{name}");
                references += 1;
            }
        });
        assert!(references > OBJECTS.len());
    }

    #[test]
    fn numbers_words_and_defaults_come_from_the_tables() {
        let schema = schema();
        let of = |object: &str, field: &str| {
            let properties = schema.get("$defs").unwrap().get(object).unwrap().get("properties").unwrap();
            properties.get(field).unwrap().clone()
        };
        let depth = of("queue", "max_depth");
        let number = |name: &str| depth.get(name).unwrap().scalar().unwrap().to_owned();
        assert_eq!(
            (number("minimum"), number("maximum"), number("default")),
            ("1".into(), "10000".into(), "100".into())
        );
        let algorithms = of("limit", "algorithm");
        assert_eq!(algorithms.get("enum").unwrap().items().len(), 4);
        assert_eq!(algorithms.get("default").unwrap().scalar(), Some("token_bucket"));
        assert_eq!(of("defaults", "retry_jitter").get("maximum").unwrap().scalar(), Some("0.5"));
        let group = of("limit", "group");
        assert!(group.get("default").is_none());
        assert!(
            group.get("description").unwrap().scalar().unwrap().ends_with("Default: a group of its own.")
        );
    }
}
