//! `tidegate events`: reads the events file for people.

mod files;
mod filter;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::commands::flags::{EventsArgs, OutputFormat};
use crate::commands::now;
use crate::commands::serve::read_settings;
use crate::commands::terminal::exit::{CommandFailure, print_stderr};
use crate::commands::terminal::paint::Paint;
use files::EventFiles;
use filter::{EventFilter, EventLine, readable};

/// How often new events are looked for with `--follow`.
const FOLLOW_INTERVAL: Duration = Duration::from_millis(200);

pub(super) fn run(args: &EventsArgs) -> Result<(), CommandFailure> {
    let path = path(args)?;
    let filter = EventFilter::new(args, now()).map_err(CommandFailure::Usage)?;
    let (mut files, paint) = (EventFiles::new(&path), Paint::stdout());
    let (mut strange, mut out) = (0_u64, io::stdout().lock());
    let mut show = |line: &[u8]| {
        let Ok(event) = serde_json::from_slice::<EventLine>(line) else {
            strange += 1;
            return Ok(());
        };
        if !filter.shows(&event) {
            return Ok(());
        }
        match args.format {
            OutputFormat::Text => out.write_all(readable(&event, paint).as_bytes()),
            OutputFormat::Json => out.write_all(line).and_then(|()| out.write_all(b"\n")),
        }?;
        if args.follow { out.flush() } else { Ok(()) }
    };
    let read = loop {
        match files.read_new(&mut show) {
            Ok(false) if !args.follow => break Err(io::Error::from(io::ErrorKind::NotFound)),
            Ok(_) if args.follow => std::thread::park_timeout(FOLLOW_INTERVAL),
            read => break read,
        }
    };
    // A closed pipe, as with `| head`, is not an error.
    match read.and_then(|_| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(unreadable(&path, &error)),
        _ => {
            if strange > 0 {
                print_stderr(format_args!("{strange} lines are not events and were skipped\n"));
            }
            Ok(())
        }
    }
}

/// The file: as the flag says, else as the settings say, else the default.
fn path(args: &EventsArgs) -> Result<PathBuf, CommandFailure> {
    if let Some(file) = &args.file {
        return Ok(file.clone());
    }
    let Some(config) = args.config.as_deref().filter(|file| !file.is_empty()) else {
        return Ok(PathBuf::from("events.jsonl"));
    };
    let (settings, _) = read_settings(config)?;
    settings.events.and_then(|events| events.file).ok_or_else(|| {
        CommandFailure::Usage(format!(
            "{config} names no events file; add `events: {{ file: events.jsonl }}`"
        ))
    })
}

fn unreadable(path: &Path, error: &io::Error) -> CommandFailure {
    let hint = match error.kind() {
        io::ErrorKind::NotFound => "; the server writes it if its settings have `events`",
        _ => "",
    };
    CommandFailure::Running(format!("cannot read the events file {}: {error}{hint}", path.display()))
}
