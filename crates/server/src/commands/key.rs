//! `tidegate key create`: makes an API key, prints it once and adds its hash to a file.

use tidegate::Nanos;
use tidegate_document::{DocumentNode, Span, ValueKind, value};

use super::{now, print};
use crate::commands::flags::KeyCreate;
use crate::commands::terminal::exit::{CommandFailure, print_stderr};
use crate::commands::terminal::paint::{Paint, Tone};
use crate::commands::terminal::report;
use crate::identity::api_keys::create::{CreateKeyError, KeyMembers, add, new_key};

/// The longest text about the holder of a key, in bytes.
const MEMBER_BYTES_MAX: usize = 1_024;
/// The longest time that a key can be valid, in days.
const EXPIRES_DAYS_MAX: u64 = 36_525;

pub(super) fn create(args: &KeyCreate) -> Result<(), CommandFailure> {
    let members = members(args)?;
    let key = new_key().map_err(|error| CommandFailure::Running(error.to_string()))?;
    add(&args.file, &key, &members).map_err(|error| failure(args, error))?;
    print(&format!("{key}\n"))?;
    let paint = Paint::stderr();
    let file = args.file.display();
    let note = format!("added to {file}; the key is shown only this once");
    print_stderr(format_args!("{}\n", paint.tone(Tone::Faint, note)));
    let stands_for = [&args.client, &args.user, &args.tenant, &args.plan];
    if stands_for.iter().all(|member| member.is_none()) {
        let note =
            "this key stands for nobody: add `client`, `user`, `tenant` or `plan` to its entry of the file";
        print_stderr(format_args!("{}: {note}\n", paint.tone(Tone::Warn, "warning")));
    }
    Ok(())
}

fn failure(args: &KeyCreate, error: CreateKeyError) -> CommandFailure {
    match error {
        CreateKeyError::Invalid { text, problems } => {
            let file = args.file.display().to_string();
            print_stderr(format_args!("{}", report::text(&file, &text, &problems, Paint::stderr())));
            print_stderr(format_args!("{file}: {}\n", report::counts(&problems)));
            CommandFailure::Invalid
        }
        CreateKeyError::NoRandom | CreateKeyError::Io { .. } => CommandFailure::Running(error.to_string()),
        CreateKeyError::NotRegular(_) | CreateKeyError::Form(_) | CreateKeyError::Full { .. } => {
            CommandFailure::Usage(error.to_string())
        }
    }
}

/// What the entry of the file says beside the hash.
fn members(args: &KeyCreate) -> Result<KeyMembers, CommandFailure> {
    let mut members = KeyMembers::new();
    for (name, given) in
        [("client", &args.client), ("user", &args.user), ("tenant", &args.tenant), ("plan", &args.plan)]
    {
        members.extend(given.as_deref().map(|text| member(name, text)).transpose()?);
    }
    if let Some(text) = &args.expires {
        members.push(("expires", expires(text, now())?));
    }
    members.extend(args.description.as_deref().map(|text| member("description", text)).transpose()?);
    Ok(members)
}

pub(super) fn member(name: &'static str, text: &str) -> Result<(&'static str, String), CommandFailure> {
    let wrong = |why: &str| Err(CommandFailure::Usage(format!("--{name}: the text {why}")));
    match () {
        () if text.is_empty() => wrong("is empty; leave the flag out"),
        () if text.len() > MEMBER_BYTES_MAX => wrong("is longer than 1024 bytes"),
        () if text.contains(char::is_control) => wrong("has control characters; write it on one line"),
        () => Ok((name, text.to_owned())),
    }
}

/// A time in the future, from a duration or a time, by RFC 3339.
fn expires(text: &str, now: Nanos) -> Result<String, CommandFailure> {
    expiry(text, now).map(|at| at.to_string())
}

/// The same as a time of whole seconds, which are enough, and easier to read.
pub(super) fn expiry(text: &str, now: Nanos) -> Result<jiff::Timestamp, CommandFailure> {
    const SECOND: u64 = Nanos::SECOND.get();
    let node =
        DocumentNode { kind: ValueKind::Text(text.to_owned()), at: Span { line: 1, column: 1, length: 1 } };
    let days = EXPIRES_DAYS_MAX * 86_400_000;
    let after = value::duration(&node, days).ok().map(|duration| now.saturating_add(duration));
    let at = after.or_else(|| value::instant(&node).ok());
    let wrong = |why: &str| CommandFailure::Usage(format!("--expires: `{text}` {why}"));
    let at = at.ok_or_else(|| {
        wrong("is neither a duration such as `30d`, at most 100 years, nor a time such as `2027-01-01T00:00:00Z`")
    })?;
    if at <= now {
        return Err(wrong("is not in the future"));
    }
    let seconds = i64::try_from(at.get() / SECOND).ok().and_then(|at| jiff::Timestamp::from_second(at).ok());
    seconds.ok_or_else(|| wrong("is too far away"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_expires_at_a_time_in_the_future() {
        let now = Nanos::from_secs(1_800_000_000);
        let expires = |text| expires(text, now).map_err(|failure| failure.to_string());
        assert_eq!(expires("1d").as_deref(), Ok("2027-01-16T08:00:00Z"));
        assert_eq!(expires("36500d").as_deref(), Ok("2126-12-22T08:00:00Z"));
        assert_eq!(expires("2030-01-01T00:00:00.5+01:00").as_deref(), Ok("2029-12-31T23:00:00Z"));
        for (text, wanted) in [
            ("2026-01-01T00:00:00Z", "is not in the future"),
            ("0d", "neither a duration"),
            ("40000d", "at most 100 years"),
            ("tomorrow", "`2027-01-01T00:00:00Z`"),
            ("", "neither a duration"),
        ] {
            let error = expires(text).expect_err(text);
            assert!(error.contains(wanted), "{text}: {error}");
        }
    }

    #[test]
    fn texts_are_such_as_requests_can_have() {
        assert!(member("client", "app-1").is_ok());
        for text in ["", "a\nb", &"x".repeat(MEMBER_BYTES_MAX + 1)] {
            assert!(member("client", text).is_err(), "{text}");
        }
    }
}
