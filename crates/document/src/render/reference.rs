//! The reference page of a document, from the same tables that check it.

use std::fmt::Write;

use crate::shape::{ObjectShape, Shape, ShapeField, duration_text};

/// A section of a reference page for each table, in Markdown; the same text every time.
pub fn reference(objects: &[&ObjectShape]) -> String {
    let mut text = String::new();
    for object in objects {
        section(&mut text, object).expect("writing to a String does not fail");
    }
    text
}

fn section(page: &mut String, object: &ObjectShape) -> std::fmt::Result {
    writeln!(page, "## {}\n\n{}\n", object.name, object.about)?;
    if let Some(open) = object.open_fields {
        writeln!(page, "{}\n", open.about)?;
    }
    if object.fields().next().is_none() {
        return Ok(());
    }
    writeln!(page, "| field | takes | default | what |\n|---|---|---|---|")?;
    for field in object.fields() {
        let default = match field.default {
            _ if field.required => "**required**".to_owned(),
            Some(default) if is_literal(default) => format!("`{default}`"),
            Some(default) => default.to_owned(),
            None => "–".to_owned(),
        };
        writeln!(page, "| `{}` | {} | {default} | {} |", field.name, takes(&field.shape), field.about)?;
    }
    writeln!(page)?;
    for field in object.fields() {
        words(page, field)?;
    }
    Ok(())
}

/// Is a default a value as it would be written, or is it described in words?
fn is_literal(default: &str) -> bool {
    !default.contains(' ') && !["any", "never", "none"].contains(&default)
}

fn words(page: &mut String, field: &ShapeField) -> std::fmt::Result {
    let (Shape::Word(words) | Shape::OneOrMore(Shape::Word(words))) = &field.shape else { return Ok(()) };
    writeln!(page, "`{}`:\n", field.name)?;
    for word in *words {
        writeln!(page, "- `{}`: {}", word.name, word.about)?;
    }
    writeln!(page)
}

/// What a field takes, with links.
fn takes(shape: &Shape) -> String {
    match shape {
        Shape::Word(_) => "a word, see below".into(),
        Shape::Duration(max) => format!("a [duration](#durations), at most {}", duration_text(*max)),
        Shape::Window => "a [window](#durations)".into(),
        Shape::Custom(custom) => custom.takes.into(),
        Shape::List(Shape::Object(object)) => format!("a list of [{0}](#{0})", object.name),
        Shape::List(Shape::Custom(custom)) => custom.takes_list.map_or_else(|| shape.wanted(), str::to_owned),
        Shape::OneOrMore(Shape::Word(_)) => "a word, or a list of words, see below".into(),
        Shape::Object(object) => format!("[{0}](#{0})", object.name),
        Shape::ObjectOr(object, other) => format!("{}, or [{1}](#{1})", other.wanted(), object.name),
        other => other.wanted(),
    }
}
