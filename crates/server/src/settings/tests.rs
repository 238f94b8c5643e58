use std::path::Path;
use std::time::Duration;

use tidegate::Nanos;
use tidegate_redis::StoreMode;

use super::*;
use crate::commands::terminal::paint::Paint;
use crate::commands::terminal::report;

fn read_here(
    text: &str,
) -> Result<(Settings, Vec<tidegate_document::Problem>), Vec<tidegate_document::Problem>> {
    read(text, Path::new("/etc/tidegate"))
}

/// The messages of all problems in the text.
fn wrong(text: &str) -> Vec<String> {
    let problems = read_here(text).expect_err("it is wrong");
    problems.iter().map(ToString::to_string).collect()
}

const WHOLE: &str = r#"
listen: { http: 0.0.0.0:80, grpc: off, resp: 127.0.0.1:6380, admin: "[::1]:9090" }
policy: { file: policy.yaml }
store: { mode: local, max_keys: 1000, nodes: 3 }
rate_limit_sync: { enabled: false, backend: redis, sync_interval_ms: 100, fallback_on_error: local_only }
trusted_proxies: [10.0.0.0/8, "::1/128"]
forwarded: forwarded
tls: { cert: server.pem, key: /keys/server.key }
admin: { hosts: [Tidegate.Monitoring.svc], console_link: https://gate.example/console/ }
metrics: { tenants: true }
readiness: strict
auth: { http_token: s3cret-token, resp_password: s3cret-password }
jwt: { key: s3cret-key, algorithm: HS256, issuer: me, audience: you, invalid: anonymous }
log: { format: json }
otlp: { endpoint: "http://127.0.0.1:4317" }
workers: 3
"#;

#[test]
fn a_mapped_proxy_is_the_one_it_maps() {
    let proxies = |text: &str| read_here(text).expect("it is right").0.trusted_proxies;
    let mapped = proxies("trusted_proxies: [\"::ffff:10.0.0.0/104\", \"::ffff:192.0.2.1\", \"::1/128\"]");
    assert_eq!(mapped, proxies("trusted_proxies: [10.0.0.0/8, 192.0.2.1, \"::1/128\"]"));
}

#[test]
fn everything_can_be_said() {
    let (settings, warnings) = read_here(WHOLE).expect("it is right");
    assert!(warnings.is_empty(), "{warnings:?}");
    assert_eq!(settings.listen[0], Some("0.0.0.0:80".parse().unwrap()));
    assert_eq!(settings.listen[1], None);
    assert_eq!(settings.listen[3], Some("[::1]:9090".parse().unwrap()));
    assert_eq!(settings.policy.as_deref(), Some(Path::new("/etc/tidegate/policy.yaml")));
    assert_eq!((settings.max_keys, settings.nodes, settings.workers), (1_000, 3, Some(3)));
    assert_eq!(settings.trusted_proxies.len(), 2);
    assert_eq!(settings.forwarded, ForwardedSource::Forwarded);
    assert_eq!(settings.readiness, ReadinessRule::Strict);
    assert!(settings.tenant_metrics && !read_here("").expect("it is right").0.tenant_metrics);
    let tls = settings.tls.as_ref().expect("it is there");
    assert_eq!(
        (&*tls.cert, &*tls.key),
        (Path::new("/etc/tidegate/server.pem"), Path::new("/keys/server.key"))
    );
    assert_eq!(settings.admin_hosts, ["tidegate.monitoring.svc"]);
    assert_eq!(settings.console_link.as_deref(), Some("https://gate.example/console/"));
    assert_eq!(settings.http_token.as_deref(), Some("s3cret-token"));
    assert_eq!(settings.resp_password.as_deref(), Some("s3cret-password"));
    assert_eq!(settings.jwt.as_ref().and_then(|jwt| jwt.issuer.as_deref()), Some("me"));
    let invalid = |settings: &Settings| settings.jwt.as_ref().map(|jwt| jwt.invalid);
    assert_eq!(invalid(&settings), Some(InvalidCredentials::Anonymous));
    let (deny, _) = read_here("jwt: { key: s3cret-key, algorithm: HS256 }").expect("it is right");
    assert_eq!(invalid(&deny), Some(InvalidCredentials::Deny), "unless it is asked for by name");
    assert_eq!(settings.log, LogFormat::Json);
    assert_eq!(settings.otlp.as_deref(), Some("http://127.0.0.1:4317"));
    let shown = format!("{settings:?}");
    assert!(!shown.contains("s3cret"), "{shown}");
}

#[test]
fn nothing_need_be_said() {
    for text in ["", "# nothing\n", "{}"] {
        let (settings, warnings) = read_here(text).expect("it is right");
        assert_eq!(settings.listen, Settings::default().listen);
        assert!(warnings.is_empty(), "{warnings:?}");
    }
}

#[test]
fn every_problem_is_told_with_a_hint() {
    let message =
        wrong("listn: {}\nlisten: { http: localhost:80, grpc: 8081 }\nworkers: 0\nlog: { format: jsn }\n");
    let message = message.join("\n");
    for part in [
        "line 1, column 1: listn: unknown field `listn`",
        "did you mean `listen`?",
        "write it as `127.0.0.1:80`",
        "write it as `127.0.0.1:8081`",
        "workers: 0 is out of range",
        "did you mean `json`?",
    ] {
        assert!(message.contains(part), "{part}\nin\n{message}");
    }
}

#[test]
fn names_of_hosts_have_no_ports() {
    for name in ["tidegate:9090", "http://tidegate", "tidegate/metrics", "a b", "\"\""] {
        let message = wrong(&format!("admin: {{ hosts: [{name}] }}\n")).join("\n");
        assert!(message.contains("admin.hosts"), "{name}: {message}");
    }
}

fn shared(text: &str) -> SharedStoreSettings {
    let (settings, warnings) = read_here(text).expect("it is right");
    assert!(warnings.is_empty(), "{warnings:?}");
    settings.shared.expect("nodes share it")
}

#[test]
fn a_shared_store_can_be_asked_for_in_two_ways() {
    assert_eq!(shared("store: { mode: strict }"), SharedStoreSettings::new(StoreMode::Strict));
    let hybrid = |millis| StoreMode::Hybrid { life: Duration::from_millis(millis) };
    for text in [
        "store: { mode: hybrid }",
        "rate_limit_sync: { enabled: true }",
        "store: { mode: hybrid }\nrate_limit_sync: { enabled: true, backend: redis }",
    ] {
        assert_eq!(shared(text), SharedStoreSettings::new(hybrid(100)), "{text}");
    }
    assert_eq!(shared("rate_limit_sync: { enabled: true, sync_interval_ms: 50 }").mode, hybrid(50));
    assert_eq!(shared("store: { mode: hybrid }\nrate_limit_sync: { sync_interval_ms: 10 }").mode, hybrid(10));
    let whole = shared(
        "store: { mode: strict, redis: { url: \"rediss://me:p@ss@h:1/0?x=s3cret\", deadline: 50ms, prefix: a-b:c, ca: ca.pem } }",
    );
    assert_eq!(whole.display_url(), "rediss://h:1/0");
    for password in ["p#q", "p?q", "p@q", "p/q"] {
        let store = SharedStoreSettings {
            url: format!("redis://:{password}@h:1"),
            ..SharedStoreSettings::new(StoreMode::Strict)
        };
        assert_eq!(store.display_url(), "redis://h:1", "{password}");
    }
    assert_eq!((whole.deadline, whole.prefix.as_str()), (Nanos::from_millis(50), "a-b:c"));
    assert_eq!(whole.ca.as_deref(), Some(Path::new("/etc/tidegate/ca.pem")));
    assert!(!format!("{whole:?}").contains("s3cret"));
}

#[test]
fn what_limits_do_without_the_store_can_be_said_for_all() {
    let fallback = |word: &str| {
        let text = format!("rate_limit_sync: {{ enabled: true, fallback_on_error: {word} }}");
        read_here(&text).expect("it is right").0.on_store_error
    };
    assert_eq!(
        ["local_only", "open", "closed"].map(fallback),
        [OnStoreError::Local, OnStoreError::Open, OnStoreError::Closed]
    );
    assert!(wrong("rate_limit_sync: { fallback_on_error: fail_open }")[0].contains("`open`"));
}

#[test]
fn shared_stores_that_make_no_sense_are_refused() {
    for (text, part) in [
        ("store: { mode: strict, nodes: 3 }", "nodes that share a Redis find each other there"),
        ("store: { nodes: 2 }\nrate_limit_sync: { enabled: true }", "the mode is `hybrid`"),
        ("store: { mode: strict, redis: { prefix: \"a{b}\" } }", "this cannot be a key prefix"),
        ("store: { mode: strict, redis: { deadline: 11s } }", "store.redis.deadline"),
        ("rate_limit_sync: { enabled: true, sync_interval_ms: 9 }", "out of range"),
        ("rate_limit_sync: { enabled: true, sync_interval_ms: 10001 }", "out of range"),
    ] {
        let message = wrong(text).join("\n");
        assert!(message.contains(part), "{text}: {message}");
    }
    assert_eq!(read_here("store: { mode: strict, nodes: 1 }").expect("it is right").0.nodes, 1);
}

#[test]
fn contradictions_are_errors() {
    for text in [
        "store: { mode: local }\nrate_limit_sync: { enabled: true }",
        "store: { mode: strict }\nrate_limit_sync: { enabled: true }",
        "store: { mode: hybrid }\nrate_limit_sync: { enabled: false }",
    ] {
        let message = wrong(text);
        assert!(message.iter().any(|message| message.contains("remove `rate_limit_sync`")), "{message:?}");
    }
}

#[test]
fn tokens_are_verified_in_one_way() {
    for (text, part) in [
        ("jwt: { issuer: x }", "no key to verify"),
        ("jwt: { jwks: a.json, key: s3cret, algorithm: HS256 }", "`key` are both set"),
        ("jwt: { key: s3cret }", "without `algorithm`"),
        ("jwt: { jwks: a.json, algorithm: HS256 }", "together with `jwks`"),
    ] {
        let message = wrong(text);
        assert!(message[0].contains(part) && !message[0].contains("s3cret"), "{message:?}");
    }
}

#[test]
fn a_redis_that_is_not_used_is_warned_of() {
    let (_, warnings) = read_here("store: { redis: { url: \"redis://:s3cret@h\" } }").expect("it is right");
    assert_eq!(warnings.len(), 1);
    assert!(!warnings[0].to_string().contains("s3cret"));
}

#[test]
fn no_problem_repeats_a_secret() {
    for text in [
        "auth: s3cret",
        "auth: { http_tokn: s3cret }",
        "auth: { http_token:s3cret }",
        "auth:\n  http_token: [s3cret]",
        "auth:\n  http_token: { s3cret: s3cret }",
        "jwt: { key: \"s3cret\", algorithm: HS257 }",
        "auth: { http_token: [s3cret] }",
        "auth: { http_token: { s3cret: s3cret } }",
        "jwt: s3cret",
        "jwt: { key: HS256, algorithm: s3cret }",
        "jwt:\n  key: HS256\n  algorithm: s3cret\n",
        "jwt: { key: \"a\\\"s3cret,s3cret\", x: y }",
        "jwt: { key: [a,\n  s3cret], algorithm: x }",
        "store: { mode: \"redis://me:s3cret@h\" }",
        "otlp: |\n  https://me:s3cret@h\n",
        "otlp: >-\n  s3cret\n  s3cret\n",
        "otlp: s3cret",
        "otlp: \"https://me:s3cret@collector:4317\"",
        "otlp: [\"https://me:s3cret@collector:4317\"]",
        "store: { mode: strict, redis: \"redis://me:s3cret@host\" }",
        "store: { mode: strict, redis: { url: [\"redis://me:s3cret@host\"] } }",
        "otlp: { endpoint: \"s3cret\" }",
        "otlp: { endpoint: \"https://me:s3cret@collector:4317\" }",
        "listen: { http_token: s3cret }",
        "tls:\n  cert: a\n  password: |\n    s3cret\n    s3cret: s3cret\n  key: b\n",
        "{\"auth\": {\"http_token\": \"s3cret\", \"x\": 1}}",
    ] {
        let problems = read_here(text).expect_err("it is wrong");
        let report = report::text("settings.yaml", &masked(text), &problems, Paint::never());
        for message in wrong(text).into_iter().chain([report]) {
            assert!(!message.contains("s3cret"), "{text}: {message}");
        }
    }
}

#[test]
fn what_is_given_beats_the_file() {
    let (file, _) =
        read_here("listen: { http: 127.0.0.1:1, admin: off }\nauth: { http_token: a }").expect("right");
    let overrides = FlagsAndEnvironment {
        listen: [Some("127.0.0.1:2".into()), Some("off".into()), Some(String::new()), None],
        http_token: Some("b".into()),
        resp_password: Some(String::new()),
        redis_url: Some("redis://other".into()),
        ..FlagsAndEnvironment::default()
    };
    let settings = file.with(overrides).expect("it makes sense");
    assert_eq!(settings.listen[0], Some("127.0.0.1:2".parse().unwrap()));
    assert_eq!((settings.listen[1], settings.listen[3]), (None, None));
    assert_eq!(settings.listen[2], Settings::default().listen[2], "empty is as good as not set");
    assert_eq!((settings.http_token.as_deref(), settings.resp_password), (Some("b"), None));
    assert_eq!(settings.shared, None, "an address alone does not make nodes share");
    let (file, _) = read_here("store: { mode: strict, redis: { url: \"redis://one\" } }").expect("right");
    let overrides =
        FlagsAndEnvironment { redis_url: Some("redis://other".into()), ..FlagsAndEnvironment::default() };
    assert_eq!(
        file.with(overrides).expect("it makes sense").shared.map(|s| s.url),
        Some("redis://other".into())
    );
}

#[test]
fn what_makes_no_sense_is_refused() {
    let listen = |listener: Listener, address: &str| {
        let mut overrides = FlagsAndEnvironment::default();
        overrides.listen[listener as usize] = Some(address.into());
        overrides
    };
    let message = |overrides| Settings::default().with(overrides).expect_err("it makes no sense").to_string();
    assert!(message(listen(Listener::Http, "here")).starts_with("--http (or TIDEGATE_HTTP): `here` is not"));
    assert!(message(listen(Listener::Resp, "0.0.0.0:6380")).contains("TIDEGATE_RESP_PASSWORD"));
    let off = FlagsAndEnvironment {
        listen: [(); 4].map(|()| Some("off".into())),
        ..FlagsAndEnvironment::default()
    };
    assert!(message(off).contains("nothing to serve"));
    let open =
        FlagsAndEnvironment { resp_password: Some("p".into()), ..listen(Listener::Resp, "0.0.0.0:6380") };
    assert!(Settings::default().with(open).is_ok());
    assert_eq!(kill_switch_from(Some("allow")), Ok(true));
    assert_eq!(kill_switch_from(None), Ok(false));
    assert!(kill_switch_from(Some("1")).is_err());
}

#[test]
fn the_link_to_the_console_is_an_address_without_a_secret() {
    let link = |text: &str| wrong(&format!("admin: {{ console_link: \"{text}\" }}")).join("\n");
    for text in [
        "gate.example/console/",
        "/console/",
        "ftp://gate.example/",
        "https://me:s3cret@gate.example/console/",
        "https://gate.example/console/?token=s3cret",
        "https://gate.example/console/#s3cret",
        "javascript:s3cret",
        "",
    ] {
        let said = link(text);
        assert!(said.contains("admin.console_link") && !said.contains("s3cret"), "{text}: {said}");
    }
}

#[test]
fn every_link_of_the_reference_leads_somewhere() {
    let page = reference();
    for target in page.split("](#").skip(1).filter_map(|rest| rest.split(')').next()) {
        assert!(page.lines().any(|line| line.to_lowercase() == format!("## {target}")), "{target}");
    }
}
