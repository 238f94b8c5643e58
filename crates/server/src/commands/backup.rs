//! `tidegate backup` and `tidegate restore`: copies of a SQLite database, while servers use it.

use super::database_place::{on_any_database, on_database, url, url_of_new};
use super::now;
use crate::commands::flags::{BackupArgs, RestoreArgs};
use crate::commands::terminal::confirm::confirm;
use crate::commands::terminal::exit::{CommandFailure, print_stderr};
use crate::commands::terminal::paint::{Paint, Tone};
use crate::control::startup::unix_millis;

pub(super) fn backup(args: &BackupArgs) -> Result<(), CommandFailure> {
    let url = url(&args.place)?;
    on_any_database(&url, async |database| database.backup_to(&args.out).await)?;
    say(&format!("written to {}", args.out.display()));
    Ok(())
}

pub(super) fn restore(args: &RestoreArgs) -> Result<(), CommandFailure> {
    if !args.yes {
        confirm("Everything in the database is replaced by the backup. Continue?", "nothing was restored")?;
    }
    let (url, time) = (url_of_new(&args.place)?, unix_millis(now()));
    on_database(&url, async |database| database.restore_from(&args.from, "command line", time).await)?;
    say(&format!("restored from {}; running servers follow within a second", args.from.display()));
    Ok(())
}

fn say(note: &str) {
    print_stderr(format_args!("{}\n", Paint::stderr().tone(Tone::Faint, note)));
}
