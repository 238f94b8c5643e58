//! The tables of tenants.

use tidegate_document::{ObjectShape, OpenFields, Shape, ShapeField, WordShape};

use super::RATE_MAX;
use super::limits::{ANSWERS, ENTRY, SCOPES};
use super::names::{LISTED_TENANT, NAME_PATTERN, TENANT_ID, is_name};
use super::terms::{SUSTAINED, TERMS};

pub(super) static TENANT: ObjectShape = ObjectShape {
    name: "tenant",
    about: "A tenant, its position in the tree, and its limit.",
    fields: &[
        &[
            ShapeField::new(
                "id",
                TENANT_ID,
                "The id that requests name; unique. The entry `*` applies to every tenant that is not listed; each of \
                 them has a bucket of its own.",
            )
            .required()
            .also(&["name", "tenant"]),
            ShapeField::new("parent", LISTED_TENANT, "The tenant above it.").or("none: it is a root"),
            ShapeField::new("rate_limit", Shape::Object(&RATE_LIMIT), "Its limit.")
                .or("none")
                .also(&["limit", "ratelimit"]),
            ShapeField::new(
                "upstreams",
                Shape::Object(&UPSTREAM_LIMITS),
                "Further limits, each for its requests to one upstream.",
            )
            .or("none"),
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
            "How many tokens in each window of this tenant. It caps the rate, not the burst.",
        ),
        ShapeField::new(
            "overcommit_ratio",
            Shape::Decimal(1_000_000, 2_000_000),
            "How many times the total the rates of the tenants below may add up to.",
        )
        .or("1")
        .also(&["overcommit"]),
        ShapeField::new(
            "remainder",
            Shape::Word(REMAINDERS),
            "Who gets what an allocated budget has left after the rates of the tenants below.",
        )
        .or("shared"),
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

static REMAINDERS: &[WordShape] = &[
    WordShape::new(
        "shared",
        "the tenants directly below that have no rate of their own share one bucket of it",
    )
    .also(&["share", "pool"]),
    WordShape::new("reserve", "nobody; every tenant directly below must have a rate of its own")
        .also(&["reserved", "none"]),
];

pub(super) static UPSTREAM_LIMITS: ObjectShape = ObjectShape {
    name: "tenant_upstreams",
    about: "The limits of a tenant for its requests to single upstreams. They apply beside `rate_limit`, and bind the \
            tenants below in the same way, each within its upstream.",
    fields: &[],
    open_fields: Some(&OpenFields {
        singular: "an upstream",
        plural: "upstreams",
        entries: "upstreams",
        shape_of: |name| is_name(name).then_some(&UPSTREAM),
        suggested: Vec::new,
        hint: |_| Some("write the name of an entry of `upstreams`".to_owned()),
        patterns: || vec![(format!("^{NAME_PATTERN}$"), &UPSTREAM)],
        about: "Every name in the `upstreams` of the policy is a field.",
    }),
    shorthand: None,
};

static UPSTREAM: Shape = Shape::Object(&UPSTREAM_LIMIT);

pub(super) static UPSTREAM_LIMIT: ObjectShape = ObjectShape {
    name: "tenant_upstream",
    about: "The limit of a tenant for its requests to one upstream.",
    fields: &[&[ShapeField::new("rate_limit", Shape::Object(&RATE_LIMIT), "The limit.")
        .required()
        .also(&["limit", "ratelimit"])]],
    open_fields: None,
    shorthand: None,
};
