//! The shapes of descriptors, as values and as fields of `match`, `allow` and `block`.

use tidegate_document::{CustomShape, DocumentNode, OpenFields, Shape, ValueFault, WordShape, nearest};

use crate::Descriptor;
use crate::request::{PLAIN, PREFIXES};

use super::http::{METHOD, PATH};

/// A descriptor that identifies callers.
pub(super) const DESCRIPTOR: Shape = Shape::Custom(&CustomShape {
    check: |node| descriptor(node).map(drop),
    wanted: "a descriptor such as `user` or `header:x-api-key`",
    example: "user",
    json_types: &["string"],
    pattern,
    takes: "a [descriptor](#descriptors): a descriptor such as `user` or `header:x-api-key`",
    takes_list: Some("a list of [descriptors](#descriptors)"),
});

/// A descriptor that holds a number, as a header or a query can. All descriptors are accepted; the examples differ.
pub(super) const NUMBER_SOURCE: Shape = Shape::Custom(&CustomShape {
    check: |node| descriptor(node).map(drop),
    wanted: "a descriptor such as `header:x-cost` or `query:cost`",
    example: "\"header:x-cost\"",
    json_types: &["string"],
    pattern,
    takes: "a [descriptor](#descriptors): a descriptor such as `header:x-cost` or `query:cost`",
    takes_list: None,
});

/// Conditions: every descriptor is a field.
pub(super) static CONDITIONS: OpenFields = OpenFields {
    singular: "a descriptor",
    plural: "descriptors",
    entries: "conditions",
    shape_of: condition,
    suggested: || PLAIN.iter().map(|(name, _)| *name).chain(["methods"]).collect(),
    hint,
    patterns: condition_patterns,
    about: "Every [descriptor](#descriptors) is a field, and `methods` is the same as `method`. `path` takes\n\
            [patterns](#patterns), `ip` addresses and networks, the others values to compare with.",
};

static PATHS: Shape = Shape::OneOrMore(&PATH);
static METHODS: Shape = Shape::OneOrMore(&METHOD);
static NETWORKS: Shape = Shape::OneOrMore(&Shape::Cidr);
static CREDENTIALS: Shape = Shape::OneOrMore(&Shape::Word(CREDENTIAL_WORDS));
static VALUES: Shape = Shape::OneOrMore(&Shape::Scalar);

/// The states of a request's credential.
static CREDENTIAL_WORDS: &[WordShape] = &[
    WordShape::new("none", "the request has no credential").also(&["absent", "anonymous", "missing"]),
    WordShape::new("valid", "the credential was verified").also(&["verified", "ok"]),
    WordShape::new("invalid", "the credential was rejected").also(&["bad", "rejected"]),
];

/// Reads a descriptor.
pub(crate) fn descriptor(node: &DocumentNode) -> Result<Descriptor, ValueFault> {
    let seen = node.scalar().unwrap_or_default();
    Descriptor::parse(seen).ok_or_else(|| ValueFault::not(node, "a descriptor", hint(seen)))
}

/// What a condition on a descriptor takes; `None` if the name is not a descriptor.
fn condition(name: &str) -> Option<&'static Shape> {
    if name == "methods" {
        return Some(&METHODS);
    }
    Some(match Descriptor::parse(name)? {
        Descriptor::Method => &METHODS,
        Descriptor::Path => &PATHS,
        Descriptor::Ip => &NETWORKS,
        Descriptor::Credential => &CREDENTIALS,
        _ => &VALUES,
    })
}

/// The same as regular expressions of names.
fn condition_patterns() -> Vec<(String, &'static Shape)> {
    let special = ["path", "ip", "method", "credential"];
    let others: Vec<&str> =
        PLAIN.iter().map(|(name, _)| *name).filter(|name| !special.contains(name)).collect();
    vec![
        ("^path$".into(), &PATHS),
        ("^ip(:address)?$".into(), &NETWORKS),
        ("^methods?$".into(), &METHODS),
        ("^credential$".into(), &CREDENTIALS),
        (format!("^({}|({}):.+)$", others.join("|"), PREFIXES.join("|")), &VALUES),
    ]
}

/// The regular expression of a descriptor.
fn pattern() -> String {
    let plain: Vec<&str> = PLAIN.iter().map(|(name, _)| *name).collect();
    format!("^({}|ip:address|({}):.+)$", plain.join("|"), PREFIXES.join("|"))
}

/// For a text that is not a descriptor.
fn hint(seen: &str) -> Option<String> {
    let also = [
        ("user_id", "user"),
        ("tenant_id", "tenant"),
        ("client_id", "client"),
        ("api_key", "header:x-api-key"),
        ("remote_address", "ip"),
        ("address", "ip"),
        ("endpoint", "route"),
        ("url", "path"),
    ];
    if let Some((_, meant)) = also.iter().find(|(name, _)| *name == seen) {
        return Some(format!("did you mean `{meant}`?"));
    }
    if let Some((prefix, argument)) = seen.split_once([':', '.', '='])
        && let Some(meant) = nearest(prefix, PREFIXES.iter().copied().chain(["headers"]))
    {
        let meant = meant.trim_end_matches('s');
        let argument = if argument.is_empty() { "<name>" } else { argument };
        return Some(format!("did you mean `{meant}:{argument}`?"));
    }
    if PREFIXES.contains(&seen) {
        return Some(format!("add its name: `{seen}:<name>`"));
    }
    match nearest(seen, PLAIN.iter().map(|(name, _)| *name)) {
        Some(meant) => Some(format!("did you mean `{meant}`?")),
        None => Some("other parts of a request are `header:…`, `query:…`, `jwt:…` and `descriptor:…`".into()),
    }
}
