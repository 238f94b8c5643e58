//! Which events are shown, and how one is shown as a line.

use std::net::IpAddr;

use jiff::Timestamp;
use serde_json::{Map, Value};
use tidegate::Nanos;
use tidegate_document::value::number_and_unit;

use crate::commands::flags::EventsArgs;
use crate::commands::terminal::paint::{Paint, Tone, printable};

/// A line of the events file.
pub(super) type EventLine = Map<String, Value>;

/// Which events are shown.
#[derive(Debug, Default)]
pub(super) struct EventFilter {
    /// Members that must have these values.
    texts: Vec<(&'static str, String)>,
    ip: Option<IpAddr>,
    since: Option<Timestamp>,
    until: Option<Timestamp>,
}

impl EventFilter {
    /// # Errors
    /// When a flag has an invalid value.
    pub(super) fn new(args: &EventsArgs, now: Nanos) -> Result<EventFilter, String> {
        let texts = [
            ("event", &args.event),
            ("user", &args.user),
            ("client", &args.client),
            ("tenant", &args.tenant),
            ("limit", &args.limit),
        ];
        let time = |flag: &str, text: &Option<String>| {
            text.as_deref().map(|text| instant(flag, text, now)).transpose()
        };
        Ok(EventFilter {
            texts: texts.into_iter().filter_map(|(name, text)| Some((name, text.clone()?))).collect(),
            ip: args.ip.map(|ip| ip.to_canonical()),
            since: time("--since", &args.since)?,
            until: time("--until", &args.until)?,
        })
    }

    /// Is this event shown? One that happened several times is, if it happened between the two times.
    pub(super) fn shows(&self, event: &EventLine) -> bool {
        let text = |name: &str| event.get(name).and_then(Value::as_str);
        let time = |name: &str| text(name).or_else(|| text("time"))?.parse::<Timestamp>().ok();
        self.texts.iter().all(|(name, wanted)| text(name) == Some(wanted))
            && self.ip.is_none_or(|ip| text("ip").and_then(|text| text.parse().ok()) == Some(ip))
            && self.since.is_none_or(|since| time("last").is_some_and(|last| last >= since))
            && self.until.is_none_or(|until| time("first").is_some_and(|first| first <= until))
    }
}

/// A point in time: as RFC 3339 has it, or a duration before now.
fn instant(flag: &str, text: &str, now: Nanos) -> Result<Timestamp, String> {
    if let Ok(time) = text.parse() {
        return Ok(time);
    }
    let parsed = number_and_unit(text).and_then(|(digits, unit)| Some((digits.parse::<u64>().ok()?, unit)));
    match parsed {
        Some((number, millis)) => {
            let then = (now.get() / 1_000_000).saturating_sub(number.saturating_mul(millis));
            Timestamp::from_millisecond(i64::try_from(then).unwrap_or(i64::MAX))
                .map_err(|error| error.to_string())
        }
        None => Err(format!(
            "{flag}: {text:?} is neither a time such as 2027-01-01T00:00:00Z nor a duration such as 10m (ms, s, m, h, d)"
        )),
    }
}

/// The event as a line for people: when, how serious, what, how often, and everything else that is known.
pub(super) fn readable(event: &EventLine, paint: Paint) -> String {
    let text = |name: &str| event.get(name).and_then(Value::as_str).unwrap_or("-");
    let severity = text("severity");
    let tone = match severity {
        "error" => Tone::Bad,
        "warning" => Tone::Warn,
        _ => Tone::Good,
    };
    let (time, name) = (printable(text("time")), printable(text("event")));
    let severity = format!("{:<7}", printable(severity));
    let mut line = format!("{} {} {name}", paint.tone(Tone::Faint, time), paint.tone(tone, severity));
    let count = event.get("count").and_then(Value::as_u64).unwrap_or(1);
    if count > 1 {
        line.push_str(&format!(" {count} times since {}", printable(text("first"))));
    }
    let told = ["time", "severity", "event", "count", "first", "last"];
    for (name, value) in event.iter().filter(|(name, _)| !told.contains(&&***name)) {
        let value = match value {
            Value::String(text) if is_plain(text) => text.clone(),
            other => printable(&other.to_string()),
        };
        line.push_str(&format!(" {}={value}", paint.tone(Tone::Name, printable(name))));
    }
    line.push('\n');
    line
}

/// Can a text be shown without quotes?
fn is_plain(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| !c.is_whitespace() && !c.is_control() && c != '"')
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Nanos = Nanos::from_secs(1_800_000_000);

    fn event(text: &str) -> EventLine {
        serde_json::from_str(text).expect("an object")
    }

    #[test]
    fn a_line_says_everything_that_is_known_and_cannot_be_forged() {
        let line = event(
            r#"{"time":"2027-01-15T08:00:02.000Z","event":"rate_limit_exceeded","severity":"warning","count":95,
                "first":"2027-01-15T08:00:00.000Z","last":"2027-01-15T08:00:02.000Z","user":"a\nb c","limit":"per-user",
                "remaining":0}"#,
        );
        assert_eq!(
            readable(&line, Paint::never()),
            "2027-01-15T08:00:02.000Z warning rate_limit_exceeded 95 times since 2027-01-15T08:00:00.000Z \
             limit=per-user remaining=0 user=\"a\\nb c\"\n"
        );
    }

    #[test]
    fn an_event_is_shown_if_it_happened_between_the_times() {
        let line = event(
            r#"{"time":"2027-01-15T07:59:50Z","first":"2027-01-15T07:50:00Z","last":"2027-01-15T07:59:50Z","user":"42"}"#,
        );
        let filter = |since: Option<&str>, until: Option<&str>| {
            let time = |text: &str| instant("--since", text, NOW).unwrap();
            EventFilter { since: since.map(time), until: until.map(time), ..EventFilter::default() }
        };
        assert!(filter(Some("10s"), None).shows(&line), "NOW is 2027-01-15T08:00:00Z");
        assert!(!filter(Some("9s"), None).shows(&line));
        assert!(filter(None, Some("10m")).shows(&line) && !filter(None, Some("11m")).shows(&line));
        assert!(filter(Some("2027-01-15T07:55:00Z"), Some("2027-01-15T07:56:00Z")).shows(&line));
        let user =
            |name: &str| EventFilter { texts: vec![("user", name.to_owned())], ..EventFilter::default() };
        assert!(user("42").shows(&line) && !user("4").shows(&line));
    }

    #[test]
    fn a_bad_time_is_refused() {
        for text in ["", "10", "m", "10 m", "yesterday", "-5m", "99999999999999999999d"] {
            assert!(instant("--since", text, NOW).is_err(), "{text}");
        }
        assert_eq!(instant("--since", "300000d", NOW).unwrap(), Timestamp::UNIX_EPOCH);
    }
}
