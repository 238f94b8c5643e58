//! The shapes of path patterns and HTTP methods.

use tidegate_document::{CustomShape, DocumentNode, Shape, ValueFault};

use crate::Pattern;

/// A pattern of paths.
pub(super) const PATH: Shape = Shape::Custom(&CustomShape {
    check: check_path,
    wanted: "a path such as `/api/*/items` or `/api/**`",
    example: "/api/**",
    json_types: &["string"],
    pattern: || "^/[^?#]*$".to_owned(),
    takes: "a path [pattern](#patterns)",
    takes_list: None,
});

/// An HTTP method, in upper case.
pub(super) const METHOD: Shape = Shape::Custom(&CustomShape {
    check: check_method,
    wanted: "a method in upper case, such as `GET`",
    example: "GET",
    json_types: &["string"],
    pattern: || "^[A-Z0-9_-]{1,32}$".to_owned(),
    takes: "a method in upper case, such as `GET`",
    takes_list: None,
});

/// The longest method.
const METHOD_MAX: usize = 32;

fn check_path(node: &DocumentNode) -> Result<(), ValueFault> {
    let Some(seen) = node.scalar() else { return Err(ValueFault::not(node, "a path", None)) };
    let fault = |error| ValueFault::not(node, &format!("a path: {error}"), path_hint(seen));
    Pattern::parse(seen).map(drop).map_err(fault)
}

/// For a text that is not a path.
fn path_hint(seen: &str) -> Option<String> {
    let is_glob = seen.contains("**/")
        || seen.split('/').any(|part| part.len() > 1 && part != "**" && part.contains('*'));
    if is_glob {
        return Some("use `*` for one segment, and `**` at the end for any depth".into());
    }
    let absolute = format!("/{seen}");
    let relative = !seen.is_empty() && !seen.starts_with('/') && !seen.contains("://");
    (relative && Pattern::parse(&absolute).is_ok()).then(|| format!("write it as `{absolute}`"))
}

fn check_method(node: &DocumentNode) -> Result<(), ValueFault> {
    let seen = node.scalar().unwrap_or_default();
    if is_method(seen) {
        return Ok(());
    }
    let upper = seen.to_ascii_uppercase();
    let hint = match seen {
        "*" | "any" | "ANY" | "all" => Some("leave it out to match every method".to_owned()),
        _ => is_method(&upper).then(|| format!("write it in upper case: `{upper}`")),
    };
    Err(ValueFault::not(node, "a method", hint))
}

fn is_method(text: &str) -> bool {
    (1..=METHOD_MAX).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b"-_".contains(&b))
}
