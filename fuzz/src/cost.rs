//! Costs as headers, fields and members state them.

use tidegate::engine::{Limiter, Policy, Request};
use tidegate::{ManualClock, Memory, MemoryOptions};
use tidegate_server::wire::{self, RequestFields};

use crate::target::{FuzzFailure, kind_of};

const CAPACITY: u32 = 1_000_000;
const DEFAULT: u32 = 7;
const MAX: u32 = 5_000;

type Still = Limiter<Memory<ManualClock>, ManualClock>;

/// What is charged is read off the bucket, so nobody else may draw on it.
fn limiter() -> Still {
    let policy = format!(
        "version: 1\nlimits:\n  - name: weighed\n    key: []\n    sustained: {{ rate: 1 }}\n    \
         burst: {{ capacity: {CAPACITY} }}\n    \
         cost: {{ from: \"header:x-weight\", default: {DEFAULT}, max: {MAX} }}\n"
    );
    let policy = Policy::parse(&policy).expect("the policy is one");
    let options = MemoryOptions { max_keys: 100, max_log_entries: 100 };
    Limiter::in_memory(policy, options, ManualClock::default()).expect("one limit fits")
}

thread_local! {
    static LIMITER: Still = limiter();
}

pub(crate) fn try_input(input: &[u8]) -> Result<u64, FuzzFailure> {
    let text = String::from_utf8_lossy(input);
    let charged = charged(Request::new().header("X-Weight", text.clone()))?;
    let expected = expected(&text);
    FuzzFailure::unless(charged == expected, || format!("charged {charged} instead of {expected}"))?;

    // A request's own factor is a number of 32 bits in plain digits, or an error.
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
        // The text may hold a cost and more members after it.
        FuzzFailure::unless(fits || text.contains(','), || format!("as a member it is {:?}", request.cost))?;
    }
    Ok(kind_of(
        [format!("{} {}", word(charged), if set.is_ok() { "set" } else { "not" }).as_str()].into_iter(),
    ))
}

/// How much a full bucket loses.
fn charged(request: Request<'_>) -> Result<u32, FuzzFailure> {
    LIMITER.with(|limiter| {
        let decision = limiter.check(&request);
        FuzzFailure::unless(decision.is_allowed(), || format!("denied: {decision:?}"))?;
        let left = decision.tightest().map(|limit| limit.decision.remaining);
        let charged =
            left.map(|left| CAPACITY - left).ok_or_else(|| FuzzFailure("no limit spoke".to_owned()))?;
        let _ = limiter.refund(&Request::new(), tidegate::Cost::new(charged));
        Ok(charged)
    })
}

/// By the words of the contract, with decimals as texts.
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
