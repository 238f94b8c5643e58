//! The flags of `tidegate audit`.

use clap::{Args, Subcommand};

use super::{DatabasePlace, OutputFormat};

#[derive(Debug, Subcommand)]
pub(crate) enum AuditCommand {
    /// Check that every entry of the audit is as it was written, and name the first that is not
    Verify(AuditVerify),
    /// Erase what the audit and the violations say about a user
    Erase(AuditErase),
}

#[derive(Debug, Args)]
#[command(after_help = VERIFY_HELP)]
pub(crate) struct AuditVerify {
    #[command(flatten)]
    pub(crate) place: DatabasePlace,
    /// Output format
    #[arg(long, value_enum, default_value_t = OutputFormat::Text)]
    pub(crate) format: OutputFormat,
}

const VERIFY_HELP: &str = "\
Exit status: 0 every entry is as it was written, 1 one is not, or the database does not answer, 2 wrong usage.

The server may run meanwhile. The command prints the hash of the last entry: whoever keeps it elsewhere can prove
later what the audit was at that time. TIDEGATE_DATABASE_URL overrides the URL in the settings file, and
--data overrides both.";

#[derive(Debug, Args)]
#[command(after_help = ERASE_HELP)]
pub(crate) struct AuditErase {
    #[command(flatten)]
    pub(crate) place: DatabasePlace,
    /// User whose data are erased
    #[arg(long, value_name = "ID")]
    pub(crate) user: String,
    /// Do not ask first
    #[arg(long, short)]
    pub(crate) yes: bool,
}

const ERASE_HELP: &str = "\
In every record of the user, the user, client, address, tenant, key and details are erased; that something happened,
when and how often stays, and the audit still verifies. It cannot be undone. Backups and event files from before
still have the data. The server may run meanwhile; denials of the last ten seconds may be written afterwards.";
