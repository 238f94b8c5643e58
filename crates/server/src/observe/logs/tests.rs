use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

use tidegate::ManualClock;

use super::*;

/// A writer that keeps everything in memory.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<u8>>>);

impl Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'w> MakeWriter<'w> for Kept {
    type Writer = Kept;

    fn make_writer(&'w self) -> Kept {
        self.clone()
    }
}

/// The log that `speak` writes.
fn logged(format: LogFormat, level: LevelFilter, speak: impl FnOnce()) -> String {
    let kept = Kept::default();
    let lines = Lines { format, paint: Paint::never(), throttle: LogThrottle::new(ManualClock::default()) };
    tracing::subscriber::with_default(subscriber(lines, level, kept.clone()), speak);
    let bytes = kept.0.lock().expect("no thread panicked").clone();
    String::from_utf8(bytes).expect("it is text")
}

/// Input of an attacker who wants to forge log lines or send commands to the terminal.
const EVIL: &str =
    "x\n2026-01-01T00:00:00Z ERROR all is lost\r\u{1b}[2J\u{9b}31m\u{2028}\u{202e}\"} ,\"a\":1\\";

#[test]
fn text_is_one_line_whatever_clients_send() {
    let text = logged(LogFormat::Text, LevelFilter::INFO, || {
        tracing::warn!(key = EVIL, shown = %EVIL, debugged = ?EVIL, "refused {EVIL}");
    });
    assert_eq!(text.matches('\n').count(), 1, "{text:?}");
    assert!(text.ends_with('\n'));
    let strange =
        |letter: char| (letter.is_control() && letter != '\n') || "\u{2028}\u{202e}".contains(letter);
    assert!(!text.contains(strange), "{text:?}");
    assert!(text.contains("WARN refused x\\n2026") && text.contains(" key=\"x\\n2026"), "{text}");
}

#[test]
fn json_is_one_object_whatever_clients_send() {
    let text = logged(LogFormat::Json, LevelFilter::INFO, || {
        tracing::warn!(key = EVIL, shown = %EVIL, count = 3_u64, less = -1, yes = true, "refused {EVIL}");
    });
    assert_eq!(text.matches('\n').count(), 1, "{text:?}");
    assert!(
        !text.trim_end().contains(|letter: char| letter.is_control() || letter == '\u{2028}'),
        "{text:?}"
    );
    let line: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
    assert_eq!((&line["key"], &line["shown"]), (&EVIL.into(), &EVIL.into()), "nothing is lost");
    assert_eq!(line["message"], format!("refused {EVIL}"));
    assert_eq!((&line["level"], &line["count"]), (&"warn".into(), &3.into()));
    assert_eq!((&line["less"], &line["yes"]), (&(-1).into(), &true.into()));
    assert!(line["time"].as_str().is_some_and(|time| time.ends_with('Z')), "{line}");
}

#[test]
fn plain_values_stay_plain() {
    let text = logged(LogFormat::Text, LevelFilter::INFO, || {
        tracing::info!(listener = "http", version = 7_u64, empty = "", "policy reloaded");
    });
    let (_, rest) = text.split_once("INFO").expect("the line has the level");
    assert_eq!(rest, " policy reloaded listener=http version=7 empty=\"\"\n");
}

#[test]
fn long_values_are_cut() {
    let long = "é".repeat(100_000);
    for format in [LogFormat::Text, LogFormat::Json] {
        let text = logged(format, LevelFilter::INFO, || tracing::info!(%long, "{long}"));
        assert!(text.len() < 10_000, "{} bytes", text.len());
        assert!(text.contains('…'));
    }
}

#[test]
fn levels_are_obeyed_and_libraries_are_quiet() {
    let speak = || {
        tracing::debug!("ours");
        tracing::info!(target: "h2::codec", "theirs");
        tracing::warn!(target: "h2::codec", "their warning");
    };
    let text = logged(LogFormat::Text, LevelFilter::DEBUG, speak);
    assert!(text.contains("ours") && text.contains("their warning") && !text.contains("theirs"), "{text}");
    assert_eq!(logged(LogFormat::Text, LevelFilter::ERROR, speak), "");
}

#[test]
fn lines_that_clients_cause_are_few_whoever_writes_them() {
    let clock = Arc::new(ManualClock::default());
    let kept = Kept::default();
    let throttle = LogThrottle::new(Arc::clone(&clock));
    let lines = Lines { format: LogFormat::Text, paint: Paint::never(), throttle };
    tracing::subscriber::with_default(subscriber(lines, LevelFilter::INFO, kept.clone()), || {
        for attack in 0..3_000 {
            if attack % 100 == 0 {
                clock.advance(tidegate::Nanos::from_millis(100));
            }
            tracing::warn!(target: "h2::proto::connection", attack, "too many resets");
            tracing::error!(attack, "ours");
        }
        tracing::info!("of another place");
    });
    let text = String::from_utf8(kept.0.lock().expect("no thread panicked").clone()).expect("it is text");
    for ours_or_theirs in ["too many resets", "ours"] {
        let lines: Vec<&str> = text.lines().filter(|line| line.contains(ours_or_theirs)).collect();
        assert!((6..=9).contains(&lines.len()), "{} lines", lines.len());
        assert!(lines.last().is_some_and(|line| line.contains(" others=")), "{lines:?}");
    }
    assert!(text.contains("of another place"));
}

#[test]
fn levels_are_words() {
    let level = |value| level(value, LevelFilter::INFO);
    assert_eq!(level(None).expect("the default"), LevelFilter::INFO);
    assert_eq!(level(Some("debug")).expect("a level"), LevelFilter::DEBUG);
    assert_eq!(level(Some(" WARN ")).expect("a level"), LevelFilter::WARN);
    assert_eq!(level(Some("off")).expect("a level"), LevelFilter::OFF);
    let error = level(Some("loud")).expect_err("no level").to_string();
    assert!(error.contains("\"loud\"") && error.contains("debug"), "{error}");
}
