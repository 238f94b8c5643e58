//! Which upstream a request goes to.

use serde_json::Value;

use super::terms;

/// The first upstream with a pattern that matches the host.
pub(crate) fn of_host(policy: &Value, host: Option<String>) -> Option<String> {
    let host = bare(&host?);
    let found = terms::entries(policy, "upstreams").into_iter().find(|upstream| {
        let hosts = upstream.get("hosts").and_then(Value::as_array).cloned().unwrap_or_default();
        hosts.iter().any(|pattern| host_matches(pattern.as_str().unwrap(), &host))
    });
    found.map(|upstream| upstream["name"].as_str().unwrap().to_owned())
}

/// Lower case, without a port and without a dot at the end.
fn bare(host: &str) -> String {
    let host = host.to_lowercase();
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.chars().all(|c| c.is_ascii_digit()) && !name.contains(':') => name,
        _ => &host,
    };
    name.strip_suffix('.').unwrap_or(name).to_owned()
}

/// A star is one or more names, so the labels after it are the last of the host, and there are more of them.
fn host_matches(pattern: &str, host: &str) -> bool {
    let labels = |text: &str| text.split('.').map(str::to_owned).collect::<Vec<_>>();
    let (pattern, host) = (labels(&bare(pattern)), labels(host));
    match pattern.split_first() {
        Some((first, rest)) if first == "*" => {
            host.len() > rest.len() && host.ends_with(rest) && !host[0].is_empty()
        }
        _ => pattern == host,
    }
}

#[test]
fn hosts_are_matched_as_the_documents_say() {
    let matches = |pattern: &str, host: &str| host_matches(pattern, &bare(host));
    assert!(matches("*.example.com", "a.b.Example.com:80") && !matches("*.example.com", "example.com"));
    assert!(matches("example.com", "EXAMPLE.com.") && !matches("example.com", "www.example.com"));
    assert!(!matches("*.example.com", "aexample.com"));
}
