//! The body of a denial: `application/problem+json`, with the members that clients of several APIs look for.

use std::fmt::Write;

use tidegate_document::JsonText;
use tidegate_policy::IdentityFault;

/// The body's media type.
pub const CONTENT_TYPE: &str = "application/problem+json";

/// What the body of a denial is rendered from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefusalBody<'a> {
    /// The status of the response.
    pub status: u16,
    /// The reason, as in the JSON of a decision.
    pub reason: &'a str,
    /// The seconds of the header, jitter included; `None` if no wait helps.
    pub retry_after_secs: Option<u64>,
    /// The exact wait in milliseconds.
    pub retry_after_ms: Option<u64>,
    /// What denied the request: a limit, a detector, `block`.
    pub violated_rule: Option<&'a str>,
    /// The tier of its key.
    pub violated_tier: Option<&'a str>,
    /// Where support can look at the client's state; without it, the body has no such member.
    pub console: Option<&'a str>,
}

/// The body as a new string.
pub fn body(refusal: &RefusalBody<'_>) -> String {
    let mut out = String::with_capacity(640);
    write_body(refusal, &mut out);
    out
}

/// Appends the body to `out`.
pub fn write_body(refusal: &RefusalBody<'_>, out: &mut String) {
    let kind = Kind::of(refusal.reason);
    let (detail, description) = (detail(refusal), description(refusal, kind));
    text_member(out, '{', "type", kind.uri());
    text_member(out, ',', "title", kind.title());
    number_member(out, "status", Some(refusal.status.into()));
    text_member(out, ',', "detail", &detail);
    text_member(out, ',', "message", &detail);
    text_member(out, ',', "error", kind.error());
    text_member(out, ',', "error_description", &description);
    number_member(out, "retry_after", refusal.retry_after_secs);
    number_member(out, "retry_after_ms", refusal.retry_after_ms);
    out.push_str(",\"violated-policies\":[");
    if let Some(rule) = refusal.violated_rule {
        quoted(out, rule);
    }
    out.push(']');
    optional_member(out, "violated_rule", refusal.violated_rule);
    optional_member(out, "violated_tier", refusal.violated_tier);
    if let Some(link) = refusal.console {
        text_member(out, ',', "console", link);
    }
    out.push('}');
}

/// The body of a 400 for a request whose identity cannot be used.
pub fn identity_body(fault: &IdentityFault) -> String {
    let mut out = String::with_capacity(160);
    text_member(&mut out, '{', "type", "about:blank");
    text_member(&mut out, ',', "title", "Bad Request");
    number_member(&mut out, "status", Some(400));
    text_member(&mut out, ',', "detail", &fault.to_string());
    text_member(&mut out, ',', "field", &fault.source);
    out.push('}');
    out
}

/// The registered problem types for rate limits, and one for which the status says everything.
#[derive(Clone, Copy)]
enum Kind {
    QuotaExceeded,
    AbnormalUsage,
    ReducedCapacity,
    Unauthorized,
    UnknownKey,
}

impl Kind {
    fn of(reason: &str) -> Kind {
        match reason {
            "queue_full" | "queue_timeout" | "store_unavailable" => Kind::ReducedCapacity,
            "blocked" | "burst_blocked" => Kind::AbnormalUsage,
            "invalid_credentials" => Kind::Unauthorized,
            "unknown_key" => Kind::UnknownKey,
            _ => Kind::QuotaExceeded,
        }
    }

    const fn uri(self) -> &'static str {
        match self {
            Kind::QuotaExceeded => "https://iana.org/assignments/http-problem-types#quota-exceeded",
            Kind::AbnormalUsage => "https://iana.org/assignments/http-problem-types#abnormal-usage-detected",
            Kind::ReducedCapacity => {
                "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"
            }
            Kind::Unauthorized | Kind::UnknownKey => "about:blank",
        }
    }

    const fn title(self) -> &'static str {
        match self {
            Kind::QuotaExceeded | Kind::AbnormalUsage => "Too Many Requests",
            Kind::ReducedCapacity => "Service Unavailable",
            Kind::Unauthorized | Kind::UnknownKey => "Unauthorized",
        }
    }

    /// The error code that clients look for; for an invalid credential, that of OAuth.
    const fn error(self) -> &'static str {
        match self {
            Kind::QuotaExceeded | Kind::AbnormalUsage | Kind::ReducedCapacity => "rate_limit_exceeded",
            Kind::Unauthorized => "invalid_token",
            Kind::UnknownKey => "unknown_key",
        }
    }
}

/// What happened and what to do about it, for people.
fn detail(refusal: &RefusalBody<'_>) -> String {
    let limit = refusal.violated_rule.map_or("a limit".to_owned(), |rule| format!("the limit {rule}"));
    let mut detail = match refusal.reason {
        "blocked" => "Requests like this one are blocked.".to_owned(),
        "burst_blocked" => {
            "Too many requests came at once, more than one time. They are blocked for now.".to_owned()
        }
        "cost_exceeds_capacity" => format!("This request costs more than {limit} can ever admit."),
        "queue_full" => format!("Too many requests are already waiting for {limit}."),
        "queue_timeout" => format!("This request cannot be admitted by {limit} within the time it may wait."),
        "store_unavailable" => {
            format!("At the moment it is not known whether {limit} admits this request.")
        }
        "unknown_tenant" => "The tenant of this request is not known.".to_owned(),
        "missing_key" => format!("This request lacks what {limit} counts by."),
        "invalid_credentials" => "The credentials of this request are not valid.".to_owned(),
        "unknown_key" => "The API key of this request is not known, has expired or is disabled.".to_owned(),
        _ => format!("This request is more than {limit} admits right now."),
    };
    match refusal.retry_after_secs {
        None if refusal.reason == "invalid_credentials" => {
            detail.push_str(" Retry with others, or with none.")
        }
        None if refusal.reason == "unknown_key" => detail.push_str(" Retry with another, or with none."),
        Some(1) => detail.push_str(" Retry after 1 second."),
        Some(secs) => {
            write!(detail, " Retry after {secs} seconds.").expect("writing to a String does not fail");
        }
        None => detail.push_str(" Retrying will not help."),
    }
    detail
}

/// A fixed sentence that scripts may look for.
fn description(refusal: &RefusalBody<'_>, kind: Kind) -> String {
    let what = match kind {
        Kind::QuotaExceeded | Kind::AbnormalUsage => "Too many requests.",
        Kind::ReducedCapacity => "Service temporarily unavailable.",
        Kind::Unauthorized => "The credentials do not hold.",
        Kind::UnknownKey => "The API key is not known.",
    };
    match (refusal.retry_after_secs, refusal.reason) {
        (Some(secs), _) => format!("{what} Please retry after {secs} seconds."),
        (None, "cost_exceeds_capacity") => "The request costs more than its limit can ever admit.".to_owned(),
        (None, "blocked") => "The request is blocked.".to_owned(),
        (None, "missing_key") => "The request lacks what its limit counts by.".to_owned(),
        (None, "unknown_tenant") => "The tenant is not known.".to_owned(),
        (None, _) => what.to_owned(),
    }
}

fn name(out: &mut String, before: char, name: &str) {
    out.push(before);
    quoted(out, name);
    out.push(':');
}

fn text_member(out: &mut String, before: char, member: &str, value: &str) {
    name(out, before, member);
    quoted(out, value);
}

fn optional_member(out: &mut String, member: &str, value: Option<&str>) {
    name(out, ',', member);
    match value {
        Some(value) => quoted(out, value),
        None => out.push_str("null"),
    }
}

fn number_member(out: &mut String, member: &str, value: Option<u64>) {
    name(out, ',', member);
    match value {
        Some(value) => write!(out, "{value}").expect("writing to a String does not fail"),
        None => out.push_str("null"),
    }
}

fn quoted(out: &mut String, text: &str) {
    JsonText::new(text).write_to(out).expect("writing to a String does not fail");
}

#[cfg(test)]
mod tests;
