//! The tables of the document itself, its defaults, and limits.

use tidegate_document::{ObjectShape, Shape, ShapeField, WordShape};

use super::DESCRIPTION_MAX;
use super::descriptors::{CONDITIONS, DESCRIPTOR, NUMBER_SOURCE};
use super::entries::{BURST, GATE, ROUTE};
use super::names::{LISTED_TENANT, NAME, OWN_NAME};
use super::tenants::TENANT;
use super::terms::{SUSTAINED, TERMS};
use super::upstreams::{ABSORBS, UPSTREAM};

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
        ShapeField::new(
            "upstreams",
            Shape::List(&Shape::Object(&UPSTREAM)),
            "The services that requests go to, by host.",
        )
        .or("[]")
        .also(&["services", "backends", "clusters"]),
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
        &[ShapeField::new("tenant", LISTED_TENANT, "The tenant that a request belongs to if it names none.")
            .or("none")],
        &[ShapeField::new(
            "priority",
            Shape::Object(&PRIORITY),
            "Where the priority of a request comes from that does not state one.",
        )],
        &[ShapeField::new(
            "paths",
            Shape::Object(&PATHS),
            "Which spellings of a path are the same path, for all limits, routes and gates.",
        )],
    ],
    open_fields: None,
    shorthand: None,
};

pub(super) static PRIORITY: ObjectShape = ObjectShape {
    name: "priority",
    about: "The priority of requests, from 0 to 100: among the requests of a tenant that wait in a queue, higher ones \
            go first.",
    fields: &[&[ShapeField::new(
        "from",
        NUMBER_SOURCE,
        "Which part of the request has it; 50 if that is not a whole number up to 100. A header counts only if it comes \
         from a trusted proxy, or from a caller of the API.",
    )
    .required()]],
    open_fields: None,
    shorthand: Some("from"),
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
                "unless",
                Shape::Object(&MATCH),
                "Which of these requests it does not apply to: those for which all of these conditions hold.",
            )
            .or("none")
            .also(&["except", "exclude", "not", "without"]),
            ShapeField::new(
                "key",
                KEY,
                "Each combination of these has a bucket of its own; `[]` is one bucket for all requests.",
            )
            .also(&["keys", "by"]),
            ShapeField::new("scope", Shape::Word(SCOPES), "Short for a `key` of one descriptor."),
            ShapeField::new(
                "missing",
                Shape::Word(MISSING),
                "What happens to a request that lacks a descriptor of the key.",
            )
            .or("skip")
            .also(&["on_missing", "missing_key", "if_missing"]),
            ShapeField::new("sustained", Shape::Object(&SUSTAINED), "The rate: how many tokens a window.")
                .required()
                .also(&["limit"]),
            ShapeField::new(
                "absorbs",
                Shape::Object(&ABSORBS),
                "What the service behind all requests that `match` selects can take. `validate` warns if the limits let more through.",
            ),
        ],
        TERMS,
        ANSWERS,
        ENTRY,
    ],
    open_fields: None,
    shorthand: None,
};

static MISSING: &[WordShape] = &[
    WordShape::new("skip", "the limit does not apply to it").also(&["ignore", "allow", "none"]),
    WordShape::new("shared", "it takes from one bucket that all such requests share")
        .also(&["share", "one", "pool"]),
    WordShape::new("deny", "it is denied, unless it costs nothing").also(&["reject", "refuse", "block"]),
];

/// Fields that every entry of a list has.
pub(super) static ENTRY: &[ShapeField] = &[
    ShapeField::new("description", Shape::Text(DESCRIPTION_MAX), "A comment for people.")
        .also(&["comment", "note"]),
    ShapeField::new("enabled", Shape::Flag, "`false` switches the entry off.").or("true").also(&["active"]),
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
    about: "Conditions on a request, of `match` or `unless`. Each is a descriptor with a value, or with a list of values of which one must match.",
    fields: &[],
    open_fields: Some(&CONDITIONS),
    shorthand: Some("path"),
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
