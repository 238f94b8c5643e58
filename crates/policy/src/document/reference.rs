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
aliases and tags. Every problem is reported at once, with its line and a hint. A policy with warnings can be used.

";

/// The meaning of each descriptor.
const DESCRIPTORS: &[(&str, &str)] = &[
    ("tenant", "the tenant that the request belongs to"),
    ("user", "the user"),
    ("client", "the client application"),
    ("ip", "the client's address; also written `ip:address`. In keys, all addresses of an IPv6 /64 are one"),
    ("plan", "the plan of the user or tenant"),
    (
        "upstream",
        "the service that the request goes to: the upstream that the request names, else the first of `upstreams` \
         with a matching host",
    ),
    ("route", "the path pattern of the entry of `routes` that matched; without one, the path"),
    ("method", "the HTTP method"),
    ("host", "the host"),
    ("path", "the path, without the query"),
    ("domain", "the domain that a proxy sends with the request"),
    (
        "credential",
        "`none`, `valid` or `invalid`: the result of verifying the bearer token. `invalid` occurs only with \
         `jwt.invalid: anonymous`; otherwise such requests are denied before any limit",
    ),
    ("header:<name>", "a header; upper and lower case of its name are equal"),
    ("query:<name>", "a parameter of the query"),
    ("jwt:<claim>", "a claim of a verified token"),
    ("descriptor:<name>", "any other descriptor that a proxy sends"),
];

fn notes(page: &mut String) -> std::fmt::Result {
    writeln!(page, "## Descriptors\n\nThe parts of a request that a policy can name.\n")?;
    writeln!(page, "| descriptor | what |\n|---|---|")?;
    for (name, about) in DESCRIPTORS {
        writeln!(page, "| `{name}` | {about} |")?;
    }
    page.push_str(
        "
What a limit does with a request that lacks a descriptor of its key is its `missing`: by default it does not
apply. In `match`, `unless`, `allow` and `block` a
descriptor takes a value, or a list of values of which one must match; all descriptors of one map must match.

## Durations

A whole number and a unit, without a space: `ms`, `s`, `m`, `h` or `d`, as in `250ms`, `30s`, `1h`. Zero is
not allowed. A window is one of the words `second`, `minute`, `hour`, `day`, or a duration of at most 200 years.

## Names

",
    );
    writeln!(
        page,
        "Names of limits, groups, detectors, tenants and upstreams, and the ids of other entries, match"
    )?;
    writeln!(page, "`{NAME_PATTERN}`. Names of limits and")?;
    page.push_str(
        "detectors must not begin with `tenant:`: decisions use that prefix for the limits of tenants.

## Patterns

A path pattern begins with `/`. Its segments are literal, except for three: `*` and `{name}` match any one segment,
and `**` at the end matches any number of segments, including none. `/api/*/items` and `/api/{id}/items` match
`/api/7/items`; `/api/**` matches `/api` and everything below it. Before a path is compared, its query is dropped, empty and dot segments
are resolved, and escapes of characters that need no escape are decoded, so that `//login` becomes `/login`.
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
