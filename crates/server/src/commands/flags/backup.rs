//! The flags of `tidegate backup` and `tidegate restore`.

use std::path::PathBuf;

use clap::Args;

use super::DatabasePlace;

#[derive(Debug, Args)]
#[command(after_help = BACKUP_HELP)]
pub(crate) struct BackupArgs {
    #[command(flatten)]
    pub(crate) place: DatabasePlace,
    /// File to write the copy to
    #[arg(long, value_name = "FILE")]
    pub(crate) out: PathBuf,
}

const BACKUP_HELP: &str = "\
The copy is of one instant, and the file appears when it is whole. Servers may use the database meanwhile. For
PostgreSQL, use pg_dump.

  tidegate backup --data /var/lib/tidegate --out backup.db";

#[derive(Debug, Args)]
#[command(after_help = RESTORE_HELP)]
pub(crate) struct RestoreArgs {
    #[command(flatten)]
    pub(crate) place: DatabasePlace,
    /// File that `tidegate backup` has written
    #[arg(long, value_name = "FILE")]
    pub(crate) from: PathBuf,
    /// Do not ask first
    #[arg(long, short)]
    pub(crate) yes: bool,
}

const RESTORE_HELP: &str = "\
Everything in the database is replaced at once by what the backup has: versions of the policy, tokens, audit and
violations. The audit of the backup is verified first, and the backup itself is only read. Tokens that were revoked
after the backup stay revoked, all sessions end, and the audit gets an entry database_restored. Servers may use the
database meanwhile; they run the version of the backup within a second. A folder that has no database gets one.

Exit status: 0 restored, 1 nothing was restored, 2 wrong usage.";
