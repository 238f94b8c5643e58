//! A decision as JSON, the same for every protocol and for simulations.

use std::io::Write;

use tidegate_core::Nanos;
use tidegate_document::JsonText;
use tidegate_policy::Rule;

use crate::engine::decision::{Decision, LimitStanding};

/// More than most decisions need.
const BYTES_USUAL: usize = 1_024;

impl Decision {
    /// The decision as one line of JSON.
    pub fn to_json(&self) -> String {
        let mut out = Vec::with_capacity(BYTES_USUAL);
        out.push(b'{');
        self.write_json_members(&mut out);
        out.push(b'}');
        String::from_utf8(out).expect("JSON is text")
    }

    /// Its `limits` alone, as a list.
    pub fn limits_to_json(&self) -> String {
        let mut out = Vec::with_capacity(BYTES_USUAL);
        self.write_json_limits(&mut out);
        String::from_utf8(out).expect("JSON is text")
    }

    fn write_json_limits(&self, out: &mut Vec<u8>) {
        out.push(b'[');
        for (index, (head, limit)) in self.limits_with_heads().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            write_limit(out, head, &limit);
        }
        out.push(b']');
    }

    /// Its members, without the braces around them, so that a caller can add members.
    pub fn write_json_members(&self, out: &mut Vec<u8>) {
        out.reserve(BYTES_USUAL);
        let tightest = self.tightest();
        let put = |out: &mut Vec<u8>, text: &str| out.extend_from_slice(text.as_bytes());
        put(out, "\"allowed\":");
        put(out, bool_text(self.is_allowed()));
        put(out, ",\"reason\":\"");
        put(out, self.reason().as_str());
        put(out, "\",\"limit\":");
        write_or(out, tightest.map(|limit| limit.decision.limit.into()), "-1");
        put(out, ",\"remaining\":");
        write_or(out, tightest.map(|limit| limit.decision.remaining.into()), "-1");
        put(out, ",\"reset_after_ms\":");
        write_or(out, tightest.map(|limit| limit.decision.reset_after.as_millis_ceil()), "null");
        put(out, ",\"retry_after\":");
        write_or(out, self.retry_after_secs(), "null");
        put(out, ",\"retry_after_ms\":");
        write_or(out, self.wait().map(Nanos::as_millis_ceil), "null");
        put(out, ",\"violated_rule\":");
        write_text_or_null(out, self.violated_rule());
        put(out, ",\"violated_tier\":");
        write_text_or_null(out, self.violated_tier().map(|tier| tier.as_str()));
        put(out, ",\"degraded\":");
        put(out, bool_text(self.degraded().is_some()));
        if let Some(tag) = self.degraded() {
            put(out, ",\"degraded_tag\":");
            write_text(out, tag);
        }
        put(out, ",\"shadow_denied\":[");
        for (index, name) in self.shadow_denied().enumerate() {
            put(out, if index == 0 { "" } else { "," });
            write_text(out, name);
        }
        put(out, "],\"limits\":");
        self.write_json_limits(out);
        if let Some(wait) = self.queued().map(Nanos::from) {
            put(out, ",\"queued_ms\":");
            write_number(out, wait.as_millis_ceil());
        }
        if let Some((state, _)) = self.burst() {
            put(out, ",\"burst\":\"");
            put(out, state.as_str());
            put(out, "\"");
        }
    }
}

/// The constant beginning of a limit's JSON, up to the value of `allowed`.
pub(crate) fn limit_head(rule: &Rule) -> Box<[u8]> {
    let mut head = b"{\"name\":".to_vec();
    write_text(&mut head, &rule.name);
    head.extend_from_slice(format!(",\"tier\":\"{}\",\"allowed\":", rule.tier).as_bytes());
    head.into()
}

fn write_limit(out: &mut Vec<u8>, head: &[u8], limit: &LimitStanding<'_>) {
    let put = |out: &mut Vec<u8>, text: &str| out.extend_from_slice(text.as_bytes());
    out.extend_from_slice(head);
    put(out, if limit.decision.is_allowed() { "true,\"limit\":" } else { "false,\"limit\":" });
    write_number(out, limit.decision.limit.into());
    put(out, ",\"remaining\":");
    write_number(out, limit.decision.remaining.into());
    put(out, ",\"reset_after_ms\":");
    write_number(out, limit.decision.reset_after.as_millis_ceil());
    put(out, ",\"retry_after_ms\":");
    write_or(out, limit.decision.wait().map(Nanos::as_millis_ceil), "null");
    if let Some(overridden) = limit.overridden {
        put(out, ",\"override\":");
        write_text(out, &overridden.id);
    }
    put(out, if limit.rule.is_shadow() { ",\"mode\":\"shadow\"}" } else { "}" });
}

fn bool_text(value: bool) -> &'static str {
    if value { "true" } else { "false" }
}

fn write_or(out: &mut Vec<u8>, number: Option<u64>, otherwise: &str) {
    match number {
        Some(number) => write_number(out, number),
        None => out.extend_from_slice(otherwise.as_bytes()),
    }
}

/// Uses `itoa` instead of `fmt`: a decision has a dozen numbers, and formatting them with `fmt` takes longer
/// than deciding.
fn write_number(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

fn write_text_or_null(out: &mut Vec<u8>, text: Option<&str>) {
    match text {
        Some(text) => write_text(out, text),
        None => out.extend_from_slice(b"null"),
    }
}

fn write_text(out: &mut Vec<u8>, text: &str) {
    write!(out, "{}", JsonText::new(text)).expect("writing to memory does not fail");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_they_are() {
        for number in [0, 9, 10, 99, 100, 4_294_967_295, u64::MAX - 1, u64::MAX] {
            let mut out = Vec::new();
            write_number(&mut out, number);
            assert_eq!(String::from_utf8(out).unwrap(), number.to_string());
        }
    }

    #[test]
    fn text_is_read_back_as_it_was() {
        for text in ["", "plain", "é€😀", "a\"b\\c", "\u{0}\u{1f}\u{7f}\n"] {
            let mut out = Vec::new();
            write_text(&mut out, text);
            assert_eq!(serde_json::from_slice::<String>(&out).unwrap(), text);
        }
    }
}
