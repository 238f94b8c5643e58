//! `tidegate import`: converts the configuration of another rate limiter.

use super::print;
use crate::commands::flags::Import;
use crate::commands::terminal::exit::{CommandFailure, display_path, print_stderr, read_text};
use crate::commands::terminal::paint::{Paint, Tone};
use crate::commands::terminal::report;
use crate::import::{ImportFormat, import};

pub(super) fn run(args: &Import) -> Result<(), CommandFailure> {
    let text = read_text(&args.file)?;
    let format = ImportFormat::from_name(&args.from).ok_or_else(|| {
        CommandFailure::Usage(format!("`{}` is not a format that can be imported", args.from))
    })?;
    let paint = Paint::stderr();
    match import(format, display_path(&args.file), &text) {
        Ok(imported) => {
            for note in &imported.notes {
                print_stderr(format_args!("{}: {note}\n", paint.tone(Tone::Warn, "note")));
            }
            print(&imported.policy)
        }
        Err(problems) => {
            print_stderr(format_args!("{}", report::text(display_path(&args.file), &text, &problems, paint)));
            print_stderr(format_args!("{}: {}\n", display_path(&args.file), report::counts(&problems)));
            Err(CommandFailure::Invalid)
        }
    }
}
