//! The shape of names: of limits, groups, detectors, tenants, and ids of other entries.

use tidegate_document::{CustomShape, DocumentNode, Shape, ValueFault};

/// The pattern of names, for the schema and the reference page.
pub(crate) const NAME_PATTERN: &str = "[A-Za-z0-9._:/-]{1,128}";
/// The longest name.
const NAME_MAX: usize = 128;
/// The id of the entry that stands for every tenant that is not listed.
pub(crate) const UNLISTED: &str = "*";
/// In decisions, the names of tenants' limits begin with this.
pub const TENANT_PREFIX: &str = "tenant:";

/// Any name.
pub(super) const NAME: Shape = Shape::Custom(&CustomShape {
    check: check_name,
    wanted: "a name: [A-Za-z0-9._:/-]{1,128}",
    example: "per-user",
    json_types: &["string", "number", "boolean"],
    pattern: || format!("^{NAME_PATTERN}$"),
    takes: "a [name](#names)",
    takes_list: None,
});

/// The id of a tenant: a name, or `*` for every tenant that is not listed.
pub(super) const TENANT_ID: Shape = Shape::Custom(&CustomShape {
    check: |node| match node.scalar() {
        Some(UNLISTED) => Ok(()),
        _ => check_name(node),
    },
    wanted: "a name: [A-Za-z0-9._:/-]{1,128}, or `*` for every tenant that is not listed",
    example: "acme",
    json_types: &["string", "number", "boolean"],
    pattern: || format!("^({NAME_PATTERN}|\\*)$"),
    takes: "a [name](#names), or `*` for every tenant that is not listed",
    takes_list: None,
});

/// The id of a tenant that is listed.
pub(super) const LISTED_TENANT: Shape = Shape::Custom(&CustomShape {
    check: |node| match node.scalar() {
        Some(UNLISTED) => {
            let hint =
                "`*` stands for all tenants that are not listed, so no tenant is below it: name a listed one";
            Err(ValueFault::new("`*` is not a listed tenant".to_owned(), Some(hint.to_owned())))
        }
        _ => check_name(node),
    },
    wanted: "the `id` of a tenant",
    example: "acme",
    json_types: &["string", "number", "boolean"],
    pattern: || format!("^{NAME_PATTERN}$"),
    takes: "the `id` of a tenant, a [name](#names)",
    takes_list: None,
});

/// The name of a limit or a detector, which must not look like that of a tenant's limit.
pub(super) const OWN_NAME: Shape = Shape::Custom(&CustomShape {
    check: check_own_name,
    wanted: "a name: [A-Za-z0-9._:/-]{1,128}",
    example: "per-user",
    json_types: &["string", "number", "boolean"],
    pattern: || format!("^(?!{TENANT_PREFIX}){NAME_PATTERN}$"),
    takes: "a [name](#names)",
    takes_list: None,
});

fn check_name(node: &DocumentNode) -> Result<(), ValueFault> {
    match node.scalar() {
        Some(text) if is_name(text) => Ok(()),
        Some(text) => Err(ValueFault::not(node, "a name", hint(text))),
        None => Err(ValueFault::not(node, "a name", None)),
    }
}

fn check_own_name(node: &DocumentNode) -> Result<(), ValueFault> {
    check_name(node)?;
    match node.scalar() {
        Some(text) if text.starts_with(TENANT_PREFIX) => {
            let hint =
                format!("names that begin with `{TENANT_PREFIX}` belong to tenants' limits: choose another");
            Err(ValueFault::new(format!("the name {} is reserved", node.quoted()), Some(hint)))
        }
        _ => Ok(()),
    }
}

/// Can limits, groups, tenants and detectors have this name?
pub(super) fn is_name(text: &str) -> bool {
    let is_allowed = |b: u8| b.is_ascii_alphanumeric() || b"._:/-".contains(&b);
    (1..=NAME_MAX).contains(&text.len()) && text.bytes().all(is_allowed)
}

/// For a text that is not a name.
fn hint(seen: &str) -> Option<String> {
    if seen.len() > NAME_MAX {
        return Some(format!("use at most {NAME_MAX} characters"));
    }
    let meant: String =
        seen.trim().chars().map(|c| if is_name(c.encode_utf8(&mut [0; 4])) { c } else { '-' }).collect();
    (!meant.is_empty() && meant.chars().any(char::is_alphanumeric)).then(|| format!("for instance `{meant}`"))
}
