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
        ShapeField::new("defaults", Shape::Object(&DEFAULTS), "Values for limits that do not set their own."),
        ShapeField::new("limits", Shape::List(&Shape::Object(&LIMIT)), "The limits.").or("[]").also(&[
            "rules",
            "rate_limits",
            "ratelimits",
            "limit",
        ]),
        ShapeField::new(
            "routes",
            Shape::List(&Shape::Object(&ROUTE)),
            "What requests to a path cost; the first match applies.",
        )
        .or("[]"),
        ShapeField::new("tenants", Shape::List(&Shape::Object(&TENANT)), "The tenants and their budgets.")
            .or("[]"),
        ShapeField::new("allow", Shape::List(&Shape::Object(&GATE)), "Requests that bypass every limit.")
            .or("[]")
            .also(&["allowlist", "allow_list", "whitelist", "bypass"]),
        ShapeField::new(
            "block",
            Shape::List(&Shape::Object(&GATE)),
            "Requests that are denied before any limit is checked.",
        )
        .or("[]")
        .also(&["blocklist", "block_list", "denylist", "deny", "blacklist"]),
        ShapeField::new("bursts", Shape::List(&Shape::Object(&BURST)), "Detectors of bursts of requests.")
            .or("[]"),
        ShapeField::new("adaptive", Shape::Object(&ADAPTIVE), "Scaling of limits by the trust in a client."),
    ]],
    open_fields: None,
    shorthand: None,
};

pub(super) static DEFAULTS: ObjectShape = ObjectShape {
    name: "defaults",
    about: "Values for limits that do not set their own.",
    fields: &[
        ANSWERS,
        &[ShapeField::new(
            "unknown_tenant",
            Shape::Word(UNKNOWN_TENANT),
            "What happens to requests of a tenant that `tenants` does not list.",
        )
        .or("allow")],
        &[ShapeField::new(
            "paths",
            Shape::Object(&PATHS),
            "Which spellings of a path are the same path, for all limits, routes and gates.",
        )],
    ],
    open_fields: None,
    shorthand: None,
};

pub(super) static PATHS: ObjectShape = ObjectShape {
    name: "paths",
    about: "Which further spellings of a path are the same path, in requests and in patterns. In any case the query is \
            dropped, unreserved characters are decoded, and empty and dot segments are resolved. Enable what the \
            upstream does itself: otherwise a client can evade a limit by path with another spelling.",
    fields: &[&[
        ShapeField::new("ignore_case", Shape::Flag, "Upper and lower case are equal, in all languages.")
            .or("false"),
        ShapeField::new("decode_slash", Shape::Flag, "`%2F`, `%5C` and a backslash are slashes.").or("false"),
        ShapeField::new("strip_params", Shape::Flag, "`;x=y` at the end of a segment is ignored.")
            .or("false"),
    ]],
    open_fields: None,
    shorthand: None,
};

static UNKNOWN_TENANT: &[WordShape] = &[
    WordShape::new("allow", "no tenant limits apply to them; a metric counts them").also(&["open", "ignore"]),
    WordShape::new("deny", "they are denied").also(&["block", "reject", "closed"]),
];

pub(super) static LIMIT: ObjectShape = ObjectShape {
    name: "limit",
    about: "One limit: which requests it counts, how many it admits, and what happens to the others.",
    fields: &[
        &[
            ShapeField::new("name", OWN_NAME, "Its name; unique. Its counters are kept under it.")
                .required()
                .also(&["id"]),
            ShapeField::new(
                "group",
                NAME,
                "Of the limits in a group only the first that matches a request applies.",
            )
            .or("a group of its own"),
            ShapeField::new(
                "match",
                Shape::Object(&MATCH),
                "Which requests it applies to; all conditions must hold.",
            )
            .or("every request")
            .also(&["when", "if", "where", "matches"]),
            ShapeField::new(
                "key",
                KEY,
                "Each combination of these has a bucket of its own; `[]` is one bucket for all requests.",
            )
            .also(&["keys", "by"]),
            ShapeField::new("scope", Shape::Word(SCOPES), "Short for a `key` of one descriptor."),
            ShapeField::new("sustained", Shape::Object(&SUSTAINED), "The rate: how many tokens a window.")
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
    ShapeField::new("description", Shape::Text(DESCRIPTION_MAX), "A comment for people.")
        .also(&["comment", "note"]),
    ShapeField::new("enabled", Shape::Flag, "`false` switches the entry off.").or("true").also(&["active"]),
];

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

/// Fields that a limit and the defaults share.
pub(super) static ANSWERS: &[ShapeField] = &[
    ShapeField::new(
        "mode",
        Shape::Word(MODES),
        "Whether it denies requests, or only counts what it would deny.",
    )
    .or("enforce"),
    ShapeField::new(
        "headers",
        Shape::OneOrMore(&Shape::Word(FAMILIES)),
        "Which families of rate-limit headers responses have.",
    )
    .or("[x-ratelimit]"),
    ShapeField::new(
        "response_headers",
        Shape::Flag,
        "`false` removes all rate-limit headers except `Retry-After`.",
    )
    .or("true"),
    ShapeField::new(
        "retry_jitter",
        Shape::Decimal(0, 500_000),
        "How much may be added to `Retry-After`, as a fraction of it; each value of the key gets its own.",
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
    about: "Conditions on a request. Each is a descriptor with a value, or with a list of values of which one must match.",
    fields: &[],
    open_fields: Some(&CONDITIONS),
    shorthand: Some("path"),
};

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

pub(super) static ADAPTIVE: ObjectShape = ObjectShape {
    name: "adaptive",
    about: "Scaling of limits by the trust in a client.",
    fields: &[&[ShapeField::new(
        "trust",
        Shape::Flag,
        "Whether the `trust` of a request raises capacity and rate.",
    )
    .or("false")]],
    open_fields: None,
    shorthand: Some("trust"),
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

static MODES: &[WordShape] = &[
    WordShape::new("enforce", "it denies requests").also(&["on", "active", "enforced"]),
    WordShape::new("shadow", "it denies nobody; decisions and metrics report what it would deny")
        .also(&["dry_run", "dry-run", "monitor", "observe", "log"]),
];

static FAMILIES: &[WordShape] = &[
    WordShape::new("x-ratelimit", "`X-RateLimit-*`, with the reset as Unix time")
        .also(&["x_ratelimit", "legacy"]),
    WordShape::new("ratelimit-03", "`RateLimit-*`, with the reset in seconds from now")
        .also(&["draft-03", "ratelimit"]),
    WordShape::new(
        "ratelimit-07",
        "`RateLimit: limit=…, remaining=…, reset=…` and `RateLimit-Policy`, the form of draft 07",
    )
    .also(&["draft-07"]),
    WordShape::new("ietf", "`RateLimit` and `RateLimit-Policy`, the form of the newest draft")
        .also(&["draft", "rfc"]),
];

static STORE_ERRORS: &[WordShape] = &[
    WordShape::new("local", "the node decides by a local bucket with its share of the limit")
        .also(&["local_only", "fallback"]),
    WordShape::new("open", "requests are admitted").also(&["fail_open", "allow"]),
    WordShape::new("closed", "requests are denied").also(&["fail_closed", "deny", "close"]),
];

pub(super) static SCOPES: &[WordShape] = &[
    WordShape::new("global", "one bucket for all requests").also(&["all", "none", "per_service"]),
    WordShape::new("tenant", "a bucket for each tenant").also(&["per_tenant"]),
    WordShape::new("user", "a bucket for each user").also(&["per_user", "user_id"]),
    WordShape::new("ip", "a bucket for each address").also(&["per_ip", "address", "remote_address"]),
    WordShape::new("route", "a bucket for each route").also(&["per_route", "path"]),
    WordShape::new("client", "a bucket for each client").also(&["per_client", "client_id", "api_key"]),
    WordShape::new("endpoint", "the same as `route`").also(&["per_endpoint"]),
];

/// What `key` takes.
pub(super) const KEY: Shape = Shape::List(&DESCRIPTOR);
