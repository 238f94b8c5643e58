//! The tables: routes, tenants, who is let through or refused, and bursts.

use super::tables::{ANSWERS, ENTRY, KEY, RATE_MAX, SCOPES, SUSTAINED, TERMS};
use super::{ObjectShape, PENALTY_MAX, Shape, ShapeField, TEXT_MAX, WordShape};

pub(crate) static ROUTE: ObjectShape = ObjectShape {
    name: "route",
    about: "A route and what a request to it costs.",
    fields: &[
        &[
            ShapeField::new("path", Shape::Path, "Which paths.")
                .required()
                .also(&["route", "pattern", "url", "match"]),
            ShapeField::new("methods", Shape::OneOrMore(&Shape::Method), "Which methods.")
                .or("any")
                .also(&["method"]),
            ShapeField::new(
                "cost",
                Shape::Integer(1, u32::MAX as u64),
                "What replaces a limit's fixed cost.",
            )
            .also(&["weight"]),
        ],
        ENTRY,
    ],
    descriptors: false,
    shorthand: Some("path"),
};

pub(crate) static TENANT: ObjectShape = ObjectShape {
    name: "tenant",
    about: "A tenant, its place in the tree, and its limit.",
    fields: &[
        &[
            ShapeField::new("id", Shape::Name { reserved: false }, "What requests call it; unique.")
                .required()
                .also(&["name", "tenant"]),
            ShapeField::new("parent", Shape::Name { reserved: false }, "The tenant above it.")
                .or("none: it is a root"),
            ShapeField::new("rate_limit", Shape::Object(&RATE_LIMIT), "Its limit.")
                .or("none")
                .also(&["limit", "ratelimit"]),
        ],
        ENTRY,
    ],
    descriptors: false,
    shorthand: Some("id"),
};

pub(super) static RATE_LIMIT: ObjectShape = ObjectShape {
    name: "rate_limit",
    about: "The limit of a tenant, and what it means for those below.",
    fields: &[
        &[
            ShapeField::new("sharing", Shape::Word(SHARING), "Does it bind the tenants below?").or("private"),
            ShapeField::new("sustained", Shape::Object(&SUSTAINED), "How much, over time.")
                .or("that of the tenants above"),
            ShapeField::new("budget", Shape::Object(&BUDGET), "What the tenants below share.").or("none"),
            ShapeField::new("scope", Shape::Word(SCOPES), "Adds this to the key of the tenant's own bucket.")
                .or("tenant"),
        ],
        TERMS,
        ANSWERS,
        ENTRY,
    ],
    descriptors: false,
    shorthand: None,
};

static SHARING: &[WordShape] = &[
    WordShape::new("private", "hidden from the tenants below"),
    WordShape::new("inherit", "binds the tenants below"),
    WordShape::new("enforce", "binds the tenants below"),
];

pub(super) static BUDGET: ObjectShape = ObjectShape {
    name: "budget",
    about: "What the tenants below share.",
    fields: &[&[
        ShapeField::new("mode", Shape::Word(BUDGET_MODES), "How it is shared.").or("unlimited"),
        ShapeField::new("total", Shape::Integer(1, RATE_MAX), "How much a window of this tenant."),
        ShapeField::new(
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

static BUDGET_MODES: &[WordShape] = &[
    WordShape::new("unlimited", "not at all").also(&["none"]),
    WordShape::new("allocated", "the rates of the tenants below are allotted from it").also(&["allocate"]),
    WordShape::new("shared", "the tenants below draw on it, first come, first served")
        .also(&["share", "pool"]),
];

pub(crate) static GATE: ObjectShape = ObjectShape {
    name: "gate",
    about: "An entry of `allow` or `block`: at least one descriptor, all of which must hold.",
    fields: &[
        &[
            ShapeField::new("reason", Shape::Text(TEXT_MAX), "Why, for people."),
            ShapeField::new("until", Shape::Instant, "When it ends, by RFC 3339.")
                .or("never")
                .also(&["expires", "expires_at"]),
        ],
        ENTRY,
    ],
    descriptors: true,
    shorthand: Some("ip"),
};

pub(crate) static BURST: ObjectShape = ObjectShape {
    name: "detector",
    about: "A detector of bursts: the first offence warns, one while warned blocks for twice the penalty.",
    fields: &[
        &[
            ShapeField::new("name", Shape::Name { reserved: true }, "Its name; unique.")
                .required()
                .also(&["id"]),
            ShapeField::new("key", KEY, "Whose requests are counted together; this or `scope` is required.")
                .also(&["keys"]),
            ShapeField::new("scope", Shape::Word(SCOPES), "Short for a `key` of one descriptor."),
            ShapeField::new("window", Shape::Window, "How long it counts, at most 200 years.")
                .or("10s")
                .also(&["per", "period"]),
            ShapeField::new(
                "threshold",
                Shape::Integer(1, 1_000_000),
                "More than that in a window is a burst.",
            )
            .or("50"),
            ShapeField::new(
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
