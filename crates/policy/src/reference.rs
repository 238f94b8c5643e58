//! The reference page of the policy document, from the same tables that check
//! it.

use std::fmt::Write;

use crate::shape::{NAME_PATTERN, OBJECTS, ObjectShape, Shape, ShapeField};

/// The page, as Markdown; the same text every time.
pub fn reference() -> String {
    let mut page = format!("{INTRODUCTION}{}", sections(OBJECTS));
    notes(&mut page).expect("writing to a string does not fail");
    page
}

/// A section for each object.
pub(crate) fn sections(objects: &[&ObjectShape]) -> String {
    let mut text = String::new();
    for object in objects {
        section(&mut text, object).expect("writing to a string does not fail");
    }
    text
}

const INTRODUCTION: &str = "\
# Policy reference

A policy is one YAML or JSON document. Unknown fields are errors, and so are duplicate keys, anchors,
aliases and tags. Every problem is told at once, with its line and a hint; warnings never stop a policy.

";

fn section(page: &mut String, object: &ObjectShape) -> std::fmt::Result {
    writeln!(page, "## {}\n\n{}\n", object.name, object.about)?;
    if object.descriptors {
        writeln!(
            page,
            "Every [descriptor](#descriptors) is a field, and `methods` is the same as `method`:"
        )?;
        writeln!(
            page,
            "`path` takes patterns of [paths](#paths), `ip` addresses and networks, the others values.\n"
        )?;
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

/// Is a default as it would be written, and not in words?
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
        Shape::Name { .. } => "a [name](#names)".into(),
        Shape::Word(_) => "a word, see below".into(),
        Shape::Duration(max) => {
            format!("a [duration](#durations), at most {}", crate::shape::duration_text(*max))
        }
        Shape::Window => "a [window](#durations)".into(),
        Shape::Descriptor(_) => format!("a [descriptor](#descriptors): {}", shape.wanted()),
        Shape::Path => "a [path](#paths)".into(),
        Shape::List(Shape::Object(object)) => format!("a list of [{0}](#{0})", object.name),
        Shape::List(Shape::Descriptor(_)) => "a list of [descriptors](#descriptors)".into(),
        Shape::OneOrMore(Shape::Word(_)) => "a word, or a list of words, see below".into(),
        Shape::Object(object) => format!("[{0}](#{0})", object.name),
        Shape::ObjectOr(object, other) => format!("{}, or [{1}](#{1})", other.wanted(), object.name),
        other => other.wanted(),
    }
}

/// What each descriptor is.
const DESCRIPTORS: &[(&str, &str)] = &[
    ("tenant", "the tenant"),
    ("user", "the user"),
    ("client", "the client application"),
    ("ip", "the address; also written `ip:address`. In keys, IPv6 counts by /64"),
    ("plan", "the plan"),
    ("route", "the pattern of `routes` that matched, else the path"),
    ("method", "the HTTP method"),
    ("host", "the host"),
    ("path", "the path, without the query"),
    ("domain", "the domain that a proxy names"),
    (
        "credential",
        "`none`, `valid` or `invalid`: what came of the bearer token. Refused requests see no limit: \
         `invalid` is there only under `jwt.invalid: anonymous`",
    ),
    ("header:<name>", "a header; its name is compared without case"),
    ("query:<name>", "a parameter of the query"),
    ("jwt:<claim>", "a claim of a verified token"),
    ("descriptor:<name>", "anything else that a proxy sends"),
];

fn notes(page: &mut String) -> std::fmt::Result {
    writeln!(page, "## Descriptors\n\nThe parts of a request that a policy can name.\n")?;
    writeln!(page, "| descriptor | what |\n|---|---|")?;
    for (name, about) in DESCRIPTORS {
        writeln!(page, "| `{name}` | {about} |")?;
    }
    page.push_str(
        "
A limit whose key names a descriptor that a request does not have does not apply to it. In `match`, `allow`
and `block` a descriptor takes a value or a list of which any will do; all descriptors of one map must hold.

## Durations

A whole number and a unit, without a space: `ms`, `s`, `m`, `h` or `d`, as in `250ms`, `30s`, `1h`. Zero is
refused. A window is one of the words `second`, `minute`, `hour`, `day`, or a duration of at most 200 years.

## Names

",
    );
    writeln!(
        page,
        "Names of limits, groups, detectors and tenants match `{NAME_PATTERN}`. Names of limits and"
    )?;
    page.push_str(
        "detectors do not begin with `tenant:`, under which the limits of tenants appear in decisions.

## Paths

A path begins with `/` and is literal but for two segments: `*` is any one segment, and a final `**` is any
depth, none included. `/api/*/items` matches `/api/7/items`; `/api/**` matches `/api` and all below it. Before
they are compared, paths lose their query, empty and dot segments are resolved, and escapes of characters
that need none are decoded, so that `//login` is `/login`.
",
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::descriptor::{PLAIN, PREFIXES};

    #[test]
    fn every_field_and_word_has_its_line() {
        let page = reference();
        for object in OBJECTS {
            assert!(page.contains(&format!("\n## {}\n\n{}\n", object.name, object.about)));
            for field in object.fields() {
                assert!(page.contains(&format!("| `{}` | ", field.name)), "{}", field.name);
            }
        }
        assert!(page.contains("- `llm_tools`: "));
        assert!(page.contains("| `max_wait` | a [duration](#durations), at most 1h | `2s` |"), "{page}");
        assert!(page.contains("| `name` | a [name](#names) | **required** |"));
    }

    #[test]
    fn every_table_row_has_its_columns() {
        for line in reference().lines().filter(|line| line.starts_with('|')) {
            assert!(matches!(line.matches('|').count(), 3 | 5), "{line}");
        }
    }

    #[test]
    fn every_link_leads_somewhere() {
        let page = reference();
        for target in page.split("](#").skip(1).filter_map(|rest| rest.split(')').next()) {
            let heading = |line: &str| line.strip_prefix("## ").map(str::to_lowercase);
            assert!(page.lines().filter_map(heading).any(|name| name == target), "{target}");
        }
    }

    #[test]
    fn every_descriptor_is_explained() {
        let names = PLAIN.iter().map(|(name, _)| (*name).to_owned());
        for name in names.chain(PREFIXES.iter().map(|prefix| format!("{prefix}:"))) {
            assert!(DESCRIPTORS.iter().any(|(known, _)| known.starts_with(&name)), "{name}");
        }
    }
}
