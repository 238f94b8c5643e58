//! `tidegate simulate`: replays a trace against a policy in virtual time.

use std::fs::File;
use std::io::{BufReader, IsTerminal, Read, Write};

use super::load_policy;
use super::serve::{read_accounts, read_settings};
use crate::commands::flags::Simulate;
use crate::commands::terminal::exit::{CommandFailure, display_path, print_stderr};
use crate::replay::{ReplayProgress, ReplaySettings, SimulateError, run as simulate};
use tidegate::Nanos;

const BUFFER: usize = 1 << 20;

pub(super) fn run(args: &Simulate) -> Result<(), CommandFailure> {
    if args.policy == "-" && args.trace == "-" {
        return Err(CommandFailure::Usage(
            "only one of --policy and --trace can be standard input".to_owned(),
        ));
    }
    // A trace brings its own time, so there are no warnings about entries that have expired by today.
    let policy = load_policy(&args.policy, Nanos::ZERO, args.quiet)?;
    let settings = args.config.as_deref().map(as_server).transpose()?.unwrap_or_default();
    let (trace, size) = open_trace(&args.trace)?;
    let out = open_out(&args.out)?;
    let mut bar = Bar::new(size, args.quiet);
    let trace = BufReader::with_capacity(BUFFER, trace);
    let done = simulate(policy, settings, args.max_keys, trace, out, |progress| bar.show(progress));
    bar.clear();
    match done {
        Ok(summary) => {
            if !args.quiet {
                print_stderr(format_args!("{}", summary.text()));
            }
            Ok(())
        }
        Err(SimulateError::Write(error)) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        Err(error @ SimulateError::Line { .. }) => {
            Err(CommandFailure::Usage(format!("{}, {error}", display_path(&args.trace))))
        }
        Err(error) => Err(CommandFailure::Running(error.to_string())),
    }
}

/// What the settings of a server change about decisions on a trace.
fn as_server(config: &str) -> Result<ReplaySettings, CommandFailure> {
    let (settings, _) = read_settings(config)?;
    let invalid = settings.jwt.as_ref().map(|jwt| jwt.invalid).unwrap_or_default();
    let Some(trust) = settings.trust else { return Ok(ReplaySettings { invalid, trust: None }) };
    let accounts = trust.file.as_deref().map(read_accounts).transpose()?.unwrap_or_default();
    Ok(ReplaySettings { invalid, trust: Some((trust.options, accounts)) })
}

fn open_trace(path: &str) -> Result<(Box<dyn Read>, Option<u64>), CommandFailure> {
    if path == "-" {
        return Ok((Box::new(std::io::stdin().lock()), None));
    }
    let file =
        File::open(path).map_err(|error| CommandFailure::Usage(format!("cannot read {path}: {error}")))?;
    let size = file.metadata().ok().filter(std::fs::Metadata::is_file).map(|metadata| metadata.len());
    Ok((Box::new(file), size))
}

fn open_out(path: &str) -> Result<Box<dyn Write>, CommandFailure> {
    let out: Box<dyn Write> = if path == "-" {
        Box::new(std::io::stdout().lock())
    } else {
        let file = File::create(path);
        Box::new(file.map_err(|error| CommandFailure::Running(format!("cannot write {path}: {error}")))?)
    };
    Ok(out)
}

/// A progress bar on a terminal, nothing elsewhere.
struct Bar {
    size: Option<u64>,
    shown: bool,
    on: bool,
    last_percent: Option<u64>,
}

const WIDTH: u64 = 30;
/// If the size of the trace is unknown, the bar is updated each time this many lines were decided.
const LINES: u64 = 262_144;

impl Bar {
    fn new(size: Option<u64>, quiet: bool) -> Bar {
        let on = !quiet && std::io::stderr().is_terminal();
        Bar { size: size.filter(|size| *size > 0), shown: false, on, last_percent: None }
    }

    fn show(&mut self, progress: ReplayProgress) {
        if !self.on {
            return;
        }
        let percent = match self.size {
            Some(size) => (progress.bytes * 100 / size).min(100),
            None => progress.lines / LINES,
        };
        if self.last_percent == Some(percent) {
            return;
        }
        self.last_percent = Some(percent);
        self.shown = true;
        let line = match self.size {
            Some(_) => {
                let full = (percent * WIDTH / 100) as usize;
                let bar = format!("{}{}", "█".repeat(full), "░".repeat(WIDTH as usize - full));
                format!("{bar} {percent:>3} %  {} decisions", progress.lines)
            }
            None => format!("{} decisions", progress.lines),
        };
        print_stderr(format_args!("\r\x1b[K{line}"));
        // The run goes on even if the bar cannot be shown.
        _ = std::io::stderr().flush();
    }

    fn clear(&self) {
        if self.shown {
            print_stderr(format_args!("\r\x1b[K"));
        }
    }
}
