//! `tidegate check`: asks a running server for one decision and prints it.

use std::fmt::Write;

use http::StatusCode;
use serde_json::Value;

use super::http_client::ServerTarget;
use super::print;
use crate::bounds::RESP_ARGS_MAX;
use crate::commands::flags::{Check, OutputFormat};
use crate::commands::request_pairs::request_json;
use crate::commands::terminal::exit::CommandFailure;
use crate::commands::terminal::paint::{Paint, Tone, printable};

pub(super) fn run(args: &Check) -> Result<(), CommandFailure> {
    let usage = |error: &dyn std::fmt::Display| CommandFailure::Usage(error.to_string());
    if args.fields.len() * 2 > RESP_ARGS_MAX {
        return Err(usage(&format!("too many fields: at most {} are allowed", RESP_ARGS_MAX / 2)));
    }
    let mut pairs = Vec::new();
    for field in &args.fields {
        let wrong = || usage(&format!("`{field}` is not a NAME=VALUE pair; write it as user=42"));
        pairs.push(field.split_once('=').ok_or_else(wrong)?);
    }
    let body = request_json(pairs.into_iter()).map_err(|error| usage(&error))?.to_string();
    let target = ServerTarget::parse(&args.server).map_err(|error| usage(&error))?;
    let running = |error: &dyn std::fmt::Display| CommandFailure::Running(error.to_string());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| running(&error))?;
    let path = if args.peek { "/v1/peek" } else { "/v1/check" };
    let response = runtime.block_on(target.post(path, body, args.ca.as_deref()));
    let (status, body) = response.map_err(|error| running(&error))?;
    let answer: Option<Value> = serde_json::from_slice(&body).ok();
    let allowed = answer.as_ref().and_then(|answer| answer.get("allowed")).and_then(Value::as_bool);
    match (answer, allowed) {
        (Some(decision), Some(allowed)) => {
            match args.format {
                OutputFormat::Json => print(&format!("{decision}\n"))?,
                OutputFormat::Text => print(&render(&decision, allowed, Paint::stdout()))?,
            }
            if allowed { Ok(()) } else { Err(CommandFailure::Denied) }
        }
        (answer, _) => Err(no_decision(status, answer.as_ref())),
    }
}

/// The failure for a response that holds no decision.
fn no_decision(status: StatusCode, answer: Option<&Value>) -> CommandFailure {
    let detail =
        answer.and_then(|answer| ["detail", "title"].iter().find_map(|name| answer.get(name)?.as_str()));
    let message = match detail {
        Some(detail) => format!("the server answered {status}: {}", printable(detail)),
        None => format!("the server answered {status} without a decision; is it a Tidegate server?"),
    };
    match status {
        StatusCode::BAD_REQUEST => CommandFailure::Usage(message),
        _ => CommandFailure::Running(message),
    }
}

/// A decision as text.
fn render(decision: &Value, allowed: bool, paint: Paint) -> String {
    let mut out = String::new();
    write_decision(&mut out, decision, allowed, paint).expect("writing to memory does not fail");
    out
}

fn write_decision(out: &mut String, decision: &Value, allowed: bool, paint: Paint) -> std::fmt::Result {
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
        if let Some(tag) = text(decision, "degraded_tag") {
            write!(out, " as `{tag}`")?;
        }
    }
    match (allowed, number(decision, "retry_after_ms")) {
        (true, _) => {}
        (false, Some(wait)) => write!(out, "; retry after {}", millis_text(wait))?,
        (false, None) => write!(out, "; retrying will not help")?,
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
            write!(out, ", full in {}", millis_text(reset))?;
        }
        let shadow = text(limit, "mode").is_some_and(|mode| mode == "shadow");
        writeln!(out, "{}", if shadow { ", shadow mode: it denies nothing" } else { "" })?;
    }
    if limits.is_empty() && reason == "no_limit" {
        writeln!(out, "  no limit of the policy applies to this request")?;
    }
    Ok(())
}

/// Milliseconds as `250 ms` or `1.3 s`, rounded up: a wait that is shown must be enough.
fn millis_text(millis: i64) -> String {
    match millis {
        0..1_000 => format!("{millis} ms"),
        _ => {
            let tenths = millis / 100 + i64::from(millis % 100 > 0);
            format!("{}.{} s", tenths / 10, tenths % 10)
        }
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
        let text = render(&decision, false, Paint::never());
        assert_eq!(
            text,
            "denied (token_bucket_exceeded) by per-user; retry after 1.3 s\n  ✗ per-user: 0 of 50 left, full in 500 ms\n"
        );
    }

    #[test]
    fn a_degraded_request_is_told_with_its_tag() {
        let decision = json!({
            "allowed": true, "reason": "ok", "degraded": true, "degraded_tag": "slow", "limits": [],
        });
        assert_eq!(render(&decision, true, Paint::never()), "allowed, degraded as `slow`\n");
    }

    #[test]
    fn what_the_server_says_does_not_speak_to_the_terminal() {
        let decision = json!({ "allowed": true, "reason": "no_limit\u{1b}[2J", "limits": [] });
        assert!(!render(&decision, true, Paint::never()).contains('\u{1b}'));
        let decision = json!({ "allowed": false, "reason": "blocked", "violated_rule": "block", "retry_after_ms": null });
        assert_eq!(
            render(&decision, false, Paint::never()),
            "denied (blocked) by block; retrying will not help\n"
        );
    }
}
