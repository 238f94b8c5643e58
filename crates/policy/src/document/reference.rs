//! The reference page of the policy document.

use std::fmt::Write;

use super::table::{NAME_PATTERN, OBJECTS};

/// The reference page of a policy, in Markdown; the same text every time.
pub fn reference() -> String {
    let mut page = format!("{INTRODUCTION}{}", tidegate_document::reference(OBJECTS));
    notes(&mut page).expect("writing to a String does not fail");
    page
}

const INTRODUCTION: &str = "\
# Policy reference

A policy is one YAML or JSON document. Unknown fields are errors, and so are duplicate keys, anchors,
aliases and tags. Every problem is told at once, with its line and a hint; warnings never stop a policy.

";

/// What each descriptor stands for.
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
    use crate::request::{PLAIN, PREFIXES};

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
