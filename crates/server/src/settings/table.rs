//! The fields of the settings file as tables. The file is checked against them, and the reference page is generated
//! from them.

use tidegate_document::{ObjectShape, Shape, ShapeField, WordShape};

use super::auth_table::AUTH;
use super::database::{DATABASE, RETENTION};
use super::events::EVENTS;
use super::identity::{API_KEYS, IDENTITY, SOURCES};
use super::jwt_table::JWT;
use super::oidc::{OIDC, OIDC_ROLE, OIDC_TENANT, OIDC_VALUES};
use super::trust::{CLAIMS, TRUST};
use crate::identity::api_keys::file::KEY;
use crate::trust_file::{ACCOUNT, ACCOUNTS};

/// The longest path, name or address.
pub(super) const TEXT_MAX: usize = 4_096;
/// The longest secret: a PEM key fits.
pub(super) const SECRET_MAX: usize = 16_384;
/// The longest address of a console: every denial has it.
const LINK_MAX: usize = 512;
/// The longest timeout of a call to a store, in milliseconds.
const DEADLINE_MAX: u64 = 10_000;
/// The longest key prefix.
const PREFIX_MAX: usize = 64;
/// The shortest and longest lifetime of leases, in milliseconds.
const LIFE_MIN: u64 = 10;
const LIFE_MAX: u64 = 10_000;

/// Every object, in the order of the reference.
static OBJECTS: &[&ObjectShape] = &[
    &SETTINGS,
    &LISTEN,
    &POLICY,
    &DATABASE,
    &RETENTION,
    &STORE,
    &REDIS,
    &SYNC,
    &TLS,
    &ADMIN,
    &METRICS,
    &AUTH,
    &OIDC,
    &OIDC_ROLE,
    &OIDC_VALUES,
    &OIDC_TENANT,
    &JWT,
    &IDENTITY,
    &API_KEYS,
    &KEY,
    &TRUST,
    &CLAIMS,
    &ACCOUNTS,
    &ACCOUNT,
    &LOG,
    &EVENTS,
    &OTLP,
];

/// The reference page, as Markdown.
pub(crate) fn reference() -> String {
    format!("{INTRODUCTION}{}{SOURCES}{DURATIONS}", tidegate_document::reference(OBJECTS))
}

const DURATIONS: &str = "\
## Durations

A whole number and a unit, without a space: `ms`, `s`, `m`, `h` or `d`, as in `20ms`.
";

const INTRODUCTION: &str = "\
# Settings reference

`tidegate serve --config FILE` reads its settings from one YAML or JSON document. Every field is optional.
Unknown fields are errors. All problems are reported at once, each with its line and a hint. Paths are relative
to the file. Flags override environment variables, and both override the file.

| environment variable | same as |
|---|---|
| `TIDEGATE_CONFIG` | `--config` |
| `TIDEGATE_POLICY` | `--policy`, `policy.file` |
| `TIDEGATE_HTTP`, `TIDEGATE_GRPC`, `TIDEGATE_RESP`, `TIDEGATE_ADMIN` | `--http` and so on, `listen` |
| `TIDEGATE_WORKERS` | `--workers`, `workers` |
| `TIDEGATE_DATA` | `--data` |
| `TIDEGATE_DATABASE_URL` | `database.url` |
| `TIDEGATE_ADMIN_TOKEN` | `auth.admin_token` |
| `TIDEGATE_HTTP_TOKEN` | `auth.http_token` |
| `TIDEGATE_RESP_PASSWORD` | `auth.resp_password` |
| `TIDEGATE_REDIS_URL` | `store.redis.url`, in `strict` and `hybrid` |
| `TIDEGATE_KILL_SWITCH` | `allow` admits every request |
| `TIDEGATE_LOG` | `off`, `error`, `warn`, `info` (the default), `debug` or `trace`: the log level |

The policy, the certificate and its key, and the files of `jwt.jwks`, `auth.oidc.jwks`, `api_keys` and
`trust.file` are reloaded when they change. The settings file itself is read once, when the server starts.

";

pub(super) static SETTINGS: ObjectShape = ObjectShape {
    name: "settings",
    about: "The whole document.",
    fields: &[&[
        ShapeField::new("listen", Shape::Object(&LISTEN), "Addresses of the listeners.")
            .also(&["listeners", "bind"]),
        ShapeField::new("policy", Shape::Object(&POLICY), "The policy file.").or("the embedded quick start"),
        ShapeField::new("database", Shape::Object(&DATABASE), "Versions of the policy, tokens and records.")
            .or("none")
            .also(&["db", "storage_url"]),
        ShapeField::new("store", Shape::Object(&STORE), "Where counters are kept.").also(&["storage"]),
        ShapeField::new("rate_limit_sync", Shape::Object(&SYNC), "How nodes share counters."),
        ShapeField::new(
            "trusted_proxies",
            Shape::List(&Shape::Cidr),
            "Networks and addresses of proxies whose forwarded client address is believed.",
        )
        .or("[127.0.0.1/32, \"::1/128\"]")
        .also(&["proxies", "trusted"]),
        ShapeField::new(
            "forwarded",
            Shape::Word(FORWARDED),
            "Where trusted proxies put the client's address.",
        )
        .or("x-forwarded-for"),
        ShapeField::new("tls", Shape::Object(&TLS), "TLS for `http`, `grpc` and `admin`.").or("none"),
        ShapeField::new("admin", Shape::Object(&ADMIN), "The admin listener."),
        ShapeField::new("metrics", Shape::Object(&METRICS), "What `/metrics` tells."),
        ShapeField::new(
            "readiness",
            Shape::Word(READINESS),
            "When `/readyz` answers 503, so that load balancers send no requests here.",
        )
        .or("lenient")
        .also(&["readyz", "ready"]),
        ShapeField::new("auth", Shape::Object(&AUTH), "Secrets that callers must send."),
        ShapeField::new("jwt", Shape::Object(&JWT), "How bearer tokens of clients are verified.").or("none"),
        ShapeField::new("identity", Shape::Object(&IDENTITY), "Who a proxied request is taken for.")
            .or("the usual claims")
            .also(&["identities", "who"]),
        ShapeField::new("api_keys", Shape::Object(&API_KEYS), "The API keys of clients.")
            .or("none")
            .also(&["apikeys", "api_key", "keys"]),
        ShapeField::new("trust", Shape::Object(&TRUST), "How the trust of requests is computed.").or("none"),
        ShapeField::new("log", Shape::Object(&LOG), "The log.").also(&["logging", "logs"]),
        ShapeField::new("otlp", Shape::Object(&OTLP), "Where traces are sent.")
            .or("none")
            .also(&["tracing", "traces"]),
        ShapeField::new(
            "events",
            Shape::Object(&EVENTS),
            "Where denials, blocks, penalties and changes are written.",
        )
        .or("none")
        .also(&["audit", "audit_log", "event_log"]),
        ShapeField::new("workers", Shape::Integer(1, 1_024), "Number of worker threads.")
            .or("one less than the number of cores, at least one")
            .also(&["threads"]),
    ]],
    open_fields: None,
    shorthand: None,
};

static FORWARDED: &[WordShape] = &[
    WordShape::new("x-forwarded-for", "in `X-Forwarded-For`").also(&["xff", "x_forwarded_for"]),
    WordShape::new("forwarded", "in `Forwarded`, as in RFC 7239").also(&["rfc7239"]),
    WordShape::new("peer", "no header: the address of the connection is used").also(&["none", "off"]),
];

static READINESS: &[WordShape] = &[
    WordShape::new(
        "lenient",
        "only while the server starts or shuts down; other problems are listed with the status 200",
    )
    .also(&["default", "relaxed"]),
    WordShape::new(
        "strict",
        "also while the store does not answer, or a changed policy, certificate or key file is invalid. If all nodes \
         share the problem, all of them are unready at once",
    ),
];

static LISTEN: ObjectShape = ObjectShape {
    name: "listen",
    about: "An address with a port for each listener, or `off`. Port 0 takes any free port.",
    fields: &[&[
        ShapeField::new("http", Shape::Listen, "Decisions by HTTP.").or("127.0.0.1:8080"),
        ShapeField::new("grpc", Shape::Listen, "Decisions by gRPC, for Envoy.").or("127.0.0.1:8081"),
        ShapeField::new("resp", Shape::Listen, "Decisions by the Redis protocol.")
            .or("127.0.0.1:6380")
            .also(&["redis"]),
        ShapeField::new("admin", Shape::Listen, "Health, metrics, administration.")
            .or("127.0.0.1:9090")
            .also(&["metrics", "health"]),
    ]],
    open_fields: None,
    shorthand: Some("http"),
};

static POLICY: ObjectShape = ObjectShape {
    name: "policy",
    about: "The policy file.",
    fields: &[&[ShapeField::new("file", Shape::Text(TEXT_MAX), "Its path. It is reloaded when it changes.")
        .required()
        .also(&["path"])]],
    open_fields: None,
    shorthand: Some("file"),
};

static STORE: ObjectShape = ObjectShape {
    name: "store",
    about: "Where counters are kept.",
    fields: &[&[
        ShapeField::new("mode", Shape::Word(MODES), "Which store.").or("local").also(&["type", "backend"]),
        ShapeField::new("redis", Shape::Object(&REDIS), "The Redis server of `strict` and `hybrid`."),
        ShapeField::new(
            "max_keys",
            Shape::Integer(1, 1_000_000_000),
            "How many keys can be tracked at once.",
        )
        .or("10000000"),
        ShapeField::new(
            "nodes",
            Shape::Integer(1, 10_000),
            "Number of nodes in `local` mode: each enforces its part of every rate and burst. In the other modes \
             nodes find each other on Redis.",
        )
        .or("1")
        .also(&["node_count"]),
    ]],
    open_fields: None,
    shorthand: Some("mode"),
};

static MODES: &[WordShape] = &[
    WordShape::new("local", "in the memory of this node").also(&["memory", "in_memory", "local_only"]),
    WordShape::new("strict", "on Redis, one call for every decision: exact").also(&["redis", "central"]),
    WordShape::new("hybrid", "on Redis, with leases for busy keys: nearly as fast as `local`")
        .also(&["leases"]),
];

static REDIS: ObjectShape = ObjectShape {
    name: "redis",
    about: "A Redis or Valkey server.",
    fields: &[&[
        ShapeField::new(
            "url",
            Shape::Secret(TEXT_MAX),
            "Its URL: `redis://`, `rediss://` (TLS), `redis+sentinel://host:port,host:port/name` or \
             `redis+cluster://host:port,host:port`.",
        )
        .or("redis://127.0.0.1:6379")
        .also(&["address", "endpoint"]),
        ShapeField::new("deadline", Shape::Duration(DEADLINE_MAX), "Timeout of a call.")
            .or("20ms")
            .also(&["timeout"]),
        ShapeField::new(
            "prefix",
            Shape::Text(PREFIX_MAX),
            "Prefix of all keys. Nodes with the same prefix share their limits.",
        )
        .or("tidegate")
        .also(&["key_prefix", "namespace"]),
        ShapeField::new(
            "ca",
            Shape::Text(TEXT_MAX),
            "PEM file of certificates to trust besides the system's.",
        )
        .or("none")
        .also(&["ca_file", "cacert"]),
    ]],
    open_fields: None,
    shorthand: None,
};

static SYNC: ObjectShape = ObjectShape {
    name: "rate_limit_sync",
    about: "Another spelling of `store.mode: hybrid`, with its options.",
    fields: &[&[
        ShapeField::new("enabled", Shape::Flag, "`true` means `store.mode: hybrid`.").or("false"),
        ShapeField::new("backend", Shape::Word(BACKENDS), "The shared store.").or("redis"),
        ShapeField::new(
            "sync_interval_ms",
            Shape::Integer(LIFE_MIN, LIFE_MAX),
            "Lifetime of a lease in `hybrid`, in milliseconds; never longer than its bucket takes to fill.",
        )
        .or("100"),
        ShapeField::new(
            "fallback_on_error",
            Shape::Word(FALLBACKS),
            "What limits without `on_store_error` do while Redis is unavailable.",
        )
        .or("local_only"),
    ]],
    open_fields: None,
    shorthand: Some("enabled"),
};

static BACKENDS: &[WordShape] = &[WordShape::new("redis", "Redis or Valkey").also(&["valkey"])];

static FALLBACKS: &[WordShape] = &[
    WordShape::new("local_only", "a local bucket with this node's share").also(&["local"]),
    WordShape::new("open", "requests are admitted").also(&["fail_open", "allow"]),
    WordShape::new("closed", "requests are refused").also(&["fail_closed", "deny"]),
];

static TLS: ObjectShape = ObjectShape {
    name: "tls",
    about: "A certificate chain and its key, both PEM. They are reloaded when they change.",
    fields: &[&[
        ShapeField::new(
            "cert",
            Shape::Text(TEXT_MAX),
            "File of the chain, the server's own certificate first.",
        )
        .required()
        .also(&["certificate", "chain", "crt"]),
        ShapeField::new("key", Shape::Text(TEXT_MAX), "File of the private key.")
            .required()
            .also(&["private_key"]),
    ]],
    open_fields: None,
    shorthand: None,
};

static ADMIN: ObjectShape = ObjectShape {
    name: "admin",
    about: "The admin listener.",
    fields: &[&[
        ShapeField::new(
            "hosts",
            Shape::List(&Shape::Text(TEXT_MAX)),
            "Host names that it accepts, such as `tidegate.monitoring.svc`, without a port. IP addresses and `localhost` \
             are always accepted. Requests with another name in `Host` are refused, because a web page could otherwise \
             reach the listener under a domain of its own (DNS rebinding).",
        )
        .or("[]")
        .also(&["names", "host"]),
        ShapeField::new(
            "console_link",
            Shape::Text(LINK_MAX),
            "The address of the console as support reaches it, such as `https://tidegate.example.com/console/`. The \
             problem body of a denial then has a member `console`: the address of the client's page there. That names \
             the user, the tenant, the client, the IP address, the plan and where the request went, and never a header, a \
             query or a claim.",
        )
        .also(&["console", "link"]),
    ]],
    open_fields: None,
    shorthand: None,
};

static METRICS: ObjectShape = ObjectShape {
    name: "metrics",
    about: "What `/metrics` tells.",
    fields: &[&[ShapeField::new(
        "tenants",
        Shape::Flag,
        "Does each tenant's limit have time series of its own, `limit=\"tenant:<id>\"`? Otherwise the limits of all \
         tenants are summed as `limit=\"tenant\"`.",
    )
    .or("false")
    .also(&["by_tenant", "per_tenant", "tenant_labels"])]],
    open_fields: None,
    shorthand: None,
};

static LOG: ObjectShape = ObjectShape {
    name: "log",
    about: "The log, which goes to standard error.",
    fields: &[&[ShapeField::new("format", Shape::Word(FORMATS), "The format of its lines.").or("text")]],
    open_fields: None,
    shorthand: Some("format"),
};

static FORMATS: &[WordShape] = &[
    WordShape::new("text", "plain text").also(&["pretty", "plain", "human"]),
    WordShape::new("json", "one JSON object per line").also(&["structured"]),
];

static OTLP: ObjectShape = ObjectShape {
    name: "otlp",
    about: "Where traces are sent, by OTLP over gRPC.",
    fields: &[&[ShapeField::new(
        "endpoint",
        Shape::Text(TEXT_MAX),
        "The URL of the collector, such as `http://127.0.0.1:4317`.",
    )
    .required()
    .also(&["url", "address"])]],
    open_fields: None,
    shorthand: Some("endpoint"),
};
