//! `tidegate explain`: why one request would be allowed or denied.

use std::io::ErrorKind;

use tidegate::engine::Limiter;
use tidegate::engine::trust::TrustReport;
use tidegate::{ManualClock, Memory, MemoryOptions, Nanos};

use super::serve::{read_accounts, read_settings};
use super::{explain_json, explain_output, load_policy, now, print};
use crate::commands::flags::{Explain, OutputFormat};
use crate::commands::terminal::exit::{CommandFailure, display_path, read_text};
use crate::commands::terminal::paint::{Paint, Tone, printable};
use crate::identity::explained::identify;
use crate::identity::known_members::{KnownMember, KnownMembers};
use crate::settings::TrustSettings;
use crate::wire;

/// A limiter that serves no one else.
type ExplainingLimiter = Limiter<Memory<ManualClock>, ManualClock>;

pub(super) fn run(args: &Explain) -> Result<(), CommandFailure> {
    if args.policy == "-" && args.request == "-" {
        return Err(CommandFailure::Usage(
            "only one of --policy and --request can be standard input".to_owned(),
        ));
    }
    let at = args.at_ms.map_or_else(now, Nanos::from_millis);
    let policy = load_policy(&args.policy, at, false)?;
    let text = request_text(&args.request)?;
    let request = wire::request(&text)
        .map_err(|error| CommandFailure::Usage(format!("--request, column {}: {error}", error.column)))?;
    let settings = args.config.as_deref().map(read_settings).transpose()?.map(|(settings, _)| settings);
    let (request, members) = match &settings {
        Some(settings) => {
            let (request, members) = identify(settings, &request, at).map_err(CommandFailure::Usage)?;
            (request, Some(members))
        }
        None => (request, None),
    };
    let clock = ManualClock::new(at);
    let options = MemoryOptions { max_keys: 1_000, ..MemoryOptions::default() };
    let limiter = Limiter::in_memory(policy, options, clock)
        .map_err(|error| CommandFailure::Running(format!("{}: {error}", display_path(&args.policy))))?;
    let limiter = match settings.and_then(|settings| settings.trust) {
        Some(trust) => with_trust(limiter, trust)?,
        None => limiter,
    };
    for _ in 0..args.after {
        let _ = limiter.check(&request);
    }
    let mut explanation = limiter.explain(&request);
    // This limiter serves no one else, so the decision can be made for real, wait queues included.
    explanation.decision = limiter.take_place_at(&request, at);
    match args.format {
        OutputFormat::Text => {
            let paint = Paint::stdout();
            let who = members.map(|members| who(&members, paint)).unwrap_or_default();
            let trust = explanation.trust.as_ref().map(|report| trust(report, paint)).unwrap_or_default();
            print(&(explain_output::text(&explanation, args.after, paint) + &who + &trust))
        }
        OutputFormat::Json => print(&explain_json::json(&explanation, members.as_ref())),
    }
}

/// The limiter with the trust scores of the settings.
fn with_trust(limiter: ExplainingLimiter, trust: TrustSettings) -> Result<ExplainingLimiter, CommandFailure> {
    let limiter = limiter.with_trust(trust.options);
    if let (Some(file), Some(book)) = (&trust.file, limiter.trust_book()) {
        book.replace_listed(read_accounts(file)?);
    }
    Ok(limiter)
}

/// The section of the output about the trust score.
fn trust(report: &TrustReport, paint: Paint) -> String {
    let mut out = format!("\n{}\n", paint.tone(Tone::Strong, "trust score"));
    if !report.is_known {
        out.push_str("  nothing is known about the account; limits are not scaled\n");
        return out;
    }
    for line in report.score.to_string().lines() {
        out.push_str(&format!("  {line}\n"));
    }
    out
}

/// The section of the output about who is asking.
fn who(members: &KnownMembers, paint: Paint) -> String {
    let mut out = format!("\n{}\n", paint.tone(Tone::Strong, "identity"));
    if members.iter().next().is_none() {
        out.push_str("  nothing is known of who is asking\n");
    }
    for KnownMember { member, value, source } in members.iter() {
        let source = paint.tone(Tone::Faint, format!("from {}", printable(source)));
        out.push_str(&format!("  {member:<8}  {}  {source}\n", printable(value)));
    }
    out
}

/// The text of `--request`: JSON as it is, or the contents of the file it names.
fn request_text(argument: &str) -> Result<String, CommandFailure> {
    if argument.trim_start().starts_with('{') {
        return Ok(argument.to_owned());
    }
    if argument != "-"
        && let Err(error) = std::fs::metadata(argument)
        && error.kind() == ErrorKind::NotFound
    {
        let hint =
            "write JSON such as '{\"user\":\"42\",\"path\":\"/api\"}', a file name, or - for standard input";
        return Err(CommandFailure::Usage(format!(
            "--request: `{argument}` is neither a JSON object nor an existing file; {hint}"
        )));
    }
    read_text(argument)
}
