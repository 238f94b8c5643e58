//! The tables of `upstreams`, and the shape of a pattern of hosts.

use tidegate_document::{CustomShape, DocumentNode, ObjectShape, Shape, ShapeField, ValueFault};

use crate::HostPattern;

use super::limits::ENTRY;
use super::names::NAME;
use super::{COST_MAX, RATE_MAX};

pub(super) static UPSTREAM: ObjectShape = ObjectShape {
    name: "upstream",
    about: "A service that requests go to. A request belongs to the upstream that it names itself, else to the first one with a matching host.",
    fields: &[
        &[
            ShapeField::new("name", NAME, "Its name, the value of the descriptor `upstream`; unique.")
                .required()
                .also(&["id"]),
            ShapeField::new(
                "hosts",
                Shape::OneOrMore(&HOST),
                "The hosts of requests that go to it; case and port are ignored.",
            )
            .or("none: requests name it themselves")
            .also(&["host", "domains", "server_names"]),
            ShapeField::new(
                "absorbs",
                Shape::Object(&ABSORBS),
                "What it can take. `validate` warns if the limits do not keep all requests to it within that.",
            ),
        ],
        ENTRY,
    ],
    open_fields: None,
    shorthand: Some("name"),
};

pub(super) static ABSORBS: ObjectShape = ObjectShape {
    name: "absorbs",
    about: "How many requests an upstream can take, or the service behind the requests of a limit. It limits nothing itself.",
    fields: &[&[
        ShapeField::new("rate", Shape::Integer(1, RATE_MAX), "How many a second.").required().also(&["rps"]),
        ShapeField::new(
            "burst",
            Shape::Integer(1, COST_MAX),
            "How many at once; without it, as many as in a second.",
        ),
    ]],
    open_fields: None,
    shorthand: Some("rate"),
};

/// A pattern of hosts.
const HOST: Shape = Shape::Custom(&CustomShape {
    check: check_host,
    wanted: "a host such as `api.example.com` or `*.example.com`",
    example: "api.example.com",
    json_types: &["string", "number", "boolean"],
    pattern: || r"^((\*\.)?[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*\.?|\[[0-9A-Fa-f:.]+\])$".to_owned(),
    takes: "a host such as `api.example.com`, or `*.example.com` for all hosts below it",
    takes_list: Some("hosts such as `api.example.com`, or `*.example.com` for all hosts below it"),
});

fn check_host(node: &DocumentNode) -> Result<(), ValueFault> {
    let Some(seen) = node.scalar() else { return Err(ValueFault::not(node, "a host", None)) };
    let fault = |error| ValueFault::not(node, &format!("a host: {error}"), host_hint(seen));
    HostPattern::parse(seen).map(drop).map_err(fault)
}

/// For a text that is not a pattern of hosts.
fn host_hint(seen: &str) -> Option<String> {
    if seen == "*" {
        return Some("leave the entry out: limits without `upstream` apply to every host".into());
    }
    // `https://api.example.com:443/v1` means its host.
    let after_scheme = seen.split_once("://").map_or(seen, |(_, rest)| rest);
    let host = after_scheme.split(['/', '?', '#']).next().unwrap_or_default();
    let host = HostPattern::without_port(host);
    let below = host.split_once('*').map(|(_, rest)| format!("*.{}", rest.trim_start_matches(['*', '.'])));
    let meant = below.unwrap_or_else(|| host.trim_start_matches('.').to_owned());
    (meant != seen && HostPattern::parse(&meant).is_ok()).then(|| format!("write it as `{meant}`"))
}
