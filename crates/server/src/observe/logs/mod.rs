//! What the server says while it runs: lines on standard error, for people or for machines.
//!
//! What a client sent can be part of a line, never a line of its own: control characters are escaped in
//! both formats, and what is long is cut. How often a place in the code writes is bounded, libraries included.

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

/// How much is said, by the environment.
pub const LEVEL_VARIABLE: &str = "TIDEGATE_LOG";

/// Why nothing can be said.
#[derive(Debug, thiserror::Error)]
pub enum LogsError {
    /// There is no such level.
    #[error("{LEVEL_VARIABLE}={0:?} is no level: off, error, warn, info, debug or trace")]
    Level(String),
    /// There is no thread for it.
    #[error("cannot start the thread that writes logs: {0}")]
    Thread(std::io::Error),
    /// Somebody else has set it up.
    #[error("logs are set up already")]
    Twice,
}

/// From now on lines go to standard error.
///
/// # Errors
/// When the environment asks for a level that does not exist, or this was called before.
pub fn init(settings: &Settings) -> Result<(), LogsError> {
    let level = level(std::env::var(LEVEL_VARIABLE).ok().as_deref())?;
    let throttle = LogThrottle::new(MonotonicClock::new());
    let lines = Lines { format: settings.log, paint: Paint::stderr(), throttle };
    let thread = LogThread::start(std::io::stderr()).map_err(LogsError::Thread)?;
    subscriber(lines, level, thread.clone()).try_init().map_err(|_| LogsError::Twice)?;
    THREAD.set(thread).map_err(|_| LogsError::Twice)
}

/// Waits a moment for the last lines to be written, before the program ends.
pub fn flush() {
    if let Some(thread) = THREAD.get() {
        thread.finish();
    }
}

static THREAD: OnceLock<LogThread> = OnceLock::new();

fn level(asked: Option<&str>) -> Result<LevelFilter, LogsError> {
    match asked.unwrap_or_default().trim() {
        "" => Ok(LevelFilter::INFO),
        word => word.parse().map_err(|_| LogsError::Level(word.to_owned())),
    }
}

/// Our own lines at the level that was asked for, those of libraries from warnings on.
fn subscriber<C, W>(lines: Lines<C>, level: LevelFilter, to: W) -> impl Subscriber + Send + Sync
where
    C: Clock + 'static,
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let wanted = Targets::new().with_default(level.min(LevelFilter::WARN)).with_target("tidegate", level);
    let layer = tracing_subscriber::fmt::layer().event_format(lines).with_writer(to);
    tracing_subscriber::registry().with(layer).with(wanted)
}

/// How lines look.
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
        // Nothing is written for what comes too often.
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
