//! `tidegate backup` and `tidegate restore`: copies of a SQLite database, while servers use it.

use std::io::{BufRead, IsTerminal};

use tidegate_database::{Database, DatabaseError, DatabaseOptions};

use super::database_place::url;
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

fn on_database(
    url: &str,
    work: impl AsyncFnOnce(&Database) -> Result<(), DatabaseError>,
) -> Result<(), CommandFailure> {
    let running = |error: &dyn std::fmt::Display| CommandFailure::Running(error.to_string());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| running(&error))?.block_on(async {
        let database =
            Database::open(url, DatabaseOptions::default()).await.map_err(|error| running(&error))?;
        let done = work(&database).await;
        database.close().await;
        done.map_err(|error| running(&error))
    })
}

fn say(note: &str) {
    print_stderr(format_args!("{}\n", Paint::stderr().tone(Tone::Faint, note)));
}
