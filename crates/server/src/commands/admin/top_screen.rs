//! The screen of `tidegate top`, as text.

use serde_json::Value;

use crate::commands::terminal::paint::{Paint, Tone, printable};

/// How many limits, and keys of each kind, are shown.
const ROWS_MAX: usize = 10;

/// The screen for the answers of `/overview` and `/hot-keys`.
pub(super) fn screen(overview: &Value, keys: &Value, server: &str, paint: Paint) -> String {
    let mut text = format!("{}  {}\n", paint.tone(Tone::Strong, "tidegate"), printable(server));
    text.push_str(&format!("{}\n\n", word(overview, "time")));
    if overview["kill_switch"] == true {
        let warning = "the kill switch is on: everything is admitted";
        text.push_str(&format!("{}\n\n", paint.tone(Tone::Bad, warning)));
    }
    if overview.get("decisions_per_second").is_some() {
        text.push_str(&totals(overview, paint));
    }
    text.push_str(&limits(overview, paint));
    text.push_str(&hot_keys(keys, paint));
    text.push_str(&nodes(overview, paint));
    text
}

fn totals(overview: &Value, paint: Paint) -> String {
    let denied = number(overview, "denied_per_second");
    let tone = if denied > 0.0 { Tone::Warn } else { Tone::Good };
    let mut text = format!(
        "{} a second   allowed {}   denied {}",
        paint.tone(Tone::Strong, grouped(number(overview, "decisions_per_second"))),
        grouped(number(overview, "allowed_per_second")),
        paint.tone(tone, grouped(denied)),
    );
    if let Some(times) = overview.get("decision_time_us") {
        let (p50, p99) = (number(times, "p50"), number(times, "p99"));
        text.push_str(&format!("   p50 ≤ {p50} µs   p99 ≤ {p99} µs"));
    }
    let bound = number(overview, "overshoot_bound_tokens");
    if bound > 0.0 {
        text.push_str(&format!("   overshoot ≤ {} tokens a key", grouped(bound)));
    }
    text.push('\n');
    for (reason, rate) in overview["denied_by_reason"].as_object().into_iter().flatten() {
        let rate = grouped(rate.as_f64().unwrap_or_default());
        text.push_str(&format!("  {rate:>12}  {}\n", printable(reason)));
    }
    text + "\n"
}

fn limits(overview: &Value, paint: Paint) -> String {
    let rows: Vec<&Value> = items(overview, "limits").take(ROWS_MAX).collect();
    let mut text = heading(paint, &format!("{:>12}  {:>12}  limit", "denied/s", "allowed/s"));
    if rows.is_empty() {
        text.push_str("  no limit has decided anything in the last second\n");
    }
    for limit in rows {
        let denied = number(limit, "denied_per_second");
        let tone = if denied > 0.0 { Tone::Bad } else { Tone::Faint };
        text.push_str(&format!(
            "  {}  {:>12}  {}\n",
            paint.tone(tone, format!("{:>12}", grouped(denied))),
            grouped(number(limit, "allowed_per_second")),
            paint.tone(Tone::Name, word(limit, "name")),
        ));
    }
    text + "\n"
}

fn hot_keys(keys: &Value, paint: Paint) -> String {
    let mut text = String::new();
    for (member, title) in [("denied", "denials"), ("consumers", "tokens")] {
        let rows: Vec<&Value> = items(keys, member).take(ROWS_MAX).collect();
        if rows.is_empty() {
            continue;
        }
        text.push_str(&heading(paint, &format!("{title:>12}  key, in the last minute")));
        for key in rows {
            text.push_str(&format!(
                "  {:>12}  {}  {}\n",
                grouped(number(key, "count")),
                word(key, "key"),
                paint.tone(Tone::Faint, word(key, "limit")),
            ));
        }
        text.push('\n');
    }
    text
}

fn nodes(overview: &Value, paint: Paint) -> String {
    let mut text = String::new();
    for (place, node) in items(overview, "nodes").enumerate() {
        if place == 0 {
            text.push_str(&heading(
                paint,
                &format!("{:>12}  {:>7}  status    node", "decisions/s", "policy"),
            ));
        }
        let status = word(node, "status");
        let tone = if status == "ready" { Tone::Good } else { Tone::Bad };
        let store = match node.get("store_up").and_then(Value::as_bool) {
            Some(true) => format!("{}, store up", word(node, "mode")),
            Some(false) => format!("{}, store down", word(node, "mode")),
            None => word(node, "mode"),
        };
        text.push_str(&format!(
            "  {:>12}  {:>7}  {}  {} ({store})\n",
            grouped(number(node, "decisions_per_second")),
            node["version"].as_u64().unwrap_or_default(),
            paint.tone(tone, format!("{status:<8}")),
            word(node, "id"),
        ));
        for (what, detail) in node["problems"].as_object().into_iter().flatten() {
            let detail = printable(detail.as_str().unwrap_or_default());
            text.push_str(&format!("      {}: {detail}\n", paint.tone(Tone::Bad, printable(what))));
        }
    }
    text
}

fn heading(paint: Paint, text: &str) -> String {
    format!("  {}\n", paint.tone(Tone::Faint, text))
}

fn items<'v>(value: &'v Value, name: &str) -> impl Iterator<Item = &'v Value> {
    value.get(name).and_then(Value::as_array).into_iter().flatten()
}

fn number(value: &Value, name: &str) -> f64 {
    value.get(name).and_then(Value::as_f64).unwrap_or_default()
}

fn word(value: &Value, name: &str) -> String {
    printable(value.get(name).and_then(Value::as_str).unwrap_or_default())
}

/// A number with its thousands apart, and a tenth if it is small.
fn grouped(number: f64) -> String {
    if number < 10.0 && number.fract() != 0.0 {
        return format!("{number:.1}");
    }
    let digits = format!("{:.0}", number);
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_screen_shows_what_is_refused_and_what_is_wrong() {
        let overview = json!({
            "time": "2027-01-01T00:00:00.000Z", "decisions_per_second": 12345.0, "allowed_per_second": 12000.0,
            "denied_per_second": 345.0, "denied_by_reason": { "token_bucket_exceeded": 345.0 },
            "limits": [{ "name": "per-user\u{1b}[31m", "allowed_per_second": 0.5, "denied_per_second": 345.0 }],
            "decision_time_us": { "p50": 0.5, "p99": 2.5 }, "kill_switch": false, "overshoot_bound_tokens": 40,
            "nodes": [{ "id": "n1", "version": 7, "status": "degraded", "mode": "hybrid", "store_up": false,
                        "problems": { "store": "it has not answered for 3 s" }, "decisions_per_second": 12345.0 }],
        });
        let keys = json!({ "denied": [{ "limit": "per-user", "key": "42", "count": 1000, "error": 0 }], "consumers": [] });
        let text = screen(&overview, &keys, "http://127.0.0.1:9090", Paint::never());
        for part in [
            "12,345 a second",
            "denied 345",
            "p99 ≤ 2.5 µs",
            "overshoot ≤ 40 tokens a key",
            "token_bucket_exceeded",
            "1,000  42  per-user",
            "n1 (hybrid, store down)",
            "store: it has not answered for 3 s",
        ] {
            assert!(text.contains(part), "{part} is missing in:\n{text}");
        }
        assert!(!text.contains('\u{1b}'), "what others have written does not command the terminal");
        let own = screen(&json!({ "time": "t", "limits": [] }), &json!({}), "s", Paint::never());
        assert!(own.contains("no limit has decided") && !own.contains("a second   allowed"), "{own}");
    }

    #[test]
    fn numbers_are_grouped() {
        let texts = [0.0, 0.5, 9.96, 10.4, 999.0, 1_000.0, 1_234_567.0].map(grouped);
        assert_eq!(texts, ["0", "0.5", "10.0", "10", "999", "1,000", "1,234,567"]);
    }
}
