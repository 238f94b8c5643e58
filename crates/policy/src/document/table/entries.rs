//! The tables of routes, tenants, `allow`, `block` and `bursts`.

use tidegate_document::{ObjectShape, SCALAR_BYTES_MAX, Shape, ShapeField, WordShape};

use super::descriptors::CONDITIONS;
use super::http::{METHOD, PATH};
use super::limits::{ANSWERS, ENTRY, KEY, SCOPES, SUSTAINED, TERMS};
use super::names::{NAME, OWN_NAME};
use super::{COST_MAX, PENALTY_MAX, RATE_MAX};

pub(super) static ROUTE: ObjectShape = ObjectShape {
    name: "route",
    about: "A route and what a request to it costs.",
    fields: &[
        &[
            ShapeField::new("path", PATH, "Which paths.")
                .required()
                .also(&["route", "pattern", "url", "match"]),
            ShapeField::new("methods", Shape::OneOrMore(&METHOD), "Which methods.")
                .or("any")
                .also(&["method"]),
            ShapeField::new("cost", Shape::Integer(1, COST_MAX), "What replaces a limit's fixed cost.")
                .also(&["weight"]),
        ],
        ENTRY,
    ],
    open_fields: None,
    shorthand: Some("path"),
};

pub(super) static TENANT: ObjectShape = ObjectShape {
    name: "tenant",
    about: "A tenant, its place in the tree, and its limit.",
    fields: &[
        &[
            ShapeField::new("id", NAME, "What requests call it; unique.")
                .required()
                .also(&["name", "tenant"]),
            ShapeField::new("parent", NAME, "The tenant above it.").or("none: it is a root"),
            ShapeField::new("rate_limit", Shape::Object(&RATE_LIMIT), "Its limit.")
                .or("none")
                .also(&["limit", "ratelimit"]),
        ],
        ENTRY,
    ],
    open_fields: None,
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
    open_fields: None,
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
    open_fields: None,
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
            ShapeField::new("reason", Shape::Text(SCALAR_BYTES_MAX), "Why, for people."),
            ShapeField::new("until", Shape::Instant, "When it ends, by RFC 3339.")
                .or("never")
                .also(&["expires", "expires_at"]),
        ],
        ENTRY,
    ],
    open_fields: Some(&CONDITIONS),
    shorthand: Some("ip"),
};

pub(super) static BURST: ObjectShape = ObjectShape {
    name: "detector",
    about: "A detector of bursts: the first offence warns, one while warned blocks for twice the penalty.",
    fields: &[
        &[
            ShapeField::new("name", OWN_NAME, "Its name; unique.").required().also(&["id"]),
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
    open_fields: None,
    shorthand: None,
};
