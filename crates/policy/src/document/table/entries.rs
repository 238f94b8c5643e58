//! The tables of routes, tenants, `allow`, `block` and `bursts`.

use tidegate_document::{ObjectShape, SCALAR_BYTES_MAX, Shape, ShapeField, WordShape};

use super::descriptors::CONDITIONS;
use super::http::{METHOD, PATH};
use super::limits::{ANSWERS, ENTRY, KEY, SCOPES};
use super::names::{NAME, OWN_NAME};
use super::terms::{SUSTAINED, TERMS};
use super::{COST_MAX, PENALTY_MAX, RATE_MAX};

pub(super) static ROUTE: ObjectShape = ObjectShape {
    name: "route",
    about: "A route, and what a request to it costs.",
    fields: &[
        &[
            ShapeField::new("path", PATH, "Which paths it matches.")
                .required()
                .also(&["route", "pattern", "url", "match"]),
            ShapeField::new("methods", Shape::OneOrMore(&METHOD), "Which methods it matches.")
                .or("any")
                .also(&["method"]),
            ShapeField::new("upstream", NAME, "Only requests to this upstream; one of `upstreams`.")
                .or("any upstream")
                .also(&["service", "backend"]),
            ShapeField::new(
                "cost",
                Shape::Integer(1, COST_MAX),
                "What a request costs, in place of a limit's fixed cost.",
            )
            .also(&["weight"]),
        ],
        ENTRY,
    ],
    open_fields: None,
    shorthand: Some("path"),
};

pub(super) static TENANT: ObjectShape = ObjectShape {
    name: "tenant",
    about: "A tenant, its position in the tree, and its limit.",
    fields: &[
        &[
            ShapeField::new("id", NAME, "The id that requests name; unique.")
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
    about: "The limit of a tenant, and what it means for the tenants below.",
    fields: &[
        &[
            ShapeField::new(
                "sharing",
                Shape::Word(SHARING),
                "Whether the limit also binds the tenants below.",
            )
            .or("private"),
            ShapeField::new("sustained", Shape::Object(&SUSTAINED), "The rate: how many tokens a window.")
                .or("the lowest rate of the tenants above that bind it"),
            ShapeField::new("budget", Shape::Object(&BUDGET), "Tokens that the tenants below share.")
                .or("none"),
            ShapeField::new(
                "scope",
                Shape::Word(SCOPES),
                "Splits the tenant's own bucket by this descriptor.",
            )
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
    WordShape::new("private", "it does not bind the tenants below"),
    WordShape::new("inherit", "it binds the tenants below"),
    WordShape::new("enforce", "it binds the tenants below"),
];

pub(super) static BUDGET: ObjectShape = ObjectShape {
    name: "budget",
    about: "Tokens that the tenants below share.",
    fields: &[&[
        ShapeField::new("mode", Shape::Word(BUDGET_MODES), "How it is shared.").or("unlimited"),
        ShapeField::new(
            "total",
            Shape::Integer(1, RATE_MAX),
            "How many tokens in each window of this tenant.",
        ),
        ShapeField::new(
            "overcommit_ratio",
            Shape::Decimal(1_000_000, 2_000_000),
            "How many times the total the rates of the tenants below may add up to.",
        )
        .or("1")
        .also(&["overcommit"]),
    ]],
    open_fields: None,
    shorthand: Some("total"),
};

static BUDGET_MODES: &[WordShape] = &[
    WordShape::new("unlimited", "there is no budget").also(&["none"]),
    WordShape::new("allocated", "the rates of the tenants below must fit in it").also(&["allocate"]),
    WordShape::new("shared", "the tenants below take tokens from it, first come, first served")
        .also(&["share", "pool"]),
];

pub(crate) static GATE: ObjectShape = ObjectShape {
    name: "gate",
    about: "An entry of `allow` or `block`: at least one descriptor, all of which must hold.",
    fields: &[
        &[
            ShapeField::new("reason", Shape::Text(SCALAR_BYTES_MAX), "Why the entry is there, for people."),
            ShapeField::new("until", Shape::Instant, "When the entry ends, by RFC 3339.")
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
    about: "A detector of bursts. The first burst of a key leads to a warning, another one while warned to a block for twice the penalty.",
    fields: &[
        &[
            ShapeField::new("name", OWN_NAME, "Its name; unique.").required().also(&["id"]),
            ShapeField::new("key", KEY, "Which requests are counted together; this or `scope` is required.")
                .also(&["keys"]),
            ShapeField::new("scope", Shape::Word(SCOPES), "Short for a `key` of one descriptor."),
            ShapeField::new("window", Shape::Window, "The length of the window, at most 200 years.")
                .or("10s")
                .also(&["per", "period"]),
            ShapeField::new(
                "threshold",
                Shape::Integer(1, 1_000_000),
                "More requests than this in a window are a burst.",
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
