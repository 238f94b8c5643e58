//! The screen of `tidegate top`: whole as text, or as much of it as a terminal has room for.

use serde_json::Value;

use crate::commands::terminal::paint::{Paint, Tone, printable};

/// How many limits, and keys of each kind, are shown.
const ROWS_MAX: usize = 10;

/// A screen in sections, of which the less important ones lose rows where there is little room.
#[derive(Clone, Debug)]
pub(super) struct TopScreen {
    /// From top to bottom.
    sections: Vec<Section>,
    paint: Paint,
}

/// A part of the screen.
#[derive(Clone, Debug)]
struct Section {
    importance: Importance,
    /// Lines that are shown if anything of it is.
    head: Vec<String>,
    /// Rows, each of one line or more, of which the last ones may be left out.
    rows: Vec<Vec<String>>,
}

/// What is shown first where there is little room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Importance {
    Title,
    Totals,
    Limits,
    HotKeys,
    Nodes,
}

impl Section {
    /// How many lines it has with so many of its rows, and with the line that tells how many more there are.
    fn lines_with(&self, rows: usize) -> usize {
        let lines = self.rows[..rows].iter().map(Vec::len).sum::<usize>();
        self.head.len() + lines + usize::from(rows < self.rows.len())
    }

    fn lines(&self, rows: usize, paint: Paint) -> Vec<String> {
        let shown = self.head.iter().chain(self.rows[..rows].iter().flatten()).cloned();
        let left_out = self.rows.len() - rows;
        let more = (left_out > 0).then(|| heading(paint, &format!("… and {left_out} more")));
        shown.chain(more).collect()
    }
}

impl TopScreen {
    /// The screen for the answers of `/overview` and `/hot-keys`.
    pub(super) fn new(overview: &Value, keys: &Value, server: &str, paint: Paint) -> TopScreen {
        let mut head = vec![
            format!("{}  {}", paint.tone(Tone::Strong, "tidegate"), printable(server)),
            word(overview, "time"),
        ];
        if overview["kill_switch"] == true {
            let warning = "the kill switch is on: everything is admitted";
            head.push(paint.tone(Tone::Bad, warning).to_string());
        }
        let missing = overview["incomplete"].as_object().into_iter().flatten();
        head.extend(
            missing.map(|(_, why)| {
                paint.tone(Tone::Warn, printable(why.as_str().unwrap_or_default())).to_string()
            }),
        );
        let mut sections = vec![Section { importance: Importance::Title, head, rows: Vec::new() }];
        if overview.get("decisions_per_second").is_some() {
            sections.push(totals(overview, paint));
        }
        sections.push(limits(overview, paint));
        sections.extend(hot_keys(keys, paint));
        sections.extend(nodes(overview, paint));
        TopScreen { sections, paint }
    }

    /// The same screen with a problem above everything else.
    pub(super) fn with_problem(&self, problem: String) -> TopScreen {
        let mut screen = self.clone();
        if let Some(title) = screen.sections.first_mut() {
            title.head.splice(..0, [self.paint.tone(Tone::Bad, problem).to_string(), String::new()]);
        }
        screen
    }

    /// All of it.
    pub(super) fn text(&self) -> String {
        let all = self.sections.iter().map(|section| Some(section.rows.len()));
        self.lines(&all.collect::<Vec<_>>()).iter().map(|line| format!("{line}\n")).collect()
    }

    /// As much of it as so many lines have room for.
    pub(super) fn fitting(&self, most: usize) -> Vec<String> {
        let mut by_importance: Vec<usize> = (0..self.sections.len()).collect();
        by_importance.sort_by_key(|place| self.sections[*place].importance);
        let mut shown: Vec<Option<usize>> = vec![None; self.sections.len()];
        let mut left = most;
        // The beginning of as many sections as possible, then more rows of the most important ones.
        for place in by_importance.iter().copied() {
            let section = &self.sections[place];
            let between = usize::from(shown.iter().any(Option::is_some));
            let fits = |rows: &usize| between + section.lines_with(*rows) <= left;
            let rows = match section.importance {
                // The first lines are shown whatever else is.
                Importance::Title => Some(0),
                _ => (0..=section.rows.len().min(1)).rev().find(fits),
            };
            if let Some(rows) = rows {
                left = left.saturating_sub(between + section.lines_with(rows));
                shown[place] = Some(rows);
            }
        }
        for place in by_importance {
            let (section, Some(rows)) = (&self.sections[place], &mut shown[place]) else { continue };
            let now = section.lines_with(*rows);
            let fits = |more: &usize| section.lines_with(*more) <= now + left;
            if let Some(more) = (*rows..=section.rows.len()).rev().find(fits) {
                left = left + now - section.lines_with(more);
                *rows = more;
            }
        }
        let mut lines = self.lines(&shown);
        lines.truncate(most);
        lines
    }

    /// The sections with so many of their rows, an empty line between them.
    fn lines(&self, shown: &[Option<usize>]) -> Vec<String> {
        let mut lines = Vec::new();
        for (section, rows) in self.sections.iter().zip(shown).filter_map(|(a, rows)| Some((a, (*rows)?))) {
            if !lines.is_empty() {
                lines.push(String::new());
            }
            lines.extend(section.lines(rows, self.paint));
        }
        lines
    }
}

fn totals(overview: &Value, paint: Paint) -> Section {
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
    let reason = |(reason, rate): (&String, &Value)| {
        let rate = grouped(rate.as_f64().unwrap_or_default());
        vec![format!("  {rate:>12}  {}", printable(reason))]
    };
    let reasons = overview["denied_by_reason"].as_object().into_iter().flatten().map(reason);
    Section { importance: Importance::Totals, head: vec![text], rows: reasons.collect() }
}

fn limits(overview: &Value, paint: Paint) -> Section {
    let row = |limit: &Value| {
        let denied = number(limit, "denied_per_second");
        let tone = if denied > 0.0 { Tone::Bad } else { Tone::Faint };
        vec![format!(
            "  {}  {:>12}  {}",
            paint.tone(tone, format!("{:>12}", grouped(denied))),
            grouped(number(limit, "allowed_per_second")),
            paint.tone(Tone::Name, word(limit, "name")),
        )]
    };
    let mut rows: Vec<Vec<String>> = items(overview, "limits").take(ROWS_MAX).map(row).collect();
    if let Some(others) = overview.get("other_limits") {
        let (denied, allowed) = (number(others, "denied_per_second"), number(others, "allowed_per_second"));
        rows.push(vec![format!(
            "  {:>12}  {:>12}  (limits that are not named)",
            grouped(denied),
            grouped(allowed)
        )]);
    }
    // Where something is missing, the screen says so and not that there is nothing.
    if rows.is_empty() && overview.get("incomplete").is_none() {
        rows.push(vec!["  no limit has decided anything in the last second".to_owned()]);
    }
    let head = vec![heading(paint, &format!("{:>12}  {:>12}  limit", "denied/s", "allowed/s"))];
    Section { importance: Importance::Limits, head, rows }
}

fn hot_keys(keys: &Value, paint: Paint) -> impl Iterator<Item = Section> {
    let row = move |key: &Value| {
        vec![format!(
            "  {:>12}  {}  {}",
            grouped(number(key, "count")),
            word(key, "key"),
            paint.tone(Tone::Faint, word(key, "limit")),
        )]
    };
    let section = move |(member, title): (&str, &str)| {
        let rows: Vec<Vec<String>> = items(keys, member).take(ROWS_MAX).map(row).collect();
        let head = vec![heading(paint, &format!("{title:>12}  key, in the last minute"))];
        (!rows.is_empty()).then_some(Section { importance: Importance::HotKeys, head, rows })
    };
    [("denied", "denials"), ("consumers", "tokens")].into_iter().filter_map(section)
}

fn nodes(overview: &Value, paint: Paint) -> Option<Section> {
    let rows: Vec<Vec<String>> = items(overview, "nodes").map(|node| node_lines(node, paint)).collect();
    let head = vec![heading(paint, &format!("{:>12}  {:>7}  status    node", "decisions/s", "policy"))];
    (!rows.is_empty()).then_some(Section { importance: Importance::Nodes, head, rows })
}

fn node_lines(node: &Value, paint: Paint) -> Vec<String> {
    let status = word(node, "status");
    let tone = if status == "ready" { Tone::Good } else { Tone::Bad };
    let store = match node.get("store_up").and_then(Value::as_bool) {
        Some(true) => format!("{}, store up", word(node, "mode")),
        Some(false) => format!("{}, store down", word(node, "mode")),
        None => word(node, "mode"),
    };
    let mut lines = vec![format!(
        "  {:>12}  {:>7}  {}  {} ({store})",
        grouped(number(node, "decisions_per_second")),
        node["version"].as_u64().unwrap_or_default(),
        paint.tone(tone, format!("{status:<8}")),
        word(node, "id"),
    )];
    for (what, detail) in node["problems"].as_object().into_iter().flatten() {
        let detail = printable(detail.as_str().unwrap_or_default());
        lines.push(format!("      {}: {detail}", paint.tone(Tone::Bad, printable(what))));
    }
    lines
}

fn heading(paint: Paint, text: &str) -> String {
    format!("  {}", paint.tone(Tone::Faint, text))
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
        let text = TopScreen::new(&overview, &keys, "http://127.0.0.1:9090", Paint::never()).text();
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
        let own =
            TopScreen::new(&json!({ "time": "t", "limits": [] }), &json!({}), "s", Paint::never()).text();
        assert!(own.contains("no limit has decided") && !own.contains("a second   allowed"), "{own}");
    }

    #[test]
    fn a_screen_says_what_is_missing() {
        let why = "more limits decide than nodes name to each other";
        let some = json!({
            "time": "t", "limits": [], "incomplete": { "limits": why },
            "other_limits": { "allowed_per_second": 7.0, "denied_per_second": 3.0 },
        });
        let text = TopScreen::new(&some, &json!({}), "s", Paint::never()).text();
        assert!(
            text.contains(why) && text.contains("3             7  (limits that are not named)"),
            "{text}"
        );
        let nothing = json!({ "time": "t", "limits": [], "incomplete": { "limits": why } });
        let text = TopScreen::new(&nothing, &json!({}), "s", Paint::never()).text();
        assert!(text.contains(why) && !text.contains("no limit has decided"), "{text}");
    }

    /// A screen with everything, ten of each.
    fn full() -> TopScreen {
        let limits: Vec<Value> = (0..10).map(|n| json!({ "name": format!("limit-{n}") })).collect();
        let keys: Vec<Value> = (0..10).map(|n| json!({ "key": format!("key-{n}"), "limit": "l" })).collect();
        let node = |n: u32| json!({ "id": format!("node-{n}"), "status": "degraded", "problems": { "store": "it does not answer" } });
        let nodes: Vec<Value> = (0..10).map(node).collect();
        let overview = json!({
            "time": "now", "decisions_per_second": 1, "denied_by_reason": { "a": 1, "b": 1, "c": 1 },
            "limits": limits, "nodes": nodes,
        });
        TopScreen::new(&overview, &json!({ "denied": keys, "consumers": keys }), "here", Paint::never())
    }

    #[test]
    fn a_screen_fits_with_what_matters_most() {
        let screen = full();
        let whole: Vec<String> = screen.text().lines().map(str::to_owned).collect();
        for most in 1..100 {
            let lines = screen.fitting(most);
            assert!(lines.len() <= most && lines[0].contains("tidegate  here"), "{most}: {lines:?}");
            assert!(most < whole.len() || lines == whole, "{most}: {lines:?}");
            let told = screen.with_problem("no answer: gone".to_owned()).fitting(most);
            assert!(told.len() <= most && told[0].contains("no answer: gone"), "{most}: {told:?}");
        }
        let has = |lines: &[String], part: &str| lines.iter().any(|line| line.contains(part));
        let usual = screen.fitting(24);
        assert_eq!(usual.len(), 24, "no line is left empty: {usual:?}");
        for part in ["a second", "limit-0", "key-0", "node-0", "store: it does not answer", "… and 9 more"]
        {
            assert!(has(&usual, part), "{part}: {usual:?}");
        }
        let few = screen.fitting(10);
        assert!(has(&few, "a second") && has(&few, "limit-0") && !has(&few, "node-0"), "{few:?}");
        let more = screen.fitting(50);
        assert!(has(&more, "limit-9") && has(&more, "key-9") && has(&more, "… and 8 more"), "{more:?}");
    }

    #[test]
    fn numbers_are_grouped() {
        let texts = [0.0, 0.5, 9.96, 10.4, 999.0, 1_000.0, 1_234_567.0].map(grouped);
        assert_eq!(texts, ["0", "0.5", "10.0", "10", "999", "1,000", "1,234,567"]);
    }
}
