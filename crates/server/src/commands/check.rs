//! `tidegate check`.

use std::fmt::Write;

use http::StatusCode;
use serde_json::Value;

use super::ask::ServerTarget;
use super::print;
use crate::bounds::RESP_ARGS_MAX;
use crate::commands::flags::{Check, OutputFormat};
use crate::commands::request_pairs::question;
use crate::commands::terminal::exit::CommandFailure;
use crate::commands::terminal::paint::{Paint, Tone, printable};

pub(super) fn run(args: &Check) -> Result<(), CommandFailure> {
    let usage = |error: &dyn std::fmt::Display| CommandFailure::Usage(error.to_string());
    if args.fields.len() * 2 > RESP_ARGS_MAX {
        return Err(usage(&format!("at most {} fields", RESP_ARGS_MAX / 2)));
    }
    let mut pairs = Vec::new();
    for field in &args.fields {
        let wrong = || usage(&format!("`{field}` is no NAME=VALUE; write it as user=42"));
        pairs.push(field.split_once('=').ok_or_else(wrong)?);
    }
    let body = question(pairs.into_iter()).map_err(|error| usage(&error))?.to_string();
    let target = ServerTarget::parse(&args.server).map_err(|error| usage(&error))?;
    let running = |error: &dyn std::fmt::Display| CommandFailure::Running(error.to_string());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| running(&error))?;
    let path = if args.peek { "/v1/peek" } else { "/v1/check" };
    let asked = runtime.block_on(target.post(path, body, args.ca.as_deref()));
    let (status, body) = asked.map_err(|error| running(&error))?;
    let answer: Option<Value> = serde_json::from_slice(&body).ok();
    let allowed = answer.as_ref().and_then(|answer| answer.get("allowed")).and_then(Value::as_bool);
    match (answer, allowed) {
        (Some(decision), Some(allowed)) => {
            match args.format {
                OutputFormat::Json => print(&format!("{decision}\n"))?,
                OutputFormat::Text => print(&told(&decision, allowed, Paint::stdout()))?,
            }
            if allowed { Ok(()) } else { Err(CommandFailure::Denied) }
        }
        (answer, _) => Err(refused(status, answer.as_ref())),
    }
}

/// The server gave no decision.
fn refused(status: StatusCode, answer: Option<&Value>) -> CommandFailure {
    let detail =
        answer.and_then(|answer| ["detail", "title"].iter().find_map(|name| answer.get(name)?.as_str()));
    let said = match detail {
        Some(detail) => format!("the server says: {} ({status})", printable(detail)),
        None => format!("the server answered {status} without a decision; is it a tidegate?"),
    };
    match status {
        // The question was wrong.
        StatusCode::BAD_REQUEST => CommandFailure::Usage(said),
        _ => CommandFailure::Running(said),
    }
}

/// A decision for people.
fn told(decision: &Value, allowed: bool, paint: Paint) -> String {
    let mut out = String::new();
    tell(&mut out, decision, allowed, paint).expect("writing to memory does not fail");
    out
}

fn tell(out: &mut String, decision: &Value, allowed: bool, paint: Paint) -> std::fmt::Result {
    let text = |value: &Value, name: &str| value.get(name).and_then(Value::as_str).map(printable);
    let number = |value: &Value, name: &str| value.get(name).and_then(Value::as_i64);
    let reason = text(decision, "reason").unwrap_or_default();
    match allowed {
        true => write!(out, "{}", paint.tone(Tone::Good, "allowed"))?,
        false => write!(out, "{}", paint.tone(Tone::Bad, "denied"))?,
    }
    match reason.as_str() {
        "ok" => {}
        reason => write!(out, " ({reason})")?,
    }
    if let Some(rule) = text(decision, "violated_rule") {
        write!(out, " by {}", paint.tone(Tone::Name, rule))?;
    }
    if decision.get("degraded").and_then(Value::as_bool) == Some(true) {
        write!(out, ", {}", paint.tone(Tone::Warn, "degraded"))?;
    }
    match (allowed, number(decision, "retry_after_ms")) {
        (true, _) => {}
        (false, Some(wait)) => write!(out, "; wait {}", span(wait))?,
        (false, None) => write!(out, "; waiting does not help")?,
    }
    writeln!(out)?;
    let limits = decision.get("limits").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    for limit in limits {
        let name = text(limit, "name").unwrap_or_default();
        let mark = match limit.get("allowed").and_then(Value::as_bool) {
            Some(false) => paint.tone(Tone::Bad, "✗"),
            _ => paint.tone(Tone::Good, "✓"),
        };
        let (left, of) = (number(limit, "remaining").unwrap_or(-1), number(limit, "limit").unwrap_or(-1));
        write!(out, "  {mark} {name}: {left} of {of} left")?;
        if let Some(reset) = number(limit, "reset_after_ms").filter(|reset| *reset > 0) {
            write!(out, ", full in {}", span(reset))?;
        }
        let shadow = text(limit, "mode").is_some_and(|mode| mode == "shadow");
        writeln!(out, "{}", if shadow { ", only watched" } else { "" })?;
    }
    if limits.is_empty() && reason == "no_limit" {
        writeln!(out, "  no limit of the policy applies to this request")?;
    }
    Ok(())
}

/// Milliseconds for people.
fn span(millis: i64) -> String {
    match millis {
        0..1_000 => format!("{millis} ms"),
        _ => format!("{}.{} s", millis / 1_000, millis % 1_000 / 100),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_denial_is_told_with_its_wait() {
        let decision = json!({
            "allowed": false, "reason": "token_bucket_exceeded", "retry_after_ms": 1_250, "violated_rule": "per-user",
            "degraded": false,
            "limits": [{ "name": "per-user", "allowed": false, "limit": 50, "remaining": 0, "reset_after_ms": 500 }],
        });
        let said = told(&decision, false, Paint::never());
        assert_eq!(
            said,
            "denied (token_bucket_exceeded) by per-user; wait 1.2 s\n  ✗ per-user: 0 of 50 left, full in 500 ms\n"
        );
    }

    #[test]
    fn what_the_server_says_does_not_speak_to_the_terminal() {
        let decision = json!({ "allowed": true, "reason": "no_limit\u{1b}[2J", "limits": [] });
        assert!(!told(&decision, true, Paint::never()).contains('\u{1b}'));
        let decision = json!({ "allowed": false, "reason": "blocked", "violated_rule": "block", "retry_after_ms": null });
        assert_eq!(
            told(&decision, false, Paint::never()),
            "denied (blocked) by block; waiting does not help\n"
        );
    }
}
