//! Whether a request matches conditions.

use std::net::IpAddr;

use serde_json::Value;

use super::request::{Request, Spellings, normal_path};

/// Do all members of a `match` hold?
pub(crate) fn all_hold(conditions: &Value, request: &Request<'_>) -> bool {
    let Some(conditions) = conditions.as_object() else { return true };
    conditions.iter().all(|(name, wanted)| holds(name, wanted, request))
}

/// Does the pattern match the path?
pub(crate) fn path_matches(pattern: &str, path: &str, spellings: Spellings) -> bool {
    let pattern = normal_path(pattern, spellings);
    let wanted: Vec<&str> = segments(&pattern);
    let found: Vec<&str> = segments(path);
    let (wanted, deep) = match wanted.split_last() {
        Some((&"**", before)) => (before, true),
        _ => (&wanted[..], false),
    };
    let long_enough = if deep { found.len() >= wanted.len() } else { found.len() == wanted.len() };
    let is_any = |wanted: &str| wanted == "*" || (wanted.starts_with('{') && wanted.ends_with('}'));
    long_enough && wanted.iter().zip(&found).all(|(wanted, found)| is_any(wanted) || wanted == found)
}

/// Does any of the values match?
fn holds(name: &str, wanted: &Value, request: &Request<'_>) -> bool {
    let wanted: Vec<&str> = match wanted {
        Value::Array(list) => list.iter().map(|value| value.as_str().expect("a text")).collect(),
        one => vec![one.as_str().expect("a text")],
    };
    match name {
        "path" => {
            let matches = |one: &&str, path: &str| path_matches(one, path, request.spellings);
            request.path().is_some_and(|path| wanted.iter().any(|one| matches(one, &path)))
        }
        "ip" | "ip:address" => request.address().is_some_and(|ip| wanted.iter().any(|one| within(ip, one))),
        "methods" | "method" => request
            .value("method")
            .is_some_and(|method| wanted.iter().any(|one| one.to_uppercase() == method)),
        "host" => {
            request.value("host").is_some_and(|host| wanted.iter().any(|one| one.to_lowercase() == host))
        }
        other => request.value(other).is_some_and(|value| wanted.contains(&value.as_str())),
    }
}

/// Is the address in the network, or the address itself?
fn within(ip: IpAddr, network: &str) -> bool {
    let (base, length) = match network.split_once('/') {
        Some((base, length)) => (base, Some(length.parse::<u32>().expect("a prefix length"))),
        None => (network, None),
    };
    // An IPv4-mapped network is treated as the IPv4 network.
    let base = base.parse::<IpAddr>().expect("an address");
    let mapped = match base {
        IpAddr::V6(v6) => v6.to_ipv4_mapped().filter(|_| length.is_none_or(|length| length >= 96)),
        IpAddr::V4(_) => None,
    };
    let (base, length) = match mapped {
        Some(v4) => (IpAddr::V4(v4), length.map(|length| length - 96)),
        None => (base, length),
    };
    match (ip, base) {
        (IpAddr::V4(ip), IpAddr::V4(base)) => {
            let apart = u128::from(ip.to_bits() ^ base.to_bits());
            apart >> (32 - length.unwrap_or(32)) == 0
        }
        (IpAddr::V6(ip), IpAddr::V6(base)) => {
            let apart = ip.to_bits() ^ base.to_bits();
            apart.checked_shr(128 - length.unwrap_or(128)).unwrap_or(0) == 0
        }
        _ => false,
    }
}

fn segments(path: &str) -> Vec<&str> {
    path.split('/').filter(|segment| !segment.is_empty()).collect()
}

#[test]
fn patterns_and_networks() {
    let path_matches = |pattern, path| path_matches(pattern, path, Spellings::default());
    assert!(path_matches("/api/**", "/api") && path_matches("/api/**", "/api/a/b"));
    assert!(path_matches("/api/*", "/api/a") && !path_matches("/api/*", "/api/a/b"));
    assert!(path_matches("/a/{id}/b", "/a/7/b") && !path_matches("/a/{id}", "/a/7/b"));
    assert!(!path_matches("/api/*", "/api") && path_matches("/**", "/"));
    let ip = |text: &str| text.parse::<IpAddr>().unwrap();
    assert!(within(ip("10.1.2.3"), "10.0.0.0/8") && !within(ip("11.1.2.3"), "10.0.0.0/8"));
    assert!(within(ip("2001:db8::1"), "2001:db8::/32") && within(ip("::1"), "::/0"));
    assert!(within(ip("10.1.2.3"), "10.1.2.3") && !within(ip("10.1.2.4"), "10.1.2.3"));
}
