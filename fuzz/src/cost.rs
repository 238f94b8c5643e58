//! Costs from headers, from fields of `TG.CHECK` and from members of a JSON body.

use tidegate::engine::{Limiter, Policy, Request};
use tidegate::{ManualClock, Memory, MemoryOptions};
use tidegate_server::wire::{self, RequestFields};

use crate::target::{FuzzFailure, kind_of};

const CAPACITY: u32 = 1_000_000;
const DEFAULT: u32 = 7;
const MAX: u32 = 5_000;

type TestLimiter = Limiter<Memory<ManualClock>, ManualClock>;

/// One per thread: the test computes the charge from what is left in the bucket, so nothing else may use it.
fn limiter() -> TestLimiter {
    let policy = format!(
        "version: 1\nlimits:\n  - name: weighed\n    key: []\n    sustained: {{ rate: 1 }}\n    \
         burst: {{ capacity: {CAPACITY} }}\n    \
         cost: {{ from: \"header:x-weight\", default: {DEFAULT}, max: {MAX} }}\n"
    );
    let policy = Policy::parse(&policy).expect("the policy is valid");
    let options = MemoryOptions { max_keys: 100, max_log_entries: 100 };
    Limiter::in_memory(policy, options, ManualClock::default()).expect("one limit fits")
}

thread_local! {
    static LIMITER: TestLimiter = limiter();
}

pub(crate) fn try_input(input: &[u8]) -> Result<u64, FuzzFailure> {
    let text = String::from_utf8_lossy(input);
    let charged = charged(Request::new().header("X-Weight", text.clone()))?;
    let expected = expected(&text);
    FuzzFailure::unless(charged == expected, || format!("charged {charged} instead of {expected}"))?;

    // The `cost` of a request is a 32-bit number in plain digits, or an error.
    let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let number = text.parse::<u32>().ok().filter(|_| plain);
    let mut fields = RequestFields::new();
    let set = fields.set("cost", &text);
    FuzzFailure::unless(set.is_ok() == number.is_some(), || format!("as a field: {set:?}"))?;
    if let Some(number) = number {
        let cost = fields.into_request().cost.get();
        FuzzFailure::unless(cost == number, || format!("as a field it is {cost}"))?;
    }
    let body = format!("{{\"cost\":{text}}}");
    if let Ok(request) = wire::request(&body) {
        let fits = text.trim().parse::<u32>().is_ok_and(|number| number == request.cost.get());
        // The text may contain further members after the cost.
        FuzzFailure::unless(fits || text.contains(','), || format!("as a member it is {:?}", request.cost))?;
    }
    Ok(kind_of(
        [format!("{} {}", word(charged), if set.is_ok() { "set" } else { "not" }).as_str()].into_iter(),
    ))
}

/// How much the request takes from a full bucket, which is refilled afterwards.
fn charged(request: Request<'_>) -> Result<u32, FuzzFailure> {
    LIMITER.with(|limiter| {
        let decision = limiter.check(&request);
        FuzzFailure::unless(decision.is_allowed(), || format!("denied: {decision:?}"))?;
        let left = decision.tightest().map(|limit| limit.decision.remaining);
        let charged =
            left.map(|left| CAPACITY - left).ok_or_else(|| FuzzFailure("no limit applied".to_owned()))?;
        let _ = limiter.refund(&Request::new(), tidegate::Cost::new(charged));
        Ok(charged)
    })
}

/// The expected charge by the documented rule, computed on decimal strings.
fn expected(text: &str) -> u32 {
    let digits = text.trim_ascii();
    if digits.is_empty() || digits.bytes().any(|byte| !byte.is_ascii_digit()) {
        return DEFAULT;
    }
    let digits = digits.trim_start_matches('0');
    let most = MAX.to_string();
    match digits.len().cmp(&most.len()).then_with(|| digits.cmp(most.as_str())) {
        _ if digits.is_empty() => DEFAULT,
        std::cmp::Ordering::Greater => MAX,
        _ => digits.bytes().fold(0, |sum, digit| sum * 10 + u32::from(digit - b'0')),
    }
}

fn word(charged: u32) -> &'static str {
    match charged {
        DEFAULT => "default",
        MAX => "most",
        1..=9 => "one digit",
        10..=99 => "two digits",
        _ => "more digits",
    }
}
