//! A strict parser for the `traceparent` header of W3C Trace Context.

use opentelemetry::trace::{SpanContext, SpanId, TraceFlags, TraceId, TraceState};

/// Bytes of a version 00 header.
const LEN: usize = 55;

/// The span context in the header; `None` if the header is invalid.
pub(crate) fn parse(header: &str) -> Option<SpanContext> {
    let bytes = header.as_bytes();
    if bytes.len() < LEN || bytes[2] != b'-' || bytes[35] != b'-' || bytes[52] != b'-' {
        return None;
    }
    let version = hex(&bytes[..2])?;
    // Later versions may append fields; version 00 may not, and version 255 is forbidden.
    let ends_well = match version {
        0 => bytes.len() == LEN,
        255 => false,
        _ => bytes.get(LEN).is_none_or(|next| *next == b'-'),
    };
    let trace = TraceId::from(hex(&bytes[3..35])?);
    let span = SpanId::from(u64::try_from(hex(&bytes[36..52])?).ok()?);
    let flags = u8::try_from(hex(&bytes[53..LEN])?).ok()?;
    let sampled = TraceFlags::new(flags) & TraceFlags::SAMPLED;
    let context = SpanContext::new(trace, span, sampled, true, TraceState::NONE);
    (ends_well && context.is_valid()).then_some(context)
}

/// Lower-case hexadecimal digits, at most 32 of them.
fn hex(digits: &[u8]) -> Option<u128> {
    digits.iter().try_fold(0, |number: u128, digit| {
        let value = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            _ => return None,
        };
        Some(number << 4 | u128::from(value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_good_one_is_read() {
        let context = parse(GOOD).expect("it is valid");
        assert_eq!(context.trace_id().to_string(), "4bf92f3577b34da6a3ce929d0e0e4736");
        assert_eq!(context.span_id().to_string(), "00f067aa0ba902b7");
        assert!(context.is_sampled() && context.is_remote());
        let quiet = GOOD.replace("-01", "-00");
        assert!(!parse(&quiet).expect("it is valid").is_sampled());
    }

    #[test]
    fn later_versions_may_say_more() {
        let later = GOOD.replacen("00-", "cc-", 1);
        assert!(parse(&later).is_some());
        assert!(parse(&format!("{later}-what-the-future-brings")).is_some());
        assert!(parse(&format!("{later}.what")).is_none());
    }

    #[test]
    fn everything_else_is_refused() {
        let zero_trace = "00-00000000000000000000000000000000-00f067aa0ba902b7-01";
        let zero_span = "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01";
        let bad = [
            "",
            "00",
            zero_trace,
            zero_span,
            &GOOD.to_uppercase(),
            &GOOD.replacen("00-", "ff-", 1),
            &format!("{GOOD}-more"),
            &format!(" {GOOD}"),
            &GOOD.replace("-01", "-0x"),
            &GOOD.replace("f067", "é67"),
            &GOOD.replace('-', "_"),
            &GOOD[..54],
        ];
        for header in bad {
            assert!(parse(header).is_none(), "{header:?}");
        }
    }
}
