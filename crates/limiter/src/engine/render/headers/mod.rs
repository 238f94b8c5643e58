//! Response headers with the state of a limit, in the families that clients read.
//!
//! Names and values are passed to the caller one by one; values are written into a buffer on the stack. Names
//! are in lower case, which HTTP/2 requires and HTTP/1 allows. The fields of [`HeaderFamily::Ietf`] have the
//! syntax of draft-ietf-httpapi-ratelimit-headers, revision 11, those of [`HeaderFamily::RateLimit07`] that of
//! revision 7, which many clients still read.

use tidegate_core::Nanos;
use tidegate_policy::document::HeaderFamily;

/// The largest integer of a structured field.
const INTEGER_MAX: u64 = 999_999_999_999_999;

/// The header that marks a request admitted above a limit.
pub const DEGRADED: &str = "x-ratelimit-degraded";

/// The header with the state of a burst detector.
pub const BURST: &str = "x-ratelimit-burst";

/// Longer names are cut. Names in a policy are shorter.
const NAME_MAX: usize = 160;

/// Space for a quoted name with every character escaped, and two parameters.
const LINE_MAX: usize = 2 * NAME_MAX + 64;

/// The state of the tightest limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TightestNumbers<'a> {
    /// The name of the limit.
    pub name: &'a str,
    /// Its capacity, or its limit per window.
    pub limit: u32,
    /// Tokens left, rounded down.
    pub remaining: u32,
    /// The time until nothing counts as used.
    pub reset_after: Nanos,
    /// The seconds it takes to fill, or the length of its window.
    pub window_secs: u64,
    /// The seconds of `Retry-After` on a denial; `None` if no wait helps.
    pub retry_after_secs: Option<u64>,
    /// Whether the request was denied.
    pub denied: bool,
    /// The wall clock's time of the decision.
    pub now: Nanos,
}

/// Why a request was denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefusalText<'a> {
    /// The seconds to wait; `None` if no wait helps.
    pub retry_after_secs: Option<u64>,
    /// What denied it: a limit, a detector, `block`.
    pub rule: Option<&'a str>,
    /// The reason, as in the JSON of a decision.
    pub reason: &'a str,
}

/// Writes all headers of a response.
///
/// `standing` is that of the tightest limit, if one applies; `refused` is set on a denial. Without
/// `response_headers`, only `Retry-After` and `Cache-Control` of a denial are written.
pub fn write(
    standing: Option<&TightestNumbers<'_>>,
    refused: Option<&RefusalText<'_>>,
    families: &[HeaderFamily],
    response_headers: bool,
    mut sink: impl FnMut(&'static str, &str),
) {
    if let Some(refused) = refused {
        write_refusal(refused, response_headers, &mut sink);
    }
    if let Some(standing) = standing.filter(|_| response_headers) {
        write_standing(standing, families, &mut sink);
    }
}

/// Writes the state of a limit, in each of the families.
pub fn write_standing(
    standing: &TightestNumbers<'_>,
    families: &[HeaderFamily],
    sink: &mut impl FnMut(&'static str, &str),
) {
    for family in families {
        match family {
            HeaderFamily::XRateLimit => write_x_ratelimit(standing, sink),
            HeaderFamily::RateLimit03 => write_ratelimit_03(standing, sink),
            HeaderFamily::RateLimit07 => write_ratelimit_07(standing, sink),
            HeaderFamily::Ietf => write_ietf(standing, sink),
        }
    }
}

/// Writes the headers of a denial. It must not be cached: the same request may be admitted later.
pub fn write_refusal(
    refused: &RefusalText<'_>,
    response_headers: bool,
    sink: &mut impl FnMut(&'static str, &str),
) {
    if let Some(secs) = refused.retry_after_secs {
        sink("retry-after", Line::default().integer(secs).as_str());
    }
    sink("cache-control", "no-store");
    if !response_headers {
        return;
    }
    if let Some(rule) = refused.rule {
        sink("x-ratelimit-rule", Line::default().text(rule).as_str());
    }
    sink("x-ratelimit-reason", Line::default().text(refused.reason).as_str());
}

/// Writes the mark of a degraded request.
pub fn write_degraded(mark: &str, sink: &mut impl FnMut(&'static str, &str)) {
    sink(DEGRADED, Line::default().text(mark).as_str());
}

/// The reset is the Unix time, in seconds, at which nothing counts as used.
fn write_x_ratelimit(standing: &TightestNumbers<'_>, sink: &mut impl FnMut(&'static str, &str)) {
    let reset_at = standing.now.saturating_add(standing.reset_after).as_secs_ceil();
    sink("x-ratelimit-limit", Line::default().integer(standing.limit.into()).as_str());
    sink("x-ratelimit-remaining", Line::default().integer(remaining(standing)).as_str());
    sink("x-ratelimit-reset", Line::default().integer(reset_at).as_str());
}

/// The reset is a number of seconds from now.
fn write_ratelimit_03(standing: &TightestNumbers<'_>, sink: &mut impl FnMut(&'static str, &str)) {
    sink("ratelimit-limit", Line::default().integer(standing.limit.into()).as_str());
    sink("ratelimit-remaining", Line::default().integer(remaining(standing)).as_str());
    sink("ratelimit-reset", Line::default().integer(reset(standing)).as_str());
}

/// One dictionary with the numbers of [`write_ratelimit_03`], and the policy as its quota and window.
fn write_ratelimit_07(standing: &TightestNumbers<'_>, sink: &mut impl FnMut(&'static str, &str)) {
    let mut state = Line::default();
    state.raw("limit=").integer(standing.limit.into());
    state.raw(", remaining=").integer(remaining(standing));
    state.raw(", reset=").integer(reset(standing));
    sink("ratelimit", state.as_str());

    let mut policy = Line::default();
    policy.integer(standing.limit.into()).raw(";w=").integer(standing.window_secs.max(1));
    sink("ratelimit-policy", policy.as_str());
}

fn write_ietf(standing: &TightestNumbers<'_>, sink: &mut impl FnMut(&'static str, &str)) {
    let mut policy = Line::default();
    policy.quoted(standing.name).raw(";q=").integer(standing.limit.into());
    // The draft forbids a window of zero.
    policy.raw(";w=").integer(standing.window_secs.max(1));
    sink("ratelimit-policy", policy.as_str());

    let mut state = Line::default();
    state.quoted(standing.name).raw(";r=").integer(remaining(standing));
    if let Some(secs) = wait(standing) {
        state.raw(";t=").integer(secs);
    }
    sink("ratelimit", state.as_str());
}

/// Capped at the limit, whatever the caller passes.
fn remaining(standing: &TightestNumbers<'_>) -> u64 {
    standing.remaining.min(standing.limit).into()
}

/// The seconds of a header that must have some: [`wait`], and for a request that will never be admitted, which has
/// none, the time until nothing counts as used.
fn reset(standing: &TightestNumbers<'_>) -> u64 {
    wait(standing).unwrap_or(standing.reset_after.as_secs_ceil())
}

/// The seconds for a client: on an admission until nothing counts as used, on a denial the same as
/// `Retry-After`, so that the two never contradict each other.
fn wait(standing: &TightestNumbers<'_>) -> Option<u64> {
    if standing.denied { standing.retry_after_secs } else { Some(standing.reset_after.as_secs_ceil()) }
}

/// A header value under construction: visible ASCII and spaces only.
struct Line {
    bytes: [u8; LINE_MAX],
    len: usize,
}

impl Default for Line {
    fn default() -> Line {
        Line { bytes: [0; LINE_MAX], len: 0 }
    }
}

impl Line {
    fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..self.len]).expect("only ASCII is written")
    }

    fn raw(&mut self, text: &str) -> &mut Line {
        self.bytes[self.len..][..text.len()].copy_from_slice(text.as_bytes());
        self.len += text.len();
        self
    }

    /// Appends an integer of a structured field.
    fn integer(&mut self, value: u64) -> &mut Line {
        self.raw(itoa::Buffer::new().format(value.min(INTEGER_MAX)))
    }

    /// Appends a name as it is. Characters that a header cannot carry become question marks.
    fn text(&mut self, text: &str) -> &mut Line {
        text.chars().take(NAME_MAX).for_each(|letter| self.push(visible(letter)));
        self
    }

    /// Appends a string of a structured field.
    fn quoted(&mut self, text: &str) -> &mut Line {
        self.push(b'"');
        for letter in text.chars().take(NAME_MAX) {
            let byte = visible(letter);
            if matches!(byte, b'"' | b'\\') {
                self.push(b'\\');
            }
            self.push(byte);
        }
        self.push(b'"');
        self
    }

    fn push(&mut self, byte: u8) {
        self.bytes[self.len] = byte;
        self.len += 1;
    }
}

fn visible(letter: char) -> u8 {
    match letter {
        ' '..='~' => letter as u8,
        _ => b'?',
    }
}

#[cfg(test)]
mod tests;
