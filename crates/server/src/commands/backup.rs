//! `tidegate backup` and `tidegate restore`: copies of a SQLite database, while servers use it.

use std::io::{BufRead, IsTerminal};

use super::database_place::{on_database, url};
use crate::commands::flags::{BackupArgs, RestoreArgs};
use crate::commands::terminal::exit::{CommandFailure, print_stderr};
use crate::commands::terminal::paint::{Paint, Tone};

pub(super) fn backup(args: &BackupArgs) -> Result<(), CommandFailure> {
    let url = url(&args.place)?;
    on_database(&url, async |database| database.backup_to(&args.out).await)?;
    say(&format!("written to {}", args.out.display()));
    Ok(())
}

pub(super) fn restore(args: &RestoreArgs) -> Result<(), CommandFailure> {
    let url = url(&args.place)?;
    if !args.yes {
        confirm()?;
    }
    on_database(&url, async |database| database.restore_from(&args.from).await)?;
    say(&format!("restored from {}; running servers follow within a second", args.from.display()));
    Ok(())
}

/// Asks on a terminal; elsewhere the flag is needed.
fn confirm() -> Result<(), CommandFailure> {
    let refused = "everything in the database would be replaced: say so with --yes";
    if !std::io::stdin().is_terminal() {
        return Err(CommandFailure::Usage(refused.to_owned()));
    }
    print_stderr(format_args!("Everything in the database is replaced by the backup. Continue? [y/N] "));
    let mut line = String::new();
    let read = std::io::stdin().lock().read_line(&mut line);
    match read.is_ok() && matches!(line.trim(), "y" | "Y" | "yes") {
        true => Ok(()),
        false => Err(CommandFailure::Usage(refused.to_owned())),
    }
}

fn say(note: &str) {
    print_stderr(format_args!("{}\n", Paint::stderr().tone(Tone::Faint, note)));
}
