//! The tables of the document itself, its defaults, and limits.

use tidegate_document::{ObjectShape, Shape, ShapeField, WordShape};

use super::descriptors::{CONDITIONS, DESCRIPTOR, NUMBER_SOURCE};
use super::entries::{BURST, GATE, ROUTE, TENANT};
use super::names::{NAME, OWN_NAME};
use super::{COST_MAX, DESCRIPTION_MAX, RATE_MAX, WAIT_MAX};

pub(crate) static POLICY: ObjectShape = ObjectShape {
    name: "policy",
    about: "The whole document.",
    fields: &[&[
        ShapeField::new("version", Shape::Integer(1, 1), "The version of this format.").required(),
        ShapeField::new("defaults", Shape::Object(&DEFAULTS), "What entries that do not say otherwise get."),
        ShapeField::new("limits", Shape::List(&Shape::Object(&LIMIT)), "The limits.").or("[]").also(&[
            "rules",
            "rate_limits",
            "ratelimits",
            "limit",
        ]),
        ShapeField::new(
            "routes",
            Shape::List(&Shape::Object(&ROUTE)),
            "Costs by route; the first match counts.",
        )
        .or("[]"),
        ShapeField::new("tenants", Shape::List(&Shape::Object(&TENANT)), "The tenants and their budgets.")
            .or("[]"),
        ShapeField::new("allow", Shape::List(&Shape::Object(&GATE)), "Who bypasses every limit.")
            .or("[]")
            .also(&["allowlist", "allow_list", "whitelist", "bypass"]),
        ShapeField::new(
            "block",
            Shape::List(&Shape::Object(&GATE)),
            "Who is refused before any limit is asked.",
        )
        .or("[]")
        .also(&["blocklist", "block_list", "denylist", "deny", "blacklist"]),
        ShapeField::new("bursts", Shape::List(&Shape::Object(&BURST)), "Detectors of bursts.").or("[]"),
        ShapeField::new("adaptive", Shape::Object(&ADAPTIVE), "Limits that follow the trust in a client."),
    ]],
    open_fields: None,
    shorthand: None,
};

pub(super) static DEFAULTS: ObjectShape = ObjectShape {
    name: "defaults",
    about: "What holds for limits that do not say otherwise.",
    fields: &[
        ANSWERS,
        &[ShapeField::new(
            "unknown_tenant",
            Shape::Word(UNKNOWN_TENANT),
            "What happens to a tenant that `tenants` does not list.",
        )
        .or("allow")],
        &[ShapeField::new(
            "paths",
            Shape::Object(&PATHS),
            "Which spellings of a path are one path, for all limits, routes and gates.",
        )],
    ],
    open_fields: None,
    shorthand: None,
};

pub(super) static PATHS: ObjectShape = ObjectShape {
    name: "paths",
    about: "Spellings of a path that are one path, in requests and in patterns, beside those that always are: the query \
            is dropped, unreserved characters are decoded, empty and dot segments are resolved. Ask for what the \
            upstream does itself: otherwise another spelling of a path evades a limit by path.",
    fields: &[&[
        ShapeField::new("ignore_case", Shape::Flag, "Letters compare without case, in all languages.")
            .or("false"),
        ShapeField::new("decode_slash", Shape::Flag, "`%2F`, `%5C` and a backslash are slashes.").or("false"),
        ShapeField::new("strip_params", Shape::Flag, "`;x=y` at the end of a segment is no part of it.")
            .or("false"),
    ]],
    open_fields: None,
    shorthand: None,
};

static UNKNOWN_TENANT: &[WordShape] = &[
    WordShape::new("allow", "it has no tenant limits, and is counted").also(&["open", "ignore"]),
    WordShape::new("deny", "its requests are refused").also(&["block", "reject", "closed"]),
];

pub(super) static LIMIT: ObjectShape = ObjectShape {
    name: "limit",
    about: "One limit: whom it counts, how much they may, and what happens beyond.",
    fields: &[
        &[
            ShapeField::new("name", OWN_NAME, "Its name; unique. Its counters belong to it.")
                .required()
                .also(&["id"]),
            ShapeField::new("group", NAME, "Of the limits in a group the first that matches applies.")
                .or("a group of its own"),
            ShapeField::new(
                "match",
                Shape::Object(&MATCH),
                "Which requests it is for; all conditions must hold.",
            )
            .or("every request")
            .also(&["when", "if", "where", "matches"]),
            ShapeField::new("key", KEY, "What gets a bucket of its own; `[]` is one bucket for all.")
                .also(&["keys", "by"]),
            ShapeField::new("scope", Shape::Word(SCOPES), "Short for a `key` of one descriptor."),
            ShapeField::new("sustained", Shape::Object(&SUSTAINED), "How much, over time.")
                .required()
                .also(&["limit"]),
        ],
        TERMS,
        ANSWERS,
        ENTRY,
    ],
    open_fields: None,
    shorthand: None,
};

/// Fields that every entry of a list has.
pub(super) static ENTRY: &[ShapeField] = &[
    ShapeField::new("description", Shape::Text(DESCRIPTION_MAX), "A remark for people.")
        .also(&["comment", "note"]),
    ShapeField::new("enabled", Shape::Flag, "Does the entry count?").or("true").also(&["active"]),
];

/// Fields that a limit and a tenant's rate limit share.
pub(super) static TERMS: &[ShapeField] = &[
    ShapeField::new("algorithm", Shape::Word(ALGORITHMS), "How it counts.")
        .or("token_bucket")
        .also(&["type"]),
    ShapeField::new("burst", Shape::Object(&BURST_SIZE), "How much at once; for token buckets.")
        .or("the rate"),
    ShapeField::new("preset", Shape::Word(PRESETS), "A usual burst, instead of `burst`."),
    ShapeField::new("carry", Shape::Word(CARRY), "What becomes of the tokens when the numbers are edited.")
        .or("as_is"),
    ShapeField::new("cost", Shape::ObjectOr(&COST, &Shape::Integer(1, COST_MAX)), "What a request costs.")
        .or("1")
        .also(&["weight"]),
    ShapeField::new("strategy", Shape::Word(STRATEGIES), "What happens to a request beyond the limit.")
        .or("reject"),
    ShapeField::new("queue", Shape::Object(&QUEUE), "How requests wait, with `strategy: queue`."),
    ShapeField::new("degrade", Shape::Object(&DEGRADE), "How requests are marked, with `strategy: degrade`."),
];

/// Fields that a limit and the defaults share.
pub(super) static ANSWERS: &[ShapeField] = &[
    ShapeField::new("mode", Shape::Word(MODES), "Does it refuse, or only watch?").or("enforce"),
    ShapeField::new(
        "headers",
        Shape::OneOrMore(&Shape::Word(FAMILIES)),
        "Which families of headers answers carry.",
    )
    .or("[x-ratelimit]"),
    ShapeField::new("response_headers", Shape::Flag, "`false` removes all headers but `Retry-After`.")
        .or("true"),
    ShapeField::new(
        "retry_jitter",
        Shape::Decimal(0, 500_000),
        "The share that may be added to `Retry-After`.",
    )
    .or("0"),
    ShapeField::new(
        "on_store_error",
        Shape::Word(STORE_ERRORS),
        "What happens while the store cannot be reached.",
    )
    .or("local")
    .also(&["on_error", "fallback_on_error", "fail_mode"]),
];

pub(super) static MATCH: ObjectShape = ObjectShape {
    name: "match",
    about: "Conditions on a request: each names a descriptor and a value, or a list of which any will do.",
    fields: &[],
    open_fields: Some(&CONDITIONS),
    shorthand: Some("path"),
};

pub(super) static SUSTAINED: ObjectShape = ObjectShape {
    name: "sustained",
    about: "A rate: so much a window.",
    fields: &[&[
        ShapeField::new("rate", Shape::Integer(1, RATE_MAX), "How much a window.")
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
    about: "How much may be taken at once: one of the two fields; the rate without them.",
    fields: &[&[
        ShapeField::new("capacity", Shape::Integer(1, COST_MAX), "That much.")
            .also(&["size", "max", "tokens", "limit"]),
        ShapeField::new(
            "allowance",
            Shape::Decimal(1, 1_000_000_000),
            "That many times the rate, rounded down.",
        )
        .also(&["factor", "multiplier", "burst_allowance"]),
    ]],
    open_fields: None,
    shorthand: Some("capacity"),
};

pub(super) static COST: ObjectShape = ObjectShape {
    name: "cost",
    about: "A cost that the request names itself.",
    fields: &[&[
        ShapeField::new("from", NUMBER_SOURCE, "Where it stands: usually a header or a query.").required(),
        ShapeField::new(
            "default",
            Shape::Integer(1, COST_MAX),
            "What counts if that is no whole number above 0.",
        )
        .or("1"),
        ShapeField::new("max", Shape::Integer(1, COST_MAX), "The most that counts.").or("4294967295"),
    ]],
    open_fields: None,
    shorthand: Some("from"),
};

pub(super) static QUEUE: ObjectShape = ObjectShape {
    name: "queue",
    about: "How requests wait for tokens.",
    fields: &[&[
        ShapeField::new("max_depth", Shape::Integer(1, 10_000), "How many may wait for one bucket.")
            .or("100")
            .also(&["depth", "size"]),
        ShapeField::new("max_wait", Shape::Duration(WAIT_MAX), "How long they may wait, at most an hour.")
            .or("2s")
            .also(&["timeout", "wait"]),
    ]],
    open_fields: None,
    shorthand: Some("max_depth"),
};

pub(super) static DEGRADE: ObjectShape = ObjectShape {
    name: "degrade",
    about: "How requests beyond the limit are marked.",
    fields: &[&[ShapeField::new("tag", NAME, "The mark.").or("degraded")]],
    open_fields: None,
    shorthand: Some("tag"),
};

pub(super) static ADAPTIVE: ObjectShape = ObjectShape {
    name: "adaptive",
    about: "Limits that follow the trust in a client.",
    fields: &[&[ShapeField::new("trust", Shape::Flag, "Does a request's `trust` scale capacity and rate?")
        .or("false")]],
    open_fields: None,
    shorthand: Some("trust"),
};

static ALGORITHMS: &[WordShape] = &[
    WordShape::new("token_bucket", "a sustained rate with bursts").also(&["gcra", "leaky_bucket", "bucket"]),
    WordShape::new("sliding_window", "a count over this window and the fading one before it")
        .also(&["sliding"]),
    WordShape::new("sliding_log", "every admitted request remembered").also(&["log"]),
    WordShape::new("fixed_window", "a counter per window").also(&["fixed", "window", "counter"]),
];

static PRESETS: &[WordShape] = &[
    WordShape::new("interactive", "a burst of five times the rate"),
    WordShape::new("strict", "a burst of the rate"),
    WordShape::new("batch", "a burst of ten times the rate"),
    WordShape::new("llm_tools", "a burst of the rate; the cost must come from the request").also(&["llm"]),
];

static CARRY: &[WordShape] = &[
    WordShape::new("as_is", "the same tokens, at most the new capacity").also(&["keep"]),
    WordShape::new("proportional", "the same share of the capacity, rounded down"),
    WordShape::new("reset", "starts full").also(&["restart"]),
];

static STRATEGIES: &[WordShape] = &[
    WordShape::new("reject", "it is refused").also(&["deny", "block", "refuse"]),
    WordShape::new("queue", "it waits, within bounds").also(&["wait", "delay"]),
    WordShape::new("degrade", "it is admitted and marked").also(&["tag", "mark"]),
];

static MODES: &[WordShape] = &[
    WordShape::new("enforce", "it refuses").also(&["on", "active", "enforced"]),
    WordShape::new("shadow", "it only watches").also(&["dry_run", "dry-run", "monitor", "observe", "log"]),
];

static FAMILIES: &[WordShape] = &[
    WordShape::new("x-ratelimit", "`X-RateLimit-*`, the reset in seconds of the epoch")
        .also(&["x_ratelimit", "legacy"]),
    WordShape::new("ratelimit-03", "`RateLimit-*`, the reset in seconds from now")
        .also(&["draft-03", "ratelimit"]),
    WordShape::new("ietf", "`RateLimit-Policy` and `RateLimit`").also(&["draft", "rfc"]),
];

static STORE_ERRORS: &[WordShape] = &[
    WordShape::new("local", "a local bucket with this node's share").also(&["local_only", "fallback"]),
    WordShape::new("open", "requests are admitted").also(&["fail_open", "allow"]),
    WordShape::new("closed", "requests are refused").also(&["fail_closed", "deny", "close"]),
];

pub(super) static SCOPES: &[WordShape] = &[
    WordShape::new("global", "one bucket for all").also(&["all", "none", "per_service"]),
    WordShape::new("tenant", "a bucket for each tenant").also(&["per_tenant"]),
    WordShape::new("user", "a bucket for each user").also(&["per_user", "user_id"]),
    WordShape::new("ip", "a bucket for each address").also(&["per_ip", "address", "remote_address"]),
    WordShape::new("route", "a bucket for each route").also(&["per_route", "path"]),
    WordShape::new("client", "a bucket for each client").also(&["per_client", "client_id", "api_key"]),
    WordShape::new("endpoint", "the same as `route`").also(&["per_endpoint"]),
];

/// What `key` takes.
pub(super) const KEY: Shape = Shape::List(&DESCRIPTOR);
