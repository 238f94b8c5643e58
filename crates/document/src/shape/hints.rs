//! Hints: what the author of a wrong value probably meant.

use crate::nearest::nearest;
use crate::node::{DocumentNode, ValueKind};

use super::value::WINDOWS;
use super::{ObjectShape, Shape, WordShape};

/// For a field that a map does not have.
pub(super) fn field(seen: &str, object: &ObjectShape) -> Option<String> {
    if let Some(field) = object.fields().find(|field| field.also.contains(&seen)) {
        return Some(format!("did you mean `{}`?", field.name));
    }
    let inside = object.fields().find_map(|field| match &field.shape {
        Shape::Object(child) | Shape::ObjectOr(child, _) if child.open_fields.is_none() => {
            child.fields().any(|field| field.name == seen).then_some(field.name)
        }
        _ => None,
    });
    if let Some(inside) = inside {
        return Some(format!("`{seen}` belongs inside `{inside}`"));
    }
    let suggested = object.open_fields.map(|open| (open.suggested)()).unwrap_or_default();
    let known = object.fields().map(|field| field.name).chain(suggested);
    if let Some(name) = nearest(seen, known) {
        return Some(format!("did you mean `{name}`?"));
    }
    match object.open_fields {
        Some(open) => (open.hint)(seen),
        None => open_field_inside(seen, object),
    }
}

/// For an open field of a map that is itself a field of this one.
fn open_field_inside(seen: &str, object: &ObjectShape) -> Option<String> {
    object.fields().find_map(|field| {
        let Shape::Object(child) = field.shape else { return None };
        let open = child.open_fields.filter(|open| (open.shape_of)(seen).is_some())?;
        let name = field.name;
        Some(format!("{} belong inside `{name}`: `{name}: {{ {seen}: … }}`", open.entries))
    })
}

/// For a scalar where a map belongs.
pub(super) fn object(node: &DocumentNode, field: &str, object: &ObjectShape) -> Option<String> {
    let seen = node.scalar()?;
    if let Some((name, value)) = seen.split_once(':')
        && object.fields().any(|field| field.name == name)
    {
        return Some(format!("write a space after the colon: `{name}: {value}`"));
    }
    let inside = object.shorthand?;
    let value = if is_shorthand(node, object) { written(node) } else { "…".to_owned() };
    let map = format!("{{ {inside}: {value} }}");
    Some(if field.is_empty() { format!("write `{map}`") } else { format!("write `{field}: {map}`") })
}

/// Could the scalar be the value of the map's shorthand field?
pub(super) fn is_shorthand(node: &DocumentNode, object: &ObjectShape) -> bool {
    let shape = object.shorthand.and_then(|name| object.shape_of(name));
    shape.is_some_and(|shape| super::value::fits(node, shape))
}

/// For a value that is not a list where a list belongs.
pub(super) fn list(node: &DocumentNode, field: &str) -> Option<String> {
    match &node.kind {
        ValueKind::Map(entries) if entries.is_empty() => Some(format!("write `{field}: []`")),
        ValueKind::Map(_) => Some("begin each entry with `- `".into()),
        ValueKind::Null => Some(format!("write `{field}: []` if there are none")),
        ValueKind::Text(text) => {
            let items: Vec<&str> = text.split([',', ' ', '+']).filter(|item| !item.is_empty()).collect();
            Some(format!("write `{field}: [{}]`", items.join(", ")))
        }
        _ => Some(format!("write `{field}: [{}]`", node.scalar()?)),
    }
}

/// For a word that is not in the table.
pub(super) fn word(seen: &str, words: &[WordShape]) -> Option<String> {
    let folded = seen.to_ascii_lowercase();
    let meant = words.iter().find(|word| word.also.contains(&folded.as_str())).map(|word| word.name);
    let meant = meant.or_else(|| nearest(seen, words.iter().map(|word| word.name)))?;
    Some(format!("did you mean `{meant}`?"))
}

/// For a value that is not a whole number.
pub(super) fn integer(node: &DocumentNode) -> Option<String> {
    match &node.kind {
        ValueKind::Text(text) => {
            let digits: String = text.chars().filter(|c| !matches!(c, '_' | ',' | ' ' | '\'')).collect();
            if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit() || b == b'.') {
                return Some(format!("write it as a plain number: `{digits}`"));
            }
            let end = text.find(|c: char| !c.is_ascii_digit()).filter(|end| *end > 0)?;
            Some(format!("write the number alone: `{}`", &text[..end]))
        }
        ValueKind::Number(text) if text.starts_with('-') => Some("it cannot be negative".into()),
        ValueKind::Number(_) => Some("write it in decimal digits, without a fraction or an exponent".into()),
        _ => None,
    }
}

/// For a value that is neither true nor false.
pub(super) fn flag(node: &DocumentNode) -> Option<String> {
    let flag = match node.scalar()?.to_ascii_lowercase().as_str() {
        "yes" | "on" | "1" | "true" | "y" | "enabled" => "true",
        "no" | "off" | "0" | "false" | "n" | "disabled" => "false",
        _ => return None,
    };
    Some(format!("write `{flag}`"))
}

/// For a value that is not a duration.
pub(super) fn duration(node: &DocumentNode) -> Option<String> {
    let meant = as_duration(node.scalar()?)?;
    Some(format!("write it as `{meant}`"))
}

/// For a value that is not a window.
pub(super) fn window(node: &DocumentNode) -> Option<String> {
    let seen = node.scalar()?;
    let seen = seen.strip_prefix("per").map_or(seen, |rest| rest.trim_start_matches([' ', '_', '-']));
    if let Some((word, _)) = WINDOWS.iter().find(|(word, _)| seen == format!("{word}s") || seen == *word) {
        return Some(format!("write it as `{word}`"));
    }
    if let Some(word) = unit(seen).and_then(unit_word) {
        return Some(format!("write it as `{word}`"));
    }
    if let Some(meant) = as_duration(seen) {
        return Some(format!("write it as `{meant}`"));
    }
    let word = nearest(seen, WINDOWS.iter().map(|(word, _)| *word))?;
    Some(format!("did you mean `{word}`?"))
}

/// `10 sec` → `10s`, `1.5s` → `1500ms`, `5` → `5s`, `minute` → `1m`.
fn as_duration(seen: &str) -> Option<String> {
    let seen = seen.trim();
    let end = seen.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(seen.len());
    let (number, word) = seen.split_at(end);
    let number = if number.is_empty() { "1" } else { number };
    let word = word.trim().to_ascii_lowercase();
    let unit = if word.is_empty() { "s" } else { unit(&word)? };
    match number.split_once('.') {
        None => Some(format!("{number}{unit}")),
        Some((whole, fraction)) => {
            let (smaller, factor) = match unit {
                "s" => ("ms", 1_000),
                "m" => ("s", 60),
                "h" => ("m", 60),
                "d" => ("h", 24),
                _ => return None,
            };
            let scale = 10_u64.checked_pow(u32::try_from(fraction.len()).ok()?)?;
            let parts = whole.parse::<u64>().ok()?.checked_mul(scale)?.checked_add(fraction.parse().ok()?)?;
            let total = parts.checked_mul(factor)?;
            (total % scale == 0).then(|| format!("{}{smaller}", total / scale))
        }
    }
}

fn unit(word: &str) -> Option<&'static str> {
    match word {
        "ms" | "msec" | "msecs" | "millis" | "millisecond" | "milliseconds" => Some("ms"),
        "s" | "sec" | "secs" | "second" | "seconds" => Some("s"),
        "m" | "min" | "mins" | "minute" | "minutes" => Some("m"),
        "h" | "hr" | "hrs" | "hour" | "hours" => Some("h"),
        "d" | "day" | "days" => Some("d"),
        _ => None,
    }
}

fn unit_word(unit: &str) -> Option<&'static str> {
    match unit {
        "s" => Some("second"),
        "m" => Some("minute"),
        "h" => Some("hour"),
        "d" => Some("day"),
        _ => None,
    }
}

/// For a text that is not a network.
pub(super) fn network(seen: &str) -> Option<String> {
    if let Some(stem) = seen.strip_suffix(".*") {
        let octets = stem.split('.').filter(|part| *part != "*").collect::<Vec<_>>();
        if (1..=3).contains(&octets.len()) && octets.iter().all(|octet| octet.parse::<u8>().is_ok()) {
            let zeros = ".0".repeat(4 - octets.len());
            return Some(format!("write it as `{}{zeros}/{}`", octets.join("."), octets.len() * 8));
        }
    }
    Some("for instance `10.0.0.0/8`, `192.0.2.7` or `2001:db8::/32`".into())
}

/// For a text that is not an address to listen on.
pub(super) fn listen(seen: &str) -> Option<String> {
    let (host, port) = seen.rsplit_once(':').unwrap_or(("127.0.0.1", seen));
    let host = match host.trim_start_matches("http://") {
        "localhost" => "127.0.0.1",
        "" | "*" => "0.0.0.0",
        other => other,
    };
    let meant = format!("{host}:{port}");
    match seen {
        "false" | "none" | "no" | "disabled" | "-" => Some("write `off`".into()),
        _ if meant.parse::<std::net::SocketAddr>().is_ok() => Some(format!("write it as `{meant}`")),
        _ if seen.parse::<std::net::IpAddr>().is_ok() => Some("add a port, as in `127.0.0.1:8080`".into()),
        _ => Some("write numbers, not a name: `127.0.0.1:8080`, or `\"[::1]:8080\"` in quotes".into()),
    }
}

/// For a text that is not a point in time.
pub(super) fn instant(seen: &str) -> Option<String> {
    let fits = |text: &str| text.parse::<jiff::Timestamp>().is_ok();
    [format!("{seen}T00:00:00Z"), format!("{seen}Z"), format!("{}Z", seen.replacen(' ', "T", 1))]
        .into_iter()
        .find(|meant| fits(meant))
        .map(|meant| format!("write it as `{meant}`"))
        .or_else(|| Some("for instance `2030-01-31T12:00:00Z`".into()))
}

/// A scalar as it could be written in YAML.
fn written(node: &DocumentNode) -> String {
    match &node.kind {
        ValueKind::Text(text) if text.chars().all(|c| c.is_ascii_alphanumeric() || "-_./*".contains(c)) => {
            text.clone()
        }
        ValueKind::Text(text) => crate::text::shorten(text),
        _ => node.scalar().unwrap_or_default().to_owned(),
    }
}
