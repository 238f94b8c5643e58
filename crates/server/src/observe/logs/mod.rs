//! The log on standard error, as text or JSON.
//!
//! Data of a client can be part of a line but never start a new one: control characters are escaped in both formats,
//! and long texts are cut. Each call site in the code, also in libraries, may write only a bounded number of lines per
//! second (`throttle`). A thread of its own writes the lines (`thread`).

pub(super) mod line;
pub(super) mod thread;
pub(super) mod throttle;

use std::fmt;
use std::sync::OnceLock;

use tidegate::{Clock, MonotonicClock};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, MakeWriter};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;

use crate::commands::terminal::paint::{Paint, Tone};
use crate::settings::{LogFormat, Settings};
use line::{LogLine, LogValue, PlainText, json_text};
use thread::LogThread;
use throttle::LogThrottle;

/// The environment variable with the log level.
pub const LEVEL_VARIABLE: &str = "TIDEGATE_LOG";

/// Why the log cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum LogsError {
    /// There is no such level.
    #[error("{LEVEL_VARIABLE}={0:?} is not a log level; use off, error, warn, info, debug or trace")]
    Level(String),
    /// The writing thread cannot be started.
    #[error("cannot start the thread that writes the log: {0}")]
    Thread(std::io::Error),
    /// `init` was called before, or another library has set up tracing.
    #[error("logging is already set up")]
    Twice,
}

/// Starts logging to standard error, at the `usual` level if the environment names no other.
///
/// # Errors
/// When the environment names an unknown level, the thread cannot start, or logging is already set up.
pub fn init(settings: &Settings, usual: LevelFilter) -> Result<(), LogsError> {
    let level = level(std::env::var(LEVEL_VARIABLE).ok().as_deref(), usual)?;
    let throttle = LogThrottle::new(MonotonicClock::new());
    let lines = Lines { format: settings.log, paint: Paint::stderr(), throttle };
    let thread = LogThread::start(std::io::stderr()).map_err(LogsError::Thread)?;
    subscriber(lines, level, thread.clone()).try_init().map_err(|_| LogsError::Twice)?;
    THREAD.set(thread).map_err(|_| LogsError::Twice)
}

/// Waits briefly until the last lines are written, before the program ends.
pub fn flush() {
    if let Some(thread) = THREAD.get() {
        thread.finish();
    }
}

static THREAD: OnceLock<LogThread> = OnceLock::new();

fn level(value: Option<&str>, usual: LevelFilter) -> Result<LevelFilter, LogsError> {
    match value.unwrap_or_default().trim() {
        "" => Ok(usual),
        word => word.parse().map_err(|_| LogsError::Level(word.to_owned())),
    }
}

/// Tidegate's own events at the chosen level, events of libraries only from `warn` up.
fn subscriber<C, W>(lines: Lines<C>, level: LevelFilter, to: W) -> impl Subscriber + Send + Sync
where
    C: Clock + 'static,
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let wanted = Targets::new().with_default(level.min(LevelFilter::WARN)).with_target("tidegate", level);
    let layer = tracing_subscriber::fmt::layer().event_format(lines).with_writer(to);
    tracing_subscriber::registry().with(layer).with(wanted)
}

/// Formats events as lines.
struct Lines<C> {
    format: LogFormat,
    paint: Paint,
    throttle: LogThrottle<C>,
}

impl<C, S, N> FormatEvent<S, N> for Lines<C>
where
    C: Clock + 'static,
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut to: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        // A call site that writes too often is skipped.
        let Some(left_out) = self.throttle.due(event.metadata()) else { return Ok(()) };
        let mut line = LogLine::default();
        event.record(&mut line);
        if left_out > 0 {
            line.fields.push(("others", LogValue::Bare(left_out.to_string())));
        }
        let (mut time, level) = (String::new(), *event.metadata().level());
        SystemTime.format_time(&mut Writer::new(&mut time))?;
        match self.format {
            LogFormat::Text => self.text(&mut to, &time, level, &line),
            LogFormat::Json => json(&mut to, &time, level, &line),
        }
    }
}

impl<C> Lines<C> {
    fn text(&self, to: &mut Writer<'_>, time: &str, level: Level, line: &LogLine) -> fmt::Result {
        let tone = match level {
            Level::ERROR => Tone::Bad,
            Level::WARN => Tone::Warn,
            Level::INFO => Tone::Good,
            _ => Tone::Faint,
        };
        let word = format!("{:>5}", level.as_str());
        write!(to, "{} {}", self.paint.tone(Tone::Faint, time), self.paint.tone(tone, word))?;
        write!(to, " {}", PlainText::unquoted(&line.message))?;
        for (name, value) in &line.fields {
            write!(to, " {}=", self.paint.tone(Tone::Name, name))?;
            match value {
                LogValue::Text(text) => write!(to, "{}", PlainText::quoted(text))?,
                LogValue::Bare(number) => write!(to, "{number}")?,
            }
        }
        writeln!(to)
    }
}

fn json(to: &mut Writer<'_>, time: &str, level: Level, line: &LogLine) -> fmt::Result {
    let level = level.as_str().to_ascii_lowercase();
    write!(to, "{{\"time\":{},\"level\":{}", json_text(time), json_text(&level))?;
    write!(to, ",\"message\":{}", json_text(&line.message))?;
    for (name, value) in &line.fields {
        match value {
            LogValue::Text(text) => write!(to, ",{}:{}", json_text(name), json_text(text))?,
            LogValue::Bare(number) => write!(to, ",{}:{number}", json_text(name))?,
        }
    }
    writeln!(to, "}}")
}

#[cfg(test)]
mod tests;
