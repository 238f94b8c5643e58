//! A policy document: parsed, loaded, and used for decisions.

use std::net::{Ipv4Addr, Ipv6Addr};

use tidegate::engine::{Decision, Limiter, Policy, Problem, Request, Trust};
use tidegate::{Cost, ManualClock, Memory, MemoryOptions, Nanos};

use crate::target::{FuzzFailure, kind_of};

const BEFORE: &str = include_str!("../../examples/quick-start/policy.yaml");

const OPTIONS: MemoryOptions = MemoryOptions { max_keys: 200, max_log_entries: 2_000 };

type TestLimiter = Limiter<Memory<ManualClock>, ManualClock>;

pub(crate) fn try_input(input: &[u8]) -> Result<u64, FuzzFailure> {
    let text = String::from_utf8_lossy(input);
    let (first, second) = (Policy::parse(&text), Policy::parse(&text));
    match (first, second) {
        (Err(error), Err(again)) => {
            FuzzFailure::unless(error == again, || "parsing it again gives other problems".to_owned())?;
            FuzzFailure::unless(error.problems.iter().any(Problem::is_error), || {
                "rejected without an error".to_owned()
            })?;
            check_spans(&text, &error.problems)?;
            Ok(kind_of(error.problems.iter().map(|problem| problem.message.as_str()).take(3)))
        }
        (Ok(policy), Ok(again)) => {
            let same = policy.warnings == again.warnings;
            FuzzFailure::unless(same, || "parsing it again gives other warnings".to_owned())?;
            FuzzFailure::unless(!policy.warnings.iter().any(Problem::is_error), || {
                "accepted despite an error".to_owned()
            })?;
            check_spans(&text, &policy.warnings)?;
            let warned: Vec<String> = policy.warnings.iter().map(|warning| warning.message.clone()).collect();
            let tenants: Vec<String> =
                policy.rules.tenants().nodes().iter().map(|tenant| tenant.id.to_string()).take(5).collect();
            let (decided, decided_again) = (decide(policy, &tenants)?, decide(again, &tenants)?);
            FuzzFailure::unless(decided == decided_again, || {
                "the same policy decides differently".to_owned()
            })?;
            Ok(kind_of(warned.iter().chain(&decided).map(String::as_str)))
        }
        _ => Err(FuzzFailure("parsing it again gives another result".to_owned())),
    }
}

/// Every problem has a position within the text.
fn check_spans(text: &str, problems: &[Problem]) -> Result<(), FuzzFailure> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let lines: Vec<&str> = text.split('\n').collect();
    for problem in problems {
        let at = problem.at;
        let line = (at.line as usize).checked_sub(1).and_then(|index| lines.get(index));
        let width = line.map(|line| line.chars().count());
        // The end of a line is a valid position too.
        let inside = width.is_some_and(|width| {
            at.column >= 1 && at.length >= 1 && at.column as usize + at.length as usize <= width + 2
        });
        FuzzFailure::unless(inside, || {
            format!(
                "a problem has a position outside the text of {} lines ({width:?} wide): {at:?}: {problem}",
                lines.len()
            )
        })?;
        FuzzFailure::unless(!problem.message.is_empty(), || "a problem without a message".to_owned())?;
    }
    Ok(())
}

/// Loads the policy and sends it requests; returns the decisions as JSON.
fn decide(policy: Policy, tenants: &[String]) -> Result<Vec<String>, FuzzFailure> {
    let before = || Policy::parse(BEFORE).expect("an example is a policy");
    let limiter: TestLimiter = Limiter::in_memory(before(), OPTIONS, ManualClock::default())
        .map_err(|error| FuzzFailure(format!("the policy before it is rejected: {error}")))?;
    let swap =
        |policy| limiter.swap(policy).map_err(|error| FuzzFailure(format!("it cannot be loaded: {error}")));
    let mut decided = Vec::new();
    check_all(&limiter, tenants, &mut decided)?;
    swap(policy)?;
    for pause in [Nanos::ZERO, Nanos::MILLISECOND, Nanos::from_secs(90), Nanos::from_secs(400 * 86_400)] {
        limiter.clock().advance(pause);
        check_all(&limiter, tenants, &mut decided)?;
    }
    swap(before())?;
    check_all(&limiter, tenants, &mut decided)?;
    Ok(decided)
}

fn requests(tenants: &[String]) -> Vec<Request<'_>> {
    let full = Request::new().tenant("acme").user("42").client("app").plan("free").method("get");
    let full = full.ip(Ipv4Addr::new(10, 0, 0, 7)).host("API.example.com").path("/api/videos?q=a%20b");
    let full =
        full.header("x-weight", "7").header("X-Api-Key", "k").claim("role", "member").descriptor("x", "y");
    let odd = Request::new().user("\u{1f}\u{1b}é").path("no/slash/../%zz").ip(Ipv6Addr::LOCALHOST);
    let expensive = full.clone().cost(Cost::new(u32::MAX));
    let free = full.clone().cost(Cost::ZERO).trust(Trust::FULL);
    let mut requests = vec![Request::new(), full.clone(), odd, expensive, free];
    requests.extend(tenants.iter().map(|tenant| full.clone().tenant(tenant.as_str())));
    requests
}

fn check_all(
    limiter: &TestLimiter,
    tenants: &[String],
    decided: &mut Vec<String>,
) -> Result<(), FuzzFailure> {
    for request in requests(tenants) {
        let peeked = limiter.peek(&request).to_json();
        FuzzFailure::unless(peeked == limiter.peek(&request).to_json(), || {
            "a peek changed something".to_owned()
        })?;
        let decision = limiter.check(&request);
        check_decision(&decision)?;
        decided.push(decision.to_json());
        decided.push(limiter.refund(&request, Cost::ONE).to_json());
        limiter.explain(&request);
    }
    Ok(())
}

fn check_decision(decision: &Decision) -> Result<(), FuzzFailure> {
    let json = decision.to_json();
    let read = serde_json::from_str::<serde_json::Value>(&json);
    FuzzFailure::unless(read.is_ok_and(|value| value.is_object()), || format!("not JSON: {json}"))?;
    for limit in decision.limits() {
        FuzzFailure::unless(limit.decision.remaining <= limit.decision.limit, || {
            format!("more remaining than the limit: {json}")
        })?;
    }
    let waits = decision.wait().is_some_and(|wait| wait > Nanos::ZERO);
    FuzzFailure::unless(!decision.is_allowed() || !waits, || format!("admitted, but with a wait: {json}"))
}
