//! The tables of routes, `allow`, `block` and `bursts`.

use tidegate_document::{ObjectShape, SCALAR_BYTES_MAX, Shape, ShapeField};

use super::descriptors::CONDITIONS;
use super::http::{METHOD, PATH};
use super::limits::{ENTRY, KEY, MATCH, SCOPES};
use super::names::{NAME, OWN_NAME};
use super::{COST_MAX, PENALTY_MAX};

/// The id of an entry that has no name of its own.
const ID: ShapeField = ShapeField::new(
    "id",
    NAME,
    "Its id, by which tools name the entry; unique in its list. It changes no decision.",
)
.or("a hash of its content");

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
                "unless",
                Shape::Object(&MATCH),
                "Which of these requests it does not match: those for which all of these conditions hold.",
            )
            .or("none")
            .also(&["except", "exclude", "not", "without"]),
            ShapeField::new(
                "cost",
                Shape::Integer(1, COST_MAX),
                "What a request costs, in place of a limit's `cost: <number>`.",
            )
            .also(&["weight"]),
            ID,
        ],
        ENTRY,
    ],
    open_fields: None,
    shorthand: Some("path"),
};

pub(crate) static GATE: ObjectShape = ObjectShape {
    name: "gate",
    about: "An entry of `allow` or `block`: at least one descriptor, all of which must hold.",
    fields: &[
        &[
            ShapeField::new("reason", Shape::Text(SCALAR_BYTES_MAX), "Why the entry is there, for people."),
            ShapeField::new("until", Shape::Instant, "When the entry ends, by RFC 3339.")
                .or("never")
                .also(&["expires", "expires_at"]),
            ID,
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
