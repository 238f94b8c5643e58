//! The tables: routes, tenants, who is let through or refused, and bursts.

use super::tables::{ANSWERS, ENTRY, KEY, RATE_MAX, SCOPES, SUSTAINED, TERMS};
use super::{Field, Object, PENALTY_MAX, Shape, TEXT_MAX, Word};

pub(crate) static ROUTE: Object = Object {
    name: "route",
    about: "A route and what a request to it costs.",
    fields: &[
        &[
            Field::new("path", Shape::Path, "Which paths.")
                .required()
                .also(&["route", "pattern", "url", "match"]),
            Field::new("methods", Shape::OneOrMore(&Shape::Method), "Which methods.")
                .or("any")
                .also(&["method"]),
            Field::new("cost", Shape::Integer(1, u32::MAX as u64), "What replaces a limit's fixed cost.")
                .also(&["weight"]),
        ],
        ENTRY,
    ],
    descriptors: false,
    shorthand: Some("path"),
};

pub(crate) static TENANT: Object = Object {
    name: "tenant",
    about: "A tenant, its place in the tree, and its limit.",
    fields: &[
        &[
            Field::new("id", Shape::Name { reserved: false }, "What requests call it; unique.")
                .required()
                .also(&["name", "tenant"]),
            Field::new("parent", Shape::Name { reserved: false }, "The tenant above it.")
                .or("none: it is a root"),
            Field::new("rate_limit", Shape::Object(&RATE_LIMIT), "Its limit.")
                .or("none")
                .also(&["limit", "ratelimit"]),
        ],
        ENTRY,
    ],
    descriptors: false,
    shorthand: Some("id"),
};

pub(super) static RATE_LIMIT: Object = Object {
    name: "rate_limit",
    about: "The limit of a tenant, and what it means for those below.",
    fields: &[
        &[
            Field::new("sharing", Shape::Word(SHARING), "Does it bind the tenants below?").or("private"),
            Field::new("sustained", Shape::Object(&SUSTAINED), "How much, over time.")
                .or("that of the tenants above"),
            Field::new("budget", Shape::Object(&BUDGET), "What the tenants below share.").or("none"),
            Field::new("scope", Shape::Word(SCOPES), "Adds this to the key of the tenant's own bucket.")
                .or("tenant"),
        ],
        TERMS,
        ANSWERS,
        ENTRY,
    ],
    descriptors: false,
    shorthand: None,
};

static SHARING: &[Word] = &[
    Word::new("private", "hidden from the tenants below"),
    Word::new("inherit", "binds the tenants below"),
    Word::new("enforce", "binds the tenants below"),
];

pub(super) static BUDGET: Object = Object {
    name: "budget",
    about: "What the tenants below share.",
    fields: &[&[
        Field::new("mode", Shape::Word(BUDGET_MODES), "How it is shared.").or("unlimited"),
        Field::new("total", Shape::Integer(1, RATE_MAX), "How much a window of this tenant."),
        Field::new(
            "overcommit_ratio",
            Shape::Decimal(1_000_000, 2_000_000),
            "How many times it may be allotted.",
        )
        .or("1")
        .also(&["overcommit"]),
    ]],
    descriptors: false,
    shorthand: Some("total"),
};

static BUDGET_MODES: &[Word] = &[
    Word::new("unlimited", "not at all").also(&["none"]),
    Word::new("allocated", "the rates of the tenants below are allotted from it").also(&["allocate"]),
    Word::new("shared", "the tenants below draw on it, first come, first served").also(&["share", "pool"]),
];

pub(crate) static GATE: Object = Object {
    name: "gate",
    about: "An entry of `allow` or `block`: at least one descriptor, all of which must hold.",
    fields: &[
        &[
            Field::new("reason", Shape::Text(TEXT_MAX), "Why, for people."),
            Field::new("until", Shape::Instant, "When it ends, by RFC 3339.")
                .or("never")
                .also(&["expires", "expires_at"]),
        ],
        ENTRY,
    ],
    descriptors: true,
    shorthand: Some("ip"),
};

pub(crate) static BURST: Object = Object {
    name: "detector",
    about: "A detector of bursts: the first offence warns, one while warned blocks for twice the penalty.",
    fields: &[
        &[
            Field::new("name", Shape::Name { reserved: true }, "Its name; unique.").required().also(&["id"]),
            Field::new("key", KEY, "Whose requests are counted together; this or `scope` is required.")
                .also(&["keys"]),
            Field::new("scope", Shape::Word(SCOPES), "Short for a `key` of one descriptor."),
            Field::new("window", Shape::Window, "How long it counts, at most 200 years.")
                .or("10s")
                .also(&["per", "period"]),
            Field::new("threshold", Shape::Integer(1, 1_000_000), "More than that in a window is a burst.")
                .or("50"),
            Field::new(
                "penalty",
                Shape::Duration(PENALTY_MAX),
                "How long a warning lasts, at most 366 days.",
            )
            .or("300s")
            .also(&["block_for", "ban"]),
        ],
        ENTRY,
    ],
    descriptors: false,
    shorthand: None,
};
