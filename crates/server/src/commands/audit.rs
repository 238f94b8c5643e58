//! `tidegate audit`: verifies the audit in the database, and erases what it says about a person.

use std::io::{IsTerminal, Write};

use serde_json::json;
use tidegate_database::ChainReport;

use super::database_place::{on_database, url};
use super::{now, print};
use crate::commands::flags::OutputFormat;
use crate::commands::flags::audit::{AuditErase, AuditVerify};
use crate::commands::terminal::confirm::confirm;
use crate::commands::terminal::exit::{CommandFailure, print_stderr};
use crate::commands::terminal::paint::{Paint, Tone, printable};
use crate::control::startup::unix_millis;
use crate::observe::events::cut;
use crate::wire::hex;

pub(super) fn verify(args: &AuditVerify) -> Result<(), CommandFailure> {
    let url = url(&args.place)?;
    let mut bar = VerifyBar::default();
    let report = on_database(&url, async |database| database.verify(|done, all| bar.show(done, all)).await)?;
    bar.clear();
    let hash = hex(&report.hash);
    match args.format {
        OutputFormat::Text => print(&text(&report, &hash))?,
        OutputFormat::Json => print(&format!(
            "{}\n",
            json!({
                "valid": report.broken.is_none(),
                "entries": report.entries,
                "erased": report.erased,
                "first": report.first_kept,
                "last": report.last,
                "hash": hash,
                "broken": report.broken.as_ref().map(|broken| json!({ "seq": broken.seq, "why": broken.why })),
            })
        ))?,
    }
    match report.broken {
        None => Ok(()),
        Some(broken) => Err(CommandFailure::Running(broken.to_string())),
    }
}

fn text(report: &ChainReport, hash: &str) -> String {
    let ChainReport { entries, erased, first_kept, last, .. } = report;
    let (paint, verdict) = (Paint::stdout(), if report.broken.is_none() { "valid" } else { "broken" });
    let tone = if report.broken.is_none() { Tone::Good } else { Tone::Bad };
    let mut text = format!("{}  {entries} entries are as they were written", paint.tone(tone, verdict));
    if *entries > 0 {
        text.push_str(&format!(", {first_kept} to {last}"));
    }
    if *erased > 0 {
        text.push_str(&format!("; of {erased} the personal data were erased"));
    }
    format!("{text}\nhash of the last  {hash}\n")
}

pub(super) fn erase(args: &AuditErase) -> Result<(), CommandFailure> {
    let user = &args.user;
    if user.is_empty() {
        return Err(CommandFailure::Usage("--user: the text is empty".to_owned()));
    }
    let url = url(&args.place)?;
    if !args.yes {
        let question = format!("Erase the data of {}? It cannot be undone.", printable(user));
        confirm(&question, "nothing was erased")?;
    }
    // Records have no longer names than this.
    let stored = cut(user);
    let time = unix_millis(now());
    let rows = on_database(&url, async |database| database.erase(&stored, "command line", time).await)?;
    let records = if rows == 1 { "1 record".to_owned() } else { format!("{rows} records") };
    print(&format!("erased the data of {} in {records}\n", printable(user)))
}

/// The progress on a terminal, nothing elsewhere.
#[derive(Default)]
struct VerifyBar {
    shown: Option<u64>,
}

impl VerifyBar {
    fn show(&mut self, done: u64, all: u64) {
        let percent = (done * 100).checked_div(all).unwrap_or(100);
        if self.shown != Some(percent) && std::io::stderr().is_terminal() {
            self.shown = Some(percent);
            print_stderr(format_args!("\r\x1b[K{percent:>3} %  {done} entries"));
            _ = std::io::stderr().flush();
        }
    }

    fn clear(&self) {
        if self.shown.is_some() {
            print_stderr(format_args!("\r\x1b[K"));
        }
    }
}
