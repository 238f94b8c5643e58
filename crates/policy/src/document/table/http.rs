//! The shapes of path patterns and HTTP methods.

use tidegate_document::{CustomShape, DocumentNode, Shape, ValueFault};

use crate::Pattern;

/// A pattern of paths.
pub(super) const PATH: Shape = Shape::Custom(&CustomShape {
    check: check_path,
    wanted: "a path such as `/api/{id}/items` or `/api/**`",
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
    json_types: &["string", "number"],
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
    if let Some(meant) = named_segments(seen) {
        return Some(format!("write it as `{meant}`"));
    }
    if seen.contains(['{', '}']) {
        return Some("use `{name}` for one whole segment, and `**` at the end for any depth".into());
    }
    let is_glob = seen.contains("**/")
        || seen.split('/').any(|part| part.len() > 1 && part != "**" && part.contains('*'));
    if is_glob {
        return Some("use `*` for one segment, and `**` at the end for any depth".into());
    }
    let absolute = format!("/{seen}");
    let relative = !seen.is_empty() && !seen.starts_with('/') && !seen.contains("://");
    (relative && Pattern::parse(&absolute).is_ok()).then(|| format!("write it as `{absolute}`"))
}

/// What a path with parameters of other notations means: `:id` and `<id>` are one segment, `{rest...}`, `{*rest}` and
/// `*rest` at the end any depth. `None` if that is not all that is wrong with it.
fn named_segments(seen: &str) -> Option<String> {
    let is_name = |name: &str| {
        !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b))
    };
    let within = |segment: &str, open: char, close: char| -> Option<String> {
        Some(segment.strip_prefix(open)?.strip_suffix(close)?.to_owned())
    };
    let count = seen.split('/').count();
    let meant = seen.split('/').enumerate().map(|(place, segment)| {
        let is_last = place + 1 == count;
        let braced = within(segment, '{', '}').or(within(segment, '<', '>'));
        let rest = braced.as_deref().unwrap_or(segment);
        let deep = rest.strip_prefix('*').or(rest.strip_suffix('*')).or(rest.strip_suffix("..."));
        let name = braced.as_deref().or(segment.strip_prefix(':'));
        match (deep, name) {
            (Some(name), _) if is_last && is_name(name.trim_matches('*')) => "**".to_owned(),
            // `{id:[0-9]+}` has a pattern of its own, which is left out.
            (None, Some(name)) => match name.split(':').next() {
                Some(name) if is_name(name) => format!("{{{name}}}"),
                _ => segment.to_owned(),
            },
            _ => segment.to_owned(),
        }
    });
    let meant = meant.collect::<Vec<_>>().join("/");
    (meant != seen && Pattern::parse(&meant).is_ok()).then_some(meant)
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
