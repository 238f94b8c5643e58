//! `tidegate import`

use super::print;
use crate::cli::Import;
use crate::exit::{Failure, complain, read_text, shown};
use crate::import::{Format, import};
use crate::paint::{Paint, Tone};
use crate::report;

pub(super) fn run(args: &Import) -> Result<(), Failure> {
    let text = read_text(&args.file)?;
    let format = Format::from_name(&args.from)
        .ok_or_else(|| Failure::Usage(format!("`{}` is no format that can be imported", args.from)))?;
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
            Err(Failure::Invalid)
        }
    }
}
