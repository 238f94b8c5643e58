//! What the settings file looks like, as data: it is checked by these tables, and its reference page is
//! written from them.

use tidegate_policy::form::{self, Field, Object, Shape, Word};

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
static OBJECTS: &[&Object] =
    &[&SETTINGS, &LISTEN, &POLICY, &STORE, &REDIS, &SYNC, &TLS, &ADMIN, &AUTH, &JWT, &LOG, &OTLP];

/// The page, as Markdown.
pub(crate) fn reference() -> String {
    format!("{INTRODUCTION}{}{DURATIONS}", form::reference(OBJECTS))
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

pub(super) static SETTINGS: Object = Object {
    name: "settings",
    about: "The whole document.",
    fields: &[&[
        Field::new("listen", Shape::Object(&LISTEN), "Where to listen.").also(&["listeners", "bind"]),
        Field::new("policy", Shape::Object(&POLICY), "The policy.").or("the embedded quick start"),
        Field::new("store", Shape::Object(&STORE), "Where counters are kept.").also(&["storage"]),
        Field::new("rate_limit_sync", Shape::Object(&SYNC), "How nodes share counters."),
        Field::new(
            "trusted_proxies",
            Shape::List(&Shape::Cidr),
            "Who may say on whose behalf it asks: networks and addresses.",
        )
        .or("[127.0.0.1/32, \"::1/128\"]")
        .also(&["proxies", "trusted"]),
        Field::new("forwarded", Shape::Word(FORWARDED), "Where a trusted proxy says on whose behalf.")
            .or("x-forwarded-for"),
        Field::new("tls", Shape::Object(&TLS), "TLS for `http` and `grpc`.").or("none"),
        Field::new("admin", Shape::Object(&ADMIN), "The admin listener."),
        Field::new("auth", Shape::Object(&AUTH), "Secrets that callers must know."),
        Field::new("jwt", Shape::Object(&JWT), "How tokens of clients are verified.").or("none"),
        Field::new("log", Shape::Object(&LOG), "How logs are written.").also(&["logging", "logs"]),
        Field::new("otlp", Shape::Object(&OTLP), "Where traces go.").or("none").also(&["tracing", "traces"]),
        Field::new("workers", Shape::Integer(1, 1_024), "Threads that answer.")
            .or("one fewer than there are cores, at least one")
            .also(&["threads"]),
    ]],
    descriptors: false,
    shorthand: None,
};

static FORWARDED: &[Word] = &[
    Word::new("x-forwarded-for", "in `X-Forwarded-For`").also(&["xff", "x_forwarded_for"]),
    Word::new("forwarded", "in `Forwarded`, as in RFC 7239").also(&["rfc7239"]),
    Word::new("peer", "nowhere: the address of the connection counts").also(&["none", "off"]),
];

static LISTEN: Object = Object {
    name: "listen",
    about: "An address with a port for each listener, or `off`. Port 0 takes any that is free.",
    fields: &[&[
        Field::new("http", Shape::Listen, "Decisions by HTTP.").or("127.0.0.1:8080"),
        Field::new("grpc", Shape::Listen, "Decisions by gRPC, as Envoy asks for them.").or("127.0.0.1:8081"),
        Field::new("resp", Shape::Listen, "Decisions by the Redis protocol.")
            .or("127.0.0.1:6380")
            .also(&["redis"]),
        Field::new("admin", Shape::Listen, "Health, metrics, administration.")
            .or("127.0.0.1:9090")
            .also(&["metrics", "health"]),
    ]],
    descriptors: false,
    shorthand: Some("http"),
};

static POLICY: Object = Object {
    name: "policy",
    about: "Where the policy is.",
    fields: &[&[Field::new("file", Shape::Text(TEXT_MAX), "The file. It is watched.")
        .required()
        .also(&["path"])]],
    descriptors: false,
    shorthand: Some("file"),
};

static STORE: Object = Object {
    name: "store",
    about: "Where counters are kept.",
    fields: &[&[
        Field::new("mode", Shape::Word(MODES), "Which store.").or("local").also(&["type", "backend"]),
        Field::new("redis", Shape::Object(&REDIS), "The Redis of `strict` and `hybrid`."),
        Field::new("max_keys", Shape::Integer(1, 1_000_000_000), "How many keys are told apart at once.")
            .or("10000000"),
        Field::new(
            "nodes",
            Shape::Integer(1, 10_000),
            "How many nodes share the limits in `local`: rates and bursts are divided by it. In the other \
             modes nodes count themselves.",
        )
        .or("1")
        .also(&["node_count"]),
    ]],
    descriptors: false,
    shorthand: Some("mode"),
};

static MODES: &[Word] = &[
    Word::new("local", "in the memory of this node").also(&["memory", "in_memory", "local_only"]),
    Word::new("strict", "on Redis, asked once for every decision: exact").also(&["redis", "central"]),
    Word::new("hybrid", "on Redis, with leases for busy keys: nearly as fast as `local`").also(&["leases"]),
];

static REDIS: Object = Object {
    name: "redis",
    about: "A Redis or Valkey.",
    fields: &[&[
        Field::new(
            "url",
            Shape::Secret(TEXT_MAX),
            "Its address: `redis://`, `rediss://` (TLS), `redis+sentinel://host:port,host:port/name` or \
             `redis+cluster://host:port,host:port`.",
        )
        .or("redis://127.0.0.1:6379")
        .also(&["address", "endpoint"]),
        Field::new("deadline", Shape::Duration(DEADLINE_MAX), "The longest that a call may take.")
            .or("20ms")
            .also(&["timeout"]),
        Field::new(
            "prefix",
            Shape::Text(PREFIX_MAX),
            "How keys begin. Nodes with one prefix share their limits.",
        )
        .or("tidegate")
        .also(&["key_prefix", "namespace"]),
        Field::new(
            "ca",
            Shape::Text(TEXT_MAX),
            "A PEM file with certificates to trust, beside the system's.",
        )
        .or("none")
        .also(&["ca_file", "cacert"]),
    ]],
    descriptors: false,
    shorthand: None,
};

static SYNC: Object = Object {
    name: "rate_limit_sync",
    about: "Another way to ask for `store.mode: hybrid`, and how nodes share limits.",
    fields: &[&[
        Field::new("enabled", Shape::Flag, "`true` is `store.mode: hybrid`.").or("false"),
        Field::new("backend", Shape::Word(BACKENDS), "By what.").or("redis"),
        Field::new(
            "sync_interval_ms",
            Shape::Integer(LIFE_MIN, LIFE_MAX),
            "How long a lease lives in `hybrid`, in milliseconds; shorter near a limit.",
        )
        .or("100"),
        Field::new(
            "fallback_on_error",
            Shape::Word(FALLBACKS),
            "What limits without `on_store_error` do while Redis cannot be asked.",
        )
        .or("local_only"),
    ]],
    descriptors: false,
    shorthand: Some("enabled"),
};

static BACKENDS: &[Word] = &[Word::new("redis", "Redis or Valkey").also(&["valkey"])];

static FALLBACKS: &[Word] = &[
    Word::new("local_only", "a local bucket with this node's share").also(&["local"]),
    Word::new("open", "requests are admitted").also(&["fail_open", "allow"]),
    Word::new("closed", "requests are refused").also(&["fail_closed", "deny"]),
];

static TLS: Object = Object {
    name: "tls",
    about: "A certificate chain and its key, both PEM. They are read again when they change.",
    fields: &[&[
        Field::new("cert", Shape::Text(TEXT_MAX), "The file of the chain, the server's own first.")
            .required()
            .also(&["certificate", "chain", "crt"]),
        Field::new("key", Shape::Text(TEXT_MAX), "The file of the key.").required().also(&["private_key"]),
    ]],
    descriptors: false,
    shorthand: None,
};

static ADMIN: Object = Object {
    name: "admin",
    about: "The admin listener.",
    fields: &[&[Field::new(
        "hosts",
        Shape::List(&Shape::Text(TEXT_MAX)),
        "Names by which it may be asked, such as `tidegate.monitoring.svc`, without a port. Addresses and \
         `localhost` always work; other names in `Host` are refused, since a page in a browser could be made to ask \
         by a name of its own.",
    )
    .or("[]")
    .also(&["names", "host"])]],
    descriptors: false,
    shorthand: None,
};

static AUTH: Object = Object {
    name: "auth",
    about: "Secrets that callers must know. They can be given by the environment instead.",
    fields: &[&[
        Field::new(
            "http_token",
            Shape::Secret(SECRET_MAX),
            "The bearer token of `/v1/refund` and `/v1/throttle`, which are off without it where `http` is \
             not on loopback.",
        )
        .also(&["token", "bearer"]),
        Field::new(
            "resp_password",
            Shape::Secret(SECRET_MAX),
            "The password of `resp`, which must have one where it is not on loopback.",
        )
        .also(&["password", "redis_password", "requirepass"]),
    ]],
    descriptors: false,
    shorthand: None,
};

static JWT: Object = Object {
    name: "jwt",
    about: "How tokens of clients are verified: by the keys of a JWKS file, or by one key.",
    fields: &[&[
        Field::new("jwks", Shape::Text(TEXT_MAX), "A file with a JSON Web Key Set. It is watched.")
            .also(&["jwks_file", "keys"]),
        Field::new("key", Shape::Secret(SECRET_MAX), "One key: a secret, or a public key as PEM.")
            .also(&["secret", "public_key"]),
        Field::new("algorithm", Shape::Word(ALGORITHMS), "The one algorithm that `key` is for.")
            .also(&["alg"]),
        Field::new("issuer", Shape::Text(TEXT_MAX), "What `iss` must be.").also(&["iss"]),
        Field::new("audience", Shape::Text(TEXT_MAX), "What `aud` must have.").also(&["aud"]),
        Field::new("invalid", Shape::Word(INVALID), "What becomes of a request whose token does not hold.")
            .or("deny")
            .also(&["on_invalid", "invalid_token"]),
    ]],
    descriptors: false,
    shorthand: None,
};

static INVALID: &[Word] = &[
    Word::new("deny", "401 with `WWW-Authenticate`, before any limit").also(&["reject", "refuse", "401"]),
    Word::new("anonymous", "it goes on without claims; the descriptor `credential` is `invalid`")
        .also(&["ignore", "allow", "none"]),
];

static ALGORITHMS: &[Word] = &[
    Word::new("HS256", "HMAC with SHA-256"),
    Word::new("HS384", "HMAC with SHA-384"),
    Word::new("HS512", "HMAC with SHA-512"),
    Word::new("RS256", "RSA (PKCS #1) with SHA-256"),
    Word::new("RS384", "RSA (PKCS #1) with SHA-384"),
    Word::new("RS512", "RSA (PKCS #1) with SHA-512"),
    Word::new("PS256", "RSA (PSS) with SHA-256"),
    Word::new("PS384", "RSA (PSS) with SHA-384"),
    Word::new("PS512", "RSA (PSS) with SHA-512"),
    Word::new("ES256", "ECDSA on P-256 with SHA-256"),
    Word::new("ES384", "ECDSA on P-384 with SHA-384"),
    Word::new("EdDSA", "Ed25519"),
];

static LOG: Object = Object {
    name: "log",
    about: "How logs are written, on standard error.",
    fields: &[&[Field::new("format", Shape::Word(FORMATS), "For whom.").or("text")]],
    descriptors: false,
    shorthand: Some("format"),
};

static FORMATS: &[Word] = &[
    Word::new("text", "for people").also(&["pretty", "plain", "human"]),
    Word::new("json", "for machines, one object a line").also(&["structured"]),
];

static OTLP: Object = Object {
    name: "otlp",
    about: "Where traces go, by OTLP over gRPC.",
    fields: &[&[Field::new(
        "endpoint",
        Shape::Text(TEXT_MAX),
        "The address of the collector, such as \
                           `http://127.0.0.1:4317`.",
    )
    .required()
    .also(&["url", "address"])]],
    descriptors: false,
    shorthand: Some("endpoint"),
};
