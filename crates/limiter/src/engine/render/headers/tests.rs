use proptest::prelude::*;

use super::*;

const ALLOWED: TightestNumbers<'static> = TightestNumbers {
    name: "per-user",
    limit: 50,
    remaining: 49,
    reset_after: Nanos::from_millis(1_100),
    window_secs: 5,
    retry_after_secs: None,
    denied: false,
    now: Nanos::from_millis(1_700_000_000_300),
};

const DENIED: TightestNumbers<'static> = TightestNumbers {
    remaining: 0,
    reset_after: Nanos::from_secs(5),
    retry_after_secs: Some(1),
    denied: true,
    ..ALLOWED
};

const REFUSED: RefusalText<'static> =
    RefusalText { retry_after_secs: Some(1), rule: Some("per-user"), reason: "token_bucket_exceeded" };

const ALL: [HeaderFamily; 4] =
    [HeaderFamily::XRateLimit, HeaderFamily::RateLimit03, HeaderFamily::RateLimit07, HeaderFamily::Ietf];

fn standing(standing: &TightestNumbers<'_>, families: &[HeaderFamily]) -> Vec<String> {
    written(Some(standing), None, families, true)
}

fn written(
    standing: Option<&TightestNumbers<'_>>,
    refused: Option<&RefusalText<'_>>,
    families: &[HeaderFamily],
    response_headers: bool,
) -> Vec<String> {
    let mut lines = Vec::new();
    write(standing, refused, families, response_headers, |name, value| {
        lines.push(format!("{name}: {value}"))
    });
    lines
}

#[test]
fn an_allowed_request_is_told_when_all_is_back() {
    assert_eq!(
        standing(&ALLOWED, &ALL),
        [
            "x-ratelimit-limit: 50",
            "x-ratelimit-remaining: 49",
            "x-ratelimit-reset: 1700000002",
            "ratelimit-limit: 50",
            "ratelimit-remaining: 49",
            "ratelimit-reset: 2",
            "ratelimit: limit=50, remaining=49, reset=2",
            "ratelimit-policy: 50;w=5",
            "ratelimit-policy: \"per-user\";q=50;w=5",
            "ratelimit: \"per-user\";r=49;t=2",
        ]
    );
    let full = TightestNumbers { remaining: 50, reset_after: Nanos::ZERO, ..ALLOWED };
    assert_eq!(standing(&full, &[HeaderFamily::Ietf])[1], "ratelimit: \"per-user\";r=50;t=0");
}

#[test]
fn a_denied_one_is_told_what_retry_after_says() {
    assert_eq!(
        written(Some(&DENIED), Some(&REFUSED), &ALL, true),
        [
            "retry-after: 1",
            "cache-control: no-store",
            "x-ratelimit-rule: per-user",
            "x-ratelimit-reason: token_bucket_exceeded",
            "x-ratelimit-limit: 50",
            "x-ratelimit-remaining: 0",
            "x-ratelimit-reset: 1700000006",
            "ratelimit-limit: 50",
            "ratelimit-remaining: 0",
            "ratelimit-reset: 1",
            "ratelimit: limit=50, remaining=0, reset=1",
            "ratelimit-policy: 50;w=5",
            "ratelimit-policy: \"per-user\";q=50;w=5",
            "ratelimit: \"per-user\";r=0;t=1",
        ]
    );
}

#[test]
fn what_can_never_succeed_is_not_told_to_wait() {
    let never = TightestNumbers { retry_after_secs: None, ..DENIED };
    let refused = RefusalText { retry_after_secs: None, reason: "cost_exceeds_capacity", ..REFUSED };
    let lines = written(Some(&never), Some(&refused), &[HeaderFamily::Ietf], true);
    assert!(!lines.iter().any(|line| line.starts_with("retry-after")), "{lines:?}");
    assert_eq!(lines.last().unwrap(), "ratelimit: \"per-user\";r=0");
    assert_eq!(standing(&never, &[HeaderFamily::RateLimit03])[2], "ratelimit-reset: 5");
    assert_eq!(
        standing(&never, &[HeaderFamily::RateLimit07])[0],
        "ratelimit: limit=50, remaining=0, reset=5"
    );
}

#[test]
fn only_the_families_asked_for_are_written() {
    assert_eq!(standing(&ALLOWED, &[]), [""; 0]);
    assert_eq!(standing(&ALLOWED, &[HeaderFamily::XRateLimit]).len(), 3);
    assert_eq!(
        standing(&ALLOWED, &[HeaderFamily::Ietf, HeaderFamily::XRateLimit])[0][..16],
        *"ratelimit-policy"
    );
}

#[test]
fn without_response_headers_only_the_refusal_is_left() {
    let bare = written(Some(&DENIED), Some(&REFUSED), &ALL, false);
    assert_eq!(bare, ["retry-after: 1", "cache-control: no-store"]);
    assert_eq!(written(Some(&ALLOWED), None, &ALL, false), [""; 0]);
}

#[test]
fn a_refusal_without_a_limit_says_why() {
    let refused = RefusalText { retry_after_secs: None, rule: None, reason: "unknown_tenant" };
    let lines = written(None, Some(&refused), &ALL, true);
    assert_eq!(lines, ["cache-control: no-store", "x-ratelimit-reason: unknown_tenant"]);
}

#[test]
fn names_are_escaped_and_numbers_kept_in_range() {
    let odd = TightestNumbers {
        name: "a\"b\\c\r\nd☃",
        limit: u32::MAX,
        remaining: u32::MAX,
        window_secs: u64::MAX,
        retry_after_secs: Some(u64::MAX),
        denied: true,
        ..ALLOWED
    };
    assert_eq!(
        standing(&odd, &[HeaderFamily::Ietf]),
        [
            r#"ratelimit-policy: "a\"b\\c??d?";q=4294967295;w=999999999999999"#,
            r#"ratelimit: "a\"b\\c??d?";r=4294967295;t=999999999999999"#,
        ]
    );
    let refused = RefusalText { rule: Some("a\r\nSet-Cookie: x"), ..REFUSED };
    assert_eq!(written(None, Some(&refused), &[], true)[2], "x-ratelimit-rule: a??Set-Cookie: x");
    let more_than_all = TightestNumbers { remaining: 51, window_secs: 0, ..ALLOWED };
    let lines = standing(&more_than_all, &[HeaderFamily::Ietf]);
    assert_eq!(lines, ["ratelimit-policy: \"per-user\";q=50;w=1", "ratelimit: \"per-user\";r=50;t=2"]);
}

proptest! {
    #[test]
    fn any_standing_fits(
        name in prop_oneof![any::<String>(), "[\\\\\"]{0,400}"],
        limit: u32, remaining: u32, reset: u64, window_secs: u64, now: u64,
        retry_after_secs: Option<u64>, denied: bool,
    ) {
        let (reset_after, now) = (Nanos::new(reset), Nanos::new(now));
        let any = TightestNumbers { name: &name, limit, remaining, reset_after, window_secs, retry_after_secs, denied, now };
        let refused = RefusalText { retry_after_secs, rule: Some(&name), reason: &name };
        for line in written(Some(&any), Some(&refused), &ALL, true) {
            prop_assert!(line.bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{line}");
        }
    }
}

#[test]
fn a_mark_is_one_header_that_any_line_can_carry() {
    let mut lines = Vec::new();
    let mut sink = |name: &'static str, value: &str| lines.push(format!("{name}: {value}"));
    write_degraded("slow", &mut sink);
    write_degraded("langsam\r\nÜ", &mut sink);
    assert_eq!(lines, ["x-ratelimit-degraded: slow", "x-ratelimit-degraded: langsam???"]);
}
