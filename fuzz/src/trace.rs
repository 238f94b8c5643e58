//! A trace: parsed line by line, and run through the engine.

use std::sync::LazyLock;

use tidegate::engine::Policy;
use tidegate_server::replay::{ReplaySettings, SimulateError, run};
use tidegate_server::wire;

use crate::target::{FuzzFailure, kind_of};

/// Uses every feature of policies, so that every member of a request matters.
const POLICY: &str = include_str!("policy.yaml");

/// More keys than any input has.
const MAX_KEYS: usize = 20_000;

pub(crate) fn try_input(input: &[u8]) -> Result<u64, FuzzFailure> {
    for line in input.split(|byte| *byte == b'\n') {
        if let Some(Err(error)) = std::str::from_utf8(line).ok().map(wire::trace_line) {
            let inside = (1..=line.len() + 1).contains(&error.column);
            FuzzFailure::unless(inside, || format!("column {} of {}: {error}", error.column, line.len()))?;
        }
    }
    let (mut out, mut again) = (Vec::new(), Vec::new());
    let (first, second) = (simulate(input, &mut out), simulate(input, &mut again));
    let outcome = |done: &Result<u64, SimulateError>| done.as_ref().map_err(ToString::to_string).copied();
    FuzzFailure::unless(outcome(&first) == outcome(&second), || "run again, it ends differently".to_owned())?;
    FuzzFailure::unless(out == again, || "run again, it decides differently".to_owned())?;
    check(input, &first, &out)?;
    let text = match &first {
        Ok(_) => String::from_utf8_lossy(&out).into_owned(),
        Err(error) => error.to_string(),
    };
    Ok(kind_of(text.lines().take(5)))
}

fn simulate(input: &[u8], out: &mut Vec<u8>) -> Result<u64, SimulateError> {
    static PARSED: LazyLock<()> = LazyLock::new(|| drop(Policy::parse(POLICY).expect("the policy is valid")));
    LazyLock::force(&PARSED);
    let policy = Policy::parse(POLICY).expect("it was valid before");
    run(policy, ReplaySettings::default(), MAX_KEYS, input, out, |_| {}).map(|summary| summary.requests)
}

/// Every line before the first invalid one has a decision, and every decision is JSON.
fn check(input: &[u8], done: &Result<u64, SimulateError>, out: &[u8]) -> Result<(), FuzzFailure> {
    let lines = input.split_inclusive(|byte| *byte == b'\n').count() as u64;
    let decided = out.split_inclusive(|byte| *byte == b'\n').count() as u64;
    match done {
        Ok(requests) => {
            let all = *requests == lines && decided == lines;
            FuzzFailure::unless(all, || format!("{decided} decisions on {lines} lines"))?;
        }
        Err(SimulateError::Line { line, column, problem }) => {
            let before = *line == decided + 1 && *line <= lines && *column >= 1;
            FuzzFailure::unless(before, || {
                format!("{decided} decisions, then line {line} of {lines}, column {column}")
            })?;
            FuzzFailure::unless(!problem.is_empty(), || "a problem without a message".to_owned())?;
        }
        Err(error) => return Err(FuzzFailure(format!("an unexpected error: {error}"))),
    }
    for line in out.split_inclusive(|byte| *byte == b'\n') {
        let read = serde_json::from_slice::<serde_json::Value>(line);
        let whole = read.is_ok_and(|value| value.get("at_ms").is_some() && value.get("allowed").is_some());
        FuzzFailure::unless(whole, || format!("not a decision: {}", String::from_utf8_lossy(line)))?;
    }
    Ok(())
}
