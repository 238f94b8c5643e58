//! The index finds exactly the limits that a check of every limit finds.

use proptest::prelude::*;
use tidegate_policy::{Applicability, PathSpelling, Policy, Request};

const PATHS: &[&str] = &["/", "/a", "/a/b", "/a/*", "/a/**", "/*/b", "/**", "/a/*/c", "/A"];
const PLANS: &[&str] = &["free", "pro", "[free, pro]"];
const METHODS: &[&str] = &["GET", "[GET, POST]", "DELETE"];
const NETWORKS: &[&str] = &["10.0.0.0/8", "10.1.0.0/16", "\"::/0\"", "[192.0.2.1, 10.0.0.0/8]", "192.0.2.1"];
const KEYS: &[&str] = &["[]", "[user]", "[ip]", "[user, route]", "[\"header:x-key\"]", "[tenant]"];

/// Conditions, key, group, shadow, enabled.
type Limit = (Vec<String>, &'static str, Option<u8>, bool, bool);

fn condition() -> impl Strategy<Value = String> {
    let one = |name: &'static str, values: &'static [&'static str]| {
        prop::sample::select(values).prop_map(move |value| format!("{name}: {value}"))
    };
    prop_oneof![
        one("path", PATHS),
        one("plan", PLANS),
        one("methods", METHODS),
        one("ip", NETWORKS),
        one("\"header:x-key\"", &["k", "[k, j]"]),
        one("\"jwt:role\"", &["member", "[admin, member]"]),
        one("host", &["Example.com", "other.org"]),
        one("upstream", &["ours", "[ours, theirs]", "unheard-of"]),
        one("\"query:q\"", &["cats", "dogs"]),
        one("\"descriptor:generic_key\"", &["x"]),
    ]
}

prop_compose! {
    fn limit()(
        conditions in prop::collection::vec(condition(), 0..3),
        key in prop::sample::select(KEYS),
        group in prop::option::of(0..3_u8),
        shadow in prop::bool::weighted(0.2),
        enabled in prop::bool::weighted(0.9),
    ) -> Limit {
        (conditions, key, group, shadow, enabled)
    }
}

fn policy(limits: &[Limit]) -> String {
    let mut text =
        String::from("version: 1\nroutes: [{ path: /a/*, methods: GET }, { path: /a/**, upstream: ours }]\n");
    text += "upstreams: [{ name: ours, hosts: ['*.example.com'] }, { name: theirs, hosts: example.com }]\nlimits:\n";
    for (number, (conditions, key, group, shadow, enabled)) in limits.iter().enumerate() {
        let mut seen: Vec<&str> = Vec::new();
        let mut kept = Vec::new();
        for condition in conditions {
            let name = condition.split(": ").next().expect("it has a name");
            if !seen.contains(&name) {
                seen.push(name);
                kept.push(condition.as_str());
            }
        }
        text += &format!(
            "  - name: l{number}\n    key: {key}\n    sustained: {{ rate: 1 }}\n    enabled: {enabled}\n"
        );
        text += &format!("    match: {{ {} }}\n", kept.join(", "));
        if let Some(group) = group {
            text += &format!("    group: g{group}\n");
        }
        if *shadow {
            text += "    mode: shadow\n";
        }
    }
    text + if limits.is_empty() { "    []\n" } else { "" }
}

prop_compose! {
    fn request()(
        user in prop::option::of(prop::sample::select(&["1", "2"][..])),
        tenant in prop::option::of(prop::sample::select(&["t"][..])),
        plan in prop::option::of(prop::sample::select(&["free", "pro", "gold"][..])),
        method in prop::option::of(prop::sample::select(&["GET", "get", "POST"][..])),
        path in prop::option::of(prop::sample::select(
            &["/", "/a", "//a/b", "/a/%62", "/a/x/c", "/a/b/../b?q=cats", "/q/b/", "/A"][..])),
        ip in prop::option::of(prop::sample::select(&["10.1.2.3", "192.0.2.1", "::ffff:10.9.9.9", "2001:db8::1"][..])),
        host in prop::option::of(prop::sample::select(&["EXAMPLE.com", "a.b.example.com:1", "nowhere"][..])),
        upstream in prop::option::weighted(0.3, prop::sample::select(&["ours", "unheard-of"][..])),
        header in prop::collection::vec(prop::sample::select(&[("X-Key", "k"), ("x-key", "j"), ("x-other", "k")][..]), 0..3),
        role in prop::option::of(prop::sample::select(&["member", "guest"][..])),
        generic in any::<bool>(),
    ) -> Request<'static> {
        let mut request = Request::new();
        request.user = user.map(Into::into);
        request.tenant = tenant.map(Into::into);
        request.plan = plan.map(Into::into);
        request.method = method.map(Into::into);
        request.path = path.map(Into::into);
        request.host = host.map(Into::into);
        request.upstream = upstream.map(Into::into);
        request.ip = ip.map(|ip| ip.parse().expect("it is an address"));
        for (name, value) in header {
            request = request.header(name, value);
        }
        if let Some(role) = role {
            request = request.claim("role", role);
        }
        if generic { request.descriptor("generic_key", "x") } else { request }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn the_index_finds_what_every_limit_says(limits in prop::collection::vec(limit(), 0..12), request in request()) {
        let text = policy(&limits);
        let policy = Policy::parse(&text).map_err(|error| TestCaseError::fail(format!("{text}\n{error}")))?;
        let facts = policy.rules.facts(&request);
        let planned: Vec<u32> = policy.rules.plan(&facts).items().iter().map(|item| item.rule).collect();
        let judged = policy.rules.judge(&facts);
        let applying = judged.iter().filter(|judged| matches!(judged.standing, Applicability::Applies));
        prop_assert_eq!(planned, applying.map(|judged| judged.number).collect::<Vec<_>>(), "{}\n{:?}", text, request);
    }
}

/// An IPv4 address or network mapped into IPv6; others unchanged.
fn mapped(text: &str) -> String {
    let (address, length) =
        text.split_once('/').map_or((text, None), |(address, length)| (address, Some(length)));
    match (address.parse::<std::net::IpAddr>(), length) {
        (Ok(std::net::IpAddr::V4(_)), Some(length)) => {
            format!("::ffff:{address}/{}", 96 + length.parse::<u8>().expect("a length"))
        }
        (Ok(std::net::IpAddr::V4(v4)), None) => format!("::ffff:{v4}"),
        _ => text.to_owned(),
    }
}

/// A policy of these tests with all values of `ip` mapped into IPv6.
fn mapped_policy(text: &str) -> String {
    let networks = NETWORKS.iter().map(|known| {
        let inner: Vec<String> = known
            .trim_matches(['[', ']'])
            .split(", ")
            .map(|one| format!("\"{}\"", mapped(one.trim_matches('"'))))
            .collect();
        (format!("ip: {known}"), format!("ip: [{}]", inner.join(", ")))
    });
    networks.fold(text.to_owned(), |text, (plain, mapped)| {
        text.replace(&format!("{plain},"), &format!("{mapped},"))
            .replace(&format!("{plain} }}"), &format!("{mapped} }}"))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// The same limits apply with the same keys, whether addresses are written as IPv4 or mapped into IPv6.
    #[test]
    fn a_mapped_address_is_the_address_it_maps(limits in prop::collection::vec(limit(), 0..12), request in request()) {
        let text = policy(&limits);
        let policies = [text.clone(), mapped_policy(&text)]
            .map(|text| Policy::parse(&text).unwrap_or_else(|error| panic!("{text}\n{error}")));
        let mut respelt = request.clone();
        respelt.ip = request.ip.map(|ip| match ip.to_canonical() {
            std::net::IpAddr::V4(v4) => v4.to_ipv6_mapped().into(),
            v6 => v6,
        });
        let mut seen: Vec<Vec<(u32, Vec<u8>)>> = Vec::new();
        for policy in &policies {
            for request in [&request, &respelt] {
                let facts = policy.rules.facts(request);
                let plan = policy.rules.plan(&facts);
                seen.push(plan.items().iter().map(|item| (item.rule, plan.key(item).to_vec())).collect());
            }
        }
        prop_assert!(seen.iter().all(|each| *each == seen[0]), "{}\n{:?}\n{:?}", text, request, seen);
    }
}

#[test]
fn a_mapped_network_is_the_network_it_maps() {
    let network = |text: &str| tidegate_document::unmapped(text.parse().unwrap()).to_string();
    assert_eq!(network("::ffff:10.0.0.0/104"), "10.0.0.0/8");
    assert_eq!(network("::ffff:10.0.0.5/128"), "10.0.0.5/32");
    assert_eq!(network("::ffff:0:0/96"), "0.0.0.0/0");
    assert_eq!(network("::ffff:0:0/95"), "::ffff:0.0.0.0/95", "more than what is mapped");
    assert_eq!(network("2001:db8::/32"), "2001:db8::/32");
    let blocked = |rule: &str| {
        let text = format!("version: 1\nlimits: []\nblock: [{{ ip: \"{rule}\" }}]\n");
        Policy::parse(&text).map(drop).map_err(|error| error.to_string())
    };
    assert_eq!(blocked("::ffff:10.0.0.0/104"), Ok(()));
    let beyond = blocked("::ffff:10.0.0.5/104").unwrap_err();
    assert!(beyond.contains("10.0.0.0/8"), "{beyond}");
}

/// A path, and another spelling of it that is the same path under the options.
fn respelled() -> impl Strategy<Value = (PathSpelling, String, String)> {
    let segment = prop::sample::select(
        &[
            "a", "B", "c-d", "\u{e9}", "\u{c9}", "x%00", "..", ".", "e.f", "%2A", "%zz", "%", "g%25h",
            "\u{3c2}",
        ][..],
    );
    let spelling = (any::<bool>(), any::<bool>(), any::<bool>()).prop_map(
        |(ignore_case, decode_slash, strip_params)| PathSpelling { ignore_case, decode_slash, strip_params },
    );
    let choices = prop::collection::vec((segment, any::<[u8; 4]>()), 0..6);
    (spelling, choices).prop_map(|(spelling, choices)| {
        let (mut plain, mut other) = (String::new(), String::new());
        for (segment, [slash, params, case, escapes]) in choices {
            plain += &format!("/{segment}");
            let slashes: &[&str] = if spelling.decode_slash {
                &["/", "%2F", "%2f", "%5c", "\\", "//"]
            } else {
                &["/", "//", "/./"]
            };
            other += slashes[usize::from(slash) % slashes.len()];
            let segment = match case % 3 {
                0 if spelling.ignore_case && !segment.contains('%') => segment.to_uppercase(),
                1 if spelling.ignore_case && !segment.contains('%') => segment.to_lowercase(),
                _ => segment.to_owned(),
            };
            let escape = |char: char| match char {
                '%' => "%".to_owned(),
                _ if escapes % 2 == 0 || segment.contains('%') => char.to_string(),
                _ => char.to_string().bytes().map(|byte| format!("%{byte:02x}")).collect(),
            };
            other.extend(segment.chars().map(escape));
            if spelling.strip_params && params % 2 == 0 {
                other += [";", ";x=y", ";A;b=%00", ";.."][usize::from(params) / 2 % 4];
            }
        }
        (spelling, plain, other)
    })
}

/// The limits that apply, and their keys.
type Applying = Vec<(u32, Vec<u8>)>;

/// The normal form of a path, its route, and which limits apply.
fn seen_by(policy: &Policy, path: &str) -> (Option<String>, Option<String>, Applying) {
    let request = Request::new().path(path.to_owned());
    let facts = policy.rules.facts(&request);
    let plan = policy.rules.plan(&facts);
    let route = facts.route().map(|(route, _)| route.to_owned());
    let items = plan.items().iter().map(|item| (item.rule, plan.key(item).to_vec()));
    (facts.path.as_deref().map(str::to_owned), route, items.collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3_000))]

    /// Spellings that are the same path under the options have the same route, limits and keys. Patterns may use any
    /// spelling, too.
    #[test]
    fn spellings_that_are_declared_one_evade_nothing((spelling, plain, other) in respelled(), swap in any::<bool>()) {
        let (pattern, path) = if swap { (&other, &plain) } else { (&plain, &other) };
        let PathSpelling { ignore_case, decode_slash, strip_params } = spelling;
        let pattern = if pattern.is_empty() { "/" } else { pattern.as_str() };
        let pattern = if pattern.starts_with('/') { pattern.to_owned() } else { format!("/{pattern}") };
        let quoted = format!("{pattern:?}");
        let text = format!(
            "version: 1\ndefaults: {{ paths: {{ ignore_case: {ignore_case}, decode_slash: {decode_slash}, strip_params: \
             {strip_params} }} }}\nroutes: [{{ path: {quoted}, cost: 2 }}, {{ path: /** }}]\nlimits:\n\
             - {{ name: by-pattern, key: [route], sustained: {{ rate: 9 }}, match: {{ path: {quoted} }} }}\n\
             - {{ name: by-path, key: [path], sustained: {{ rate: 9 }} }}\n\
             - {{ name: by-route, key: [route], sustained: {{ rate: 9 }}, match: {{ route: {quoted} }} }}\n"
        );
        let policy = Policy::parse(&text).map_err(|error| TestCaseError::fail(format!("{text}\n{error}")))?;
        let seen = seen_by(&policy, path);
        prop_assert_eq!(&seen, &seen_by(&policy, &pattern), "{}", text);
        let applying: Vec<u32> = seen.2.iter().map(|(rule, _)| *rule).collect();
        let all = if spelling == PathSpelling::default() { vec![0, 1] } else { vec![0, 1, 2] };
        prop_assert!(all.iter().all(|rule| applying.contains(rule)), "{:?} of {}", applying, text);
    }
}

/// The keys of a request to which one limit applies.
fn key(key: &str, request: &Request<'_>) -> Option<String> {
    let text = format!("version: 1\nlimits: [{{ name: l, key: {key}, sustained: {{ rate: 1 }} }}]\n");
    let policy = Policy::parse(&text).unwrap();
    let facts = policy.rules.facts(request);
    let plan = policy.rules.plan(&facts);
    plan.items().first().map(|item| String::from_utf8(plan.key(item).to_vec()).unwrap())
}

#[test]
fn spellings_of_one_thing_are_one_key() {
    let path = |path: &'static str| key("[path]", &Request::new().path(path));
    for spelling in
        ["/login", "//login", "/./login", "/x/../login", "/%6Cogin", "/login/", "/login?next=/", "login"]
    {
        assert_eq!(path(spelling).as_deref(), Some("/login"), "{spelling}");
    }
    assert_eq!(path("/a%2fb").as_deref(), Some("/a%2Fb"), "an encoded slash is no slash");
    assert_eq!(path("/%zz").as_deref(), Some("/%zz"));
    assert_eq!(path("/%c3%a9").as_deref(), Some("/%C3%A9"));
    assert_eq!(path("/é"), path("/%c3%a9"), "both spellings are one path");
    let ip = |ip: &str| key("[ip]", &Request::new().ip(ip.parse::<std::net::IpAddr>().unwrap()));
    assert_eq!(ip("2001:db8:1:2:3::4"), ip("2001:db8:1:2:ffff::"), "one /64 is one client");
    assert_ne!(ip("2001:db8:1:2::1"), ip("2001:db8:1:3::1"));
    assert_eq!(ip("::ffff:203.0.113.7"), ip("203.0.113.7"));
    assert_eq!(key("[host]", &Request::new().host("API.example.com")).as_deref(), Some("api.example.com"));
    assert_eq!(key("[method]", &Request::new().method("get")).as_deref(), Some("GET"));
    let query = |query: &'static str| key("[\"query:q\"]", &Request::new().query(query));
    assert_eq!(query("a=1&q=two+words%21").as_deref(), Some("two words!"));
    assert_eq!(query("a=1"), None);
}

#[test]
fn parts_of_a_key_do_not_run_together() {
    let two = |user: &'static str, client: &'static str| {
        key("[user, client]", &Request::new().user(user).client(client)).unwrap()
    };
    let keys =
        [two("a", "bc"), two("ab", "c"), two("a\u{1f}b", "c"), two("a", "b\u{1f}c"), two("a\u{1b}_b", "c")];
    for (index, key) in keys.iter().enumerate() {
        assert!(!keys[..index].contains(key), "{key:?}");
    }
}
