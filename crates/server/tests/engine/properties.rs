//! Random policies and traces: the engine decides as the model does.

use std::collections::BTreeMap;

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, TestCaseError, TestError, TestRunner};
use serde_json::{Value, json};
use tidegate::engine::{Limiter, Policy, Reason};
use tidegate::{ManualClock, MemoryOptions, Nanos};
use tidegate_server::wire::trace_line;

use crate::engine::Case;
use crate::generate::case;
use crate::model::Model;
use crate::model::exact::decimal;

/// The number of cases; set `TIDEGATE_MODEL_CASES` for more.
pub(crate) fn cases() -> u32 {
    std::env::var("TIDEGATE_MODEL_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(2_000)
}

/// Runs a check of random cases that take more stack than a test has.
pub(crate) fn on_large_stack(check: fn()) {
    let checking = std::thread::Builder::new().stack_size(64 << 20).spawn(check);
    if let Err(panic) = checking.expect("a thread").join() {
        std::panic::resume_unwind(panic);
    }
}

/// Runs a check on random cases, and reports the smallest that fails.
pub(crate) fn check(cases: u32, test: impl Fn(&Case) -> Result<(), String>) {
    let source_file = Some(file!());
    let config = Config { cases, source_file, max_shrink_iters: 4_000, ..Config::default() };
    let result = TestRunner::new(config).run(&case(), |case| test(&case).map_err(TestCaseError::fail));
    match result {
        Ok(()) => {}
        Err(TestError::Fail(reason, _)) => panic!("{reason}"),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn the_engine_decides_as_the_model_does() {
    check(cases(), |case| case.judged().map(|_| ()));
}

/// A server that verifies credentials decides in two steps, the first without the credential. The decisions and the
/// counts of burst detectors are the same as in one step, and a decision of the first step has needed no credential.
#[test]
fn asking_in_two_steps_decides_the_same() {
    check(cases() / 4, |case| {
        let limiter = || {
            let policy = Policy::parse(&case.policy.to_string()).map_err(|error| error.to_string())?;
            let clock = ManualClock::new(Nanos::ZERO);
            let options = MemoryOptions { max_keys: 1_000, ..MemoryOptions::default() };
            let limiter =
                Limiter::in_memory(policy, options, clock.clone()).map_err(|error| error.to_string())?;
            limiter.set_invalid_credentials(case.invalid());
            Ok::<_, String>((limiter, clock))
        };
        let ((at_once, first_clock), (in_steps, clock)) = (limiter()?, limiter()?);
        for line in &case.trace {
            let text = line.to_string();
            let asked = trace_line(&text).map_err(|error| error.to_string())?;
            first_clock.set(asked.at);
            clock.set(asked.at);
            let expected = at_once.check_at(&asked.request, asked.at).to_json();
            let mut unidentified = asked.request.clone();
            (unidentified.user, unidentified.client, unidentified.tenant, unidentified.plan) =
                Default::default();
            (unidentified.jwt, unidentified.credential) = Default::default();
            let found = in_steps.check_entered(in_steps.enter(&unidentified), &asked.request).to_json();
            if found != expected {
                return Err(format!("{case:?}\n{text}\nat once:  {expected}\nin steps: {found}"));
            }
        }
        let counted = |limiter: &Limiter<_, _>| Reason::ALL.map(|reason| limiter.decided(reason));
        if counted(&at_once) != counted(&in_steps) {
            return Err(format!("{case:?}\nis counted otherwise in steps"));
        }
        Ok(())
    });
}

/// A request that waits exactly as long as a denial says is admitted; two milliseconds earlier it is not (one may be
/// lost to the tick of the quota's clock when waits are rounded). The engine agrees with the model, so only the model
/// is used. With trust the wait may be longer: see the model's bucket; a score may change meanwhile, so none is computed
/// here. A slot in a queue is not promised: others may
/// still wait.
#[test]
fn a_retry_time_is_a_promise() {
    check(cases() / 4, |case| {
        let is_exact =
            case.policy.get("adaptive").is_none() && !case.policy.to_string().contains("\"queue\"");
        let mut model = Model::new(&Case { trust: None, ..case.clone() });
        for request in &case.trace {
            let decision = model.decide(request);
            let by_limits = !decision["limits"].as_array().expect("a list").is_empty();
            let (Some(wait), false, true) =
                (decision["retry_after_ms"].as_u64(), is_allowed(&decision), by_limits)
            else {
                continue;
            };
            let mut later = request.clone();
            later["at_ms"] = moved(&request["at_ms"], wait);
            let then = model.clone().decide(&later);
            if !is_allowed(&then) && then["reason"] != "burst_blocked" && then["reason"] != "queue_full" {
                return Err(format!("{request}\n{decision}\nbut then\n{then}"));
            }
            later["at_ms"] = moved(&request["at_ms"], wait.saturating_sub(2));
            if is_exact && wait > 2 && is_allowed(&model.clone().decide(&later)) {
                return Err(format!("{request}\n{decision}\nwaits too long"));
            }
        }
        Ok(())
    });
}

fn is_allowed(decision: &Value) -> bool {
    decision["allowed"] == true
}

/// An instant this many milliseconds later, with exact decimals.
fn moved(at_ms: &Value, by: u64) -> Value {
    let micros = decimal(&at_ms.to_string(), 3) + i128::from(by) * 1_000;
    let text = format!("{}.{:03}", micros / 1_000, micros % 1_000);
    serde_json::from_str(&text).expect("a decimal is a number")
}

/// What a decision shows that was made with and without scores. `limits` remembers the size of each limit by user.
fn score_events(
    request: &Value,
    with: &Value,
    without: Option<&Value>,
    limits: &mut BTreeMap<String, Value>,
) -> Vec<&'static str> {
    let mut events = Vec::new();
    let Some(without) = without.filter(|_| request.get("trust").is_none()) else { return events };
    if is_allowed(with) != is_allowed(without) {
        events.push("decided otherwise by a computed score");
    }
    for entry in with["limits"].as_array().expect("a list") {
        let name = format!("{} {}", request["user"], entry["name"]);
        if limits.insert(name, entry["limit"].clone()).is_some_and(|before| before != entry["limit"]) {
            events.push("a score that has changed");
        }
    }
    events
}

/// What must occur in a few hundred cases; otherwise the generators test nothing.
const MUST_HAPPEN: &[&str] = &[
    "ok",
    "no_limit",
    "allowlisted",
    "blocked",
    "burst_blocked",
    "token_bucket_exceeded",
    "sliding_window_exceeded",
    "sliding_log_exceeded",
    "fixed_window_exceeded",
    "cost_exceeds_capacity",
    "queue_full",
    "queue_timeout",
    "unknown_tenant",
    "invalid_credentials",
    "queued",
    "degraded",
    "shadow denial",
    "denied by a tenant",
    "denied by an aggregate",
    "denied by a remainder",
    "denied by a limit that is enforced for an ancestor",
    "denied by a limit for an upstream",
    "denied by the limit of unlisted tenants",
    "limits that change with trust",
    "decided otherwise by a computed score",
    "a score that has changed",
];

#[test]
fn everything_happens_to_the_generators() {
    let mut runner = TestRunner::deterministic();
    let mut seen: BTreeMap<String, u32> = BTreeMap::new();
    for _ in 0..800 {
        let case = case().new_tree(&mut runner).expect("no case is refused").current();
        let mut model = Model::new(&case);
        let mut without = case.trust.as_ref().map(|_| Model::new(&Case { trust: None, ..case.clone() }));
        let (mut sizes, mut scored) = (BTreeMap::new(), BTreeMap::new());
        for request in &case.trace {
            let decision = model.decide(request);
            let without = without.as_mut().map(|model| model.decide(request));
            for event in score_events(request, &decision, without.as_ref(), &mut scored) {
                *seen.entry(event.to_owned()).or_default() += 1;
            }
            for event in events(&case.policy, request, &decision, &mut sizes) {
                *seen.entry(event).or_default() += 1;
            }
        }
    }
    for event in MUST_HAPPEN {
        let times = seen.get(*event).copied().unwrap_or(0);
        assert!(times >= 20, "{event} happened {times} times only: {seen:#?}");
    }
}

/// What a decision shows. `sizes` remembers the size of each limit.
fn events(
    policy: &Value,
    request: &Value,
    decision: &Value,
    sizes: &mut BTreeMap<String, Value>,
) -> Vec<String> {
    let mut events = vec![decision["reason"].as_str().expect("a reason").to_owned()];
    let mut note = |happened: bool, event: &str| {
        if happened {
            events.push(event.to_owned());
        }
    };
    note(decision.get("queued_ms").is_some(), "queued");
    note(decision["degraded"] == true, "degraded");
    note(decision["shadow_denied"] != json!([]), "shadow denial");
    if let Some(tenant) = decision["violated_rule"].as_str().and_then(|rule| rule.strip_prefix("tenant:")) {
        note(true, "denied by a tenant");
        note(tenant.ends_with(":remainder"), "denied by a remainder");
        note(tenant.contains('/'), "denied by a limit for an upstream");
        note(tenant == "*", "denied by the limit of unlisted tenants");
        let entries = policy["tenants"].as_array().expect("a tenant denied");
        let others = entries.iter().find(|entry| entry["id"] == tenant && request["tenant"] != tenant);
        let has_budget = |entry: &Value| entry.pointer("/rate_limit/budget/total").is_some();
        note(others.is_some_and(has_budget), "denied by an aggregate");
        let is_default = policy["defaults"].get("tenant").is_some_and(|default| default == tenant);
        let is_enforced = others.is_some_and(|entry| !has_budget(entry) && !is_default);
        note(is_enforced, "denied by a limit that is enforced for an ancestor");
    }
    for entry in decision["limits"].as_array().expect("a list") {
        let name = entry["name"].as_str().expect("a name").to_owned();
        let before = sizes.insert(name, entry["limit"].clone());
        note(before.is_some_and(|before| before != entry["limit"]), "limits that change with trust");
    }
    events
}
