//! What the settings file looks like, as data: it is checked by these tables, and its reference page is
//! written from them.

use tidegate_document::{ObjectShape, Shape, ShapeField, WordShape};

/// The longest path, name or address.
const TEXT_MAX: usize = 4_096;
/// The longest secret: a PEM key fits.
const SECRET_MAX: usize = 16_384;
/// The longest that a call to a store may take, in milliseconds.
const DEADLINE_MAX: u64 = 10_000;
/// The longest beginning of keys.
const PREFIX_MAX: usize = 64;
/// The lives that leases may have, in milliseconds.
const LIFE_MIN: u64 = 10;
const LIFE_MAX: u64 = 10_000;

/// Every object, in the order of the reference.
static OBJECTS: &[&ObjectShape] =
    &[&SETTINGS, &LISTEN, &POLICY, &STORE, &REDIS, &SYNC, &TLS, &ADMIN, &AUTH, &JWT, &LOG, &OTLP];

/// The page, as Markdown.
pub(crate) fn reference() -> String {
    format!("{INTRODUCTION}{}{DURATIONS}", tidegate_document::reference(OBJECTS))
}

const DURATIONS: &str = "\
## Durations

A whole number and a unit, without a space: `ms`, `s`, `m`, `h` or `d`, as in `20ms`.
";

const INTRODUCTION: &str = "\
# Settings reference

`tidegate serve --config FILE` reads its settings from one YAML or JSON document. Every field is optional,
unknown ones are errors, and every problem is told at once, with its line and a hint. Paths are relative to
the file. A flag beats the environment, and both beat the file.

| environment | same as |
|---|---|
| `TIDEGATE_CONFIG` | `--config` |
| `TIDEGATE_POLICY` | `--policy`, `policy.file` |
| `TIDEGATE_HTTP`, `TIDEGATE_GRPC`, `TIDEGATE_RESP`, `TIDEGATE_ADMIN` | `--http` and so on, `listen` |
| `TIDEGATE_WORKERS` | `--workers`, `workers` |
| `TIDEGATE_HTTP_TOKEN` | `auth.http_token` |
| `TIDEGATE_RESP_PASSWORD` | `auth.resp_password` |
| `TIDEGATE_REDIS_URL` | `store.redis.url`, in `strict` and `hybrid` |
| `TIDEGATE_KILL_SWITCH` | `allow` admits every request |
| `TIDEGATE_LOG` | `off`, `error`, `warn`, `info` (the default), `debug` or `trace`: how much is logged |

The policy, the certificate and its key, and the file of `jwt.jwks` are read again when they change. The
settings themselves are read once, at the start.

";

pub(super) static SETTINGS: ObjectShape = ObjectShape {
    name: "settings",
    about: "The whole document.",
    fields: &[&[
        ShapeField::new("listen", Shape::Object(&LISTEN), "Where to listen.").also(&["listeners", "bind"]),
        ShapeField::new("policy", Shape::Object(&POLICY), "The policy.").or("the embedded quick start"),
        ShapeField::new("store", Shape::Object(&STORE), "Where counters are kept.").also(&["storage"]),
        ShapeField::new("rate_limit_sync", Shape::Object(&SYNC), "How nodes share counters."),
        ShapeField::new(
            "trusted_proxies",
            Shape::List(&Shape::Cidr),
            "Who may say on whose behalf it asks: networks and addresses.",
        )
        .or("[127.0.0.1/32, \"::1/128\"]")
        .also(&["proxies", "trusted"]),
        ShapeField::new("forwarded", Shape::Word(FORWARDED), "Where a trusted proxy says on whose behalf.")
            .or("x-forwarded-for"),
        ShapeField::new("tls", Shape::Object(&TLS), "TLS for `http` and `grpc`.").or("none"),
        ShapeField::new("admin", Shape::Object(&ADMIN), "The admin listener."),
        ShapeField::new("auth", Shape::Object(&AUTH), "Secrets that callers must know."),
        ShapeField::new("jwt", Shape::Object(&JWT), "How tokens of clients are verified.").or("none"),
        ShapeField::new("log", Shape::Object(&LOG), "How logs are written.").also(&["logging", "logs"]),
        ShapeField::new("otlp", Shape::Object(&OTLP), "Where traces go.")
            .or("none")
            .also(&["tracing", "traces"]),
        ShapeField::new("workers", Shape::Integer(1, 1_024), "Threads that answer.")
            .or("one fewer than there are cores, at least one")
            .also(&["threads"]),
    ]],
    open_fields: None,
    shorthand: None,
};

static FORWARDED: &[WordShape] = &[
    WordShape::new("x-forwarded-for", "in `X-Forwarded-For`").also(&["xff", "x_forwarded_for"]),
    WordShape::new("forwarded", "in `Forwarded`, as in RFC 7239").also(&["rfc7239"]),
    WordShape::new("peer", "nowhere: the address of the connection counts").also(&["none", "off"]),
];

static LISTEN: ObjectShape = ObjectShape {
    name: "listen",
    about: "An address with a port for each listener, or `off`. Port 0 takes any that is free.",
    fields: &[&[
        ShapeField::new("http", Shape::Listen, "Decisions by HTTP.").or("127.0.0.1:8080"),
        ShapeField::new("grpc", Shape::Listen, "Decisions by gRPC, as Envoy asks for them.")
            .or("127.0.0.1:8081"),
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
    about: "Where the policy is.",
    fields: &[&[ShapeField::new("file", Shape::Text(TEXT_MAX), "The file. It is watched.")
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
        ShapeField::new("redis", Shape::Object(&REDIS), "The Redis of `strict` and `hybrid`."),
        ShapeField::new(
            "max_keys",
            Shape::Integer(1, 1_000_000_000),
            "How many keys are told apart at once.",
        )
        .or("10000000"),
        ShapeField::new(
            "nodes",
            Shape::Integer(1, 10_000),
            "How many nodes share the limits in `local`: rates and bursts are divided by it. In the other \
             modes nodes count themselves.",
        )
        .or("1")
        .also(&["node_count"]),
    ]],
    open_fields: None,
    shorthand: Some("mode"),
};

static MODES: &[WordShape] = &[
    WordShape::new("local", "in the memory of this node").also(&["memory", "in_memory", "local_only"]),
    WordShape::new("strict", "on Redis, asked once for every decision: exact").also(&["redis", "central"]),
    WordShape::new("hybrid", "on Redis, with leases for busy keys: nearly as fast as `local`")
        .also(&["leases"]),
];

static REDIS: ObjectShape = ObjectShape {
    name: "redis",
    about: "A Redis or Valkey.",
    fields: &[&[
        ShapeField::new(
            "url",
            Shape::Secret(TEXT_MAX),
            "Its address: `redis://`, `rediss://` (TLS), `redis+sentinel://host:port,host:port/name` or \
             `redis+cluster://host:port,host:port`.",
        )
        .or("redis://127.0.0.1:6379")
        .also(&["address", "endpoint"]),
        ShapeField::new("deadline", Shape::Duration(DEADLINE_MAX), "The longest that a call may take.")
            .or("20ms")
            .also(&["timeout"]),
        ShapeField::new(
            "prefix",
            Shape::Text(PREFIX_MAX),
            "How keys begin. Nodes with one prefix share their limits.",
        )
        .or("tidegate")
        .also(&["key_prefix", "namespace"]),
        ShapeField::new(
            "ca",
            Shape::Text(TEXT_MAX),
            "A PEM file with certificates to trust, beside the system's.",
        )
        .or("none")
        .also(&["ca_file", "cacert"]),
    ]],
    open_fields: None,
    shorthand: None,
};

static SYNC: ObjectShape = ObjectShape {
    name: "rate_limit_sync",
    about: "Another way to ask for `store.mode: hybrid`, and how nodes share limits.",
    fields: &[&[
        ShapeField::new("enabled", Shape::Flag, "`true` is `store.mode: hybrid`.").or("false"),
        ShapeField::new("backend", Shape::Word(BACKENDS), "By what.").or("redis"),
        ShapeField::new(
            "sync_interval_ms",
            Shape::Integer(LIFE_MIN, LIFE_MAX),
            "How long a lease lives in `hybrid`, in milliseconds; shorter near a limit.",
        )
        .or("100"),
        ShapeField::new(
            "fallback_on_error",
            Shape::Word(FALLBACKS),
            "What limits without `on_store_error` do while Redis cannot be asked.",
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
    about: "A certificate chain and its key, both PEM. They are read again when they change.",
    fields: &[&[
        ShapeField::new("cert", Shape::Text(TEXT_MAX), "The file of the chain, the server's own first.")
            .required()
            .also(&["certificate", "chain", "crt"]),
        ShapeField::new("key", Shape::Text(TEXT_MAX), "The file of the key.")
            .required()
            .also(&["private_key"]),
    ]],
    open_fields: None,
    shorthand: None,
};

static ADMIN: ObjectShape = ObjectShape {
    name: "admin",
    about: "The admin listener.",
    fields: &[&[ShapeField::new(
        "hosts",
        Shape::List(&Shape::Text(TEXT_MAX)),
        "Names by which it may be asked, such as `tidegate.monitoring.svc`, without a port. Addresses and \
         `localhost` always work; other names in `Host` are refused, since a page in a browser could be made to ask \
         by a name of its own.",
    )
    .or("[]")
    .also(&["names", "host"])]],
    open_fields: None,
    shorthand: None,
};

static AUTH: ObjectShape = ObjectShape {
    name: "auth",
    about: "Secrets that callers must know. They can be given by the environment instead.",
    fields: &[&[
        ShapeField::new(
            "http_token",
            Shape::Secret(SECRET_MAX),
            "The bearer token of `/v1/refund` and `/v1/throttle`, which are off without it where `http` is \
             not on loopback.",
        )
        .also(&["token", "bearer"]),
        ShapeField::new(
            "resp_password",
            Shape::Secret(SECRET_MAX),
            "The password of `resp`, which must have one where it is not on loopback.",
        )
        .also(&["password", "redis_password", "requirepass"]),
    ]],
    open_fields: None,
    shorthand: None,
};

static JWT: ObjectShape = ObjectShape {
    name: "jwt",
    about: "How tokens of clients are verified: by the keys of a JWKS file, or by one key.",
    fields: &[&[
        ShapeField::new("jwks", Shape::Text(TEXT_MAX), "A file with a JSON Web Key Set. It is watched.")
            .also(&["jwks_file", "keys"]),
        ShapeField::new("key", Shape::Secret(SECRET_MAX), "One key: a secret, or a public key as PEM.")
            .also(&["secret", "public_key"]),
        ShapeField::new("algorithm", Shape::Word(ALGORITHMS), "The one algorithm that `key` is for.")
            .also(&["alg"]),
        ShapeField::new("issuer", Shape::Text(TEXT_MAX), "What `iss` must be.").also(&["iss"]),
        ShapeField::new("audience", Shape::Text(TEXT_MAX), "What `aud` must have.").also(&["aud"]),
        ShapeField::new(
            "invalid",
            Shape::Word(INVALID),
            "What becomes of a request whose token does not hold.",
        )
        .or("deny")
        .also(&["on_invalid", "invalid_token"]),
    ]],
    open_fields: None,
    shorthand: None,
};

static INVALID: &[WordShape] = &[
    WordShape::new("deny", "401 with `WWW-Authenticate`, before any limit")
        .also(&["reject", "refuse", "401"]),
    WordShape::new("anonymous", "it goes on without claims; the descriptor `credential` is `invalid`")
        .also(&["ignore", "allow", "none"]),
];

static ALGORITHMS: &[WordShape] = &[
    WordShape::new("HS256", "HMAC with SHA-256"),
    WordShape::new("HS384", "HMAC with SHA-384"),
    WordShape::new("HS512", "HMAC with SHA-512"),
    WordShape::new("RS256", "RSA (PKCS #1) with SHA-256"),
    WordShape::new("RS384", "RSA (PKCS #1) with SHA-384"),
    WordShape::new("RS512", "RSA (PKCS #1) with SHA-512"),
    WordShape::new("PS256", "RSA (PSS) with SHA-256"),
    WordShape::new("PS384", "RSA (PSS) with SHA-384"),
    WordShape::new("PS512", "RSA (PSS) with SHA-512"),
    WordShape::new("ES256", "ECDSA on P-256 with SHA-256"),
    WordShape::new("ES384", "ECDSA on P-384 with SHA-384"),
    WordShape::new("EdDSA", "Ed25519"),
];

static LOG: ObjectShape = ObjectShape {
    name: "log",
    about: "How logs are written, on standard error.",
    fields: &[&[ShapeField::new("format", Shape::Word(FORMATS), "For whom.").or("text")]],
    open_fields: None,
    shorthand: Some("format"),
};

static FORMATS: &[WordShape] = &[
    WordShape::new("text", "for people").also(&["pretty", "plain", "human"]),
    WordShape::new("json", "for machines, one object a line").also(&["structured"]),
];

static OTLP: ObjectShape = ObjectShape {
    name: "otlp",
    about: "Where traces go, by OTLP over gRPC.",
    fields: &[&[ShapeField::new(
        "endpoint",
        Shape::Text(TEXT_MAX),
        "The address of the collector, such as \
                           `http://127.0.0.1:4317`.",
    )
    .required()
    .also(&["url", "address"])]],
    open_fields: None,
    shorthand: Some("endpoint"),
};
