//! The tables of what a limit and a tenant's rate limit share: the algorithm, its numbers, costs and strategies.

use tidegate_document::{ObjectShape, Shape, ShapeField, WordShape};

use super::descriptors::NUMBER_SOURCE;
use super::names::NAME;
use super::{COST_MAX, RATE_MAX, WAIT_MAX};

/// Fields that a limit and a tenant's rate limit share.
pub(super) static TERMS: &[ShapeField] = &[
    ShapeField::new("algorithm", Shape::Word(ALGORITHMS), "How it counts.")
        .or("token_bucket")
        .also(&["type"]),
    ShapeField::new(
        "burst",
        Shape::Object(&BURST_SIZE),
        "How many tokens may be taken at once; for token buckets only.",
    )
    .or("the rate"),
    ShapeField::new("preset", Shape::Word(PRESETS), "A common burst, in place of `burst`."),
    ShapeField::new(
        "carry",
        Shape::Word(CARRY),
        "What happens to the tokens of a bucket when its numbers are edited.",
    )
    .or("as_is"),
    ShapeField::new("cost", Shape::ObjectOr(&COST, &Shape::Integer(1, COST_MAX)), "What a request costs.")
        .or("1")
        .also(&["weight"]),
    ShapeField::new("strategy", Shape::Word(STRATEGIES), "What happens to a request beyond the limit.")
        .or("reject"),
    ShapeField::new("queue", Shape::Object(&QUEUE), "How requests wait, with `strategy: queue`."),
    ShapeField::new("degrade", Shape::Object(&DEGRADE), "How requests are marked, with `strategy: degrade`."),
];

pub(super) static SUSTAINED: ObjectShape = ObjectShape {
    name: "sustained",
    about: "A rate: how many tokens a window.",
    fields: &[&[
        ShapeField::new("rate", Shape::Integer(1, RATE_MAX), "How many tokens a window.")
            .required()
            .also(&["limit", "requests", "count", "tokens", "max", "rps"]),
        ShapeField::new("window", Shape::Window, "How long the window is, at most 200 years.")
            .or("second")
            .also(&["per", "period", "interval", "duration", "unit", "every"]),
    ]],
    open_fields: None,
    shorthand: Some("rate"),
};

pub(super) static BURST_SIZE: ObjectShape = ObjectShape {
    name: "burst",
    about: "How many tokens may be taken at once: one of the two fields, or the rate without them.",
    fields: &[&[
        ShapeField::new("capacity", Shape::Integer(1, COST_MAX), "This many.")
            .also(&["size", "max", "tokens", "limit"]),
        ShapeField::new(
            "allowance",
            Shape::Decimal(1, 1_000_000_000),
            "This many times the rate, rounded down.",
        )
        .also(&["factor", "multiplier", "burst_allowance"]),
    ]],
    open_fields: None,
    shorthand: Some("capacity"),
};

pub(super) static COST: ObjectShape = ObjectShape {
    name: "cost",
    about: "A cost that is read from the request.",
    fields: &[&[
        ShapeField::new(
            "from",
            NUMBER_SOURCE,
            "Which part of the request has the cost: usually a header or a query parameter.",
        )
        .required(),
        ShapeField::new(
            "default",
            Shape::Integer(1, COST_MAX),
            "The cost if that part is not a whole number above 0.",
        )
        .or("1"),
        ShapeField::new(
            "max",
            Shape::Integer(1, COST_MAX),
            "The highest cost; higher ones are lowered to it.",
        )
        .or("4294967295"),
    ]],
    open_fields: None,
    shorthand: Some("from"),
};

pub(super) static QUEUE: ObjectShape = ObjectShape {
    name: "queue",
    about: "How requests wait for tokens.",
    fields: &[&[
        ShapeField::new("max_depth", Shape::Integer(1, 10_000), "How many requests may wait for one bucket.")
            .or("100")
            .also(&["depth", "size"]),
        ShapeField::new(
            "max_wait",
            Shape::Duration(WAIT_MAX),
            "How long a request may wait, at most an hour.",
        )
        .or("2s")
        .also(&["timeout", "wait"]),
    ]],
    open_fields: None,
    shorthand: Some("max_depth"),
};

pub(super) static DEGRADE: ObjectShape = ObjectShape {
    name: "degrade",
    about: "How requests beyond the limit are marked.",
    fields: &[&[ShapeField::new("tag", NAME, "The tag that decisions have.").or("degraded")]],
    open_fields: None,
    shorthand: Some("tag"),
};

static ALGORITHMS: &[WordShape] = &[
    WordShape::new("token_bucket", "a sustained rate with bursts").also(&["gcra", "leaky_bucket", "bucket"]),
    WordShape::new(
        "sliding_window",
        "a count over the last window, estimated from the current and the previous one",
    )
    .also(&["sliding"]),
    WordShape::new("sliding_log", "an exact count over the last window; it stores every admitted request")
        .also(&["log"]),
    WordShape::new("fixed_window", "a counter per window").also(&["fixed", "window", "counter"]),
];

static PRESETS: &[WordShape] = &[
    WordShape::new("interactive", "a burst of five times the rate"),
    WordShape::new("strict", "a burst of the rate"),
    WordShape::new("batch", "a burst of ten times the rate"),
    WordShape::new("llm_tools", "a burst of the rate; the cost must come from the request").also(&["llm"]),
];

static CARRY: &[WordShape] = &[
    WordShape::new("as_is", "keeps the tokens, up to the new capacity").also(&["keep"]),
    WordShape::new("proportional", "keeps the filled fraction of the capacity, rounded down"),
    WordShape::new("reset", "fills the bucket").also(&["restart"]),
];

static STRATEGIES: &[WordShape] = &[
    WordShape::new("reject", "it is denied").also(&["deny", "block", "refuse"]),
    WordShape::new("queue", "it waits for tokens, within the limits of `queue`").also(&["wait", "delay"]),
    WordShape::new("degrade", "it is admitted and marked with a tag").also(&["tag", "mark"]),
];
