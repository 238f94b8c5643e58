//! `tidegate import`

use tidegate_import::{ImportFormat, import};

use super::print;
use crate::commands::flags::Import;
use crate::commands::terminal::exit::{CommandFailure, complain, read_text, shown};
use crate::commands::terminal::paint::{Paint, Tone};
use crate::commands::terminal::report;

pub(super) fn run(args: &Import) -> Result<(), CommandFailure> {
    let text = read_text(&args.file)?;
    let format = ImportFormat::from_name(&args.from)
        .ok_or_else(|| CommandFailure::Usage(format!("`{}` cannot be imported", args.from)))?;
    let paint = Paint::stderr();
    match import(format, shown(&args.file), &text) {
        Ok(imported) => {
            for note in &imported.notes {
                complain(format_args!("{}: {note}\n", paint.tone(Tone::Warn, "note")));
            }
            print(&imported.policy)
        }
        Err(problems) => {
            complain(format_args!("{}", report::text(shown(&args.file), &text, &problems, paint)));
            complain(format_args!("{}: {}\n", shown(&args.file), report::counts(&problems)));
            Err(CommandFailure::Invalid)
        }
    }
}
