//! Overrides that come and go: the engine decides as the model does.

use std::cell::Cell;
use std::sync::Arc;

use proptest::prelude::any;
use proptest::test_runner::{Config, TestCaseError, TestError, TestRunner};
use serde_json::{Value, json};
use tidegate::engine::{Limiter, OverrideRule, Overrides, Policy, RuleSet};
use tidegate::{ManualClock, Nanos, OverrideNumbers, Rate};
use tidegate_server::wire::trace_line;

use crate::crowd::{Crowd, SMALL_TABLE};
use crate::engine::Case;
use crate::generate::{OverrideStep, case, override_steps};
use crate::model::Model;
use crate::model::overrides::Override;
use crate::properties::{cases, on_large_stack};

/// The overrides of a step, for the limits of a policy.
fn named(case: &Case, step: &OverrideStep) -> Vec<Override> {
    let mut names: Vec<String> = Vec::new();
    for limit in case.policy["limits"].as_array().into_iter().flatten() {
        names.extend(limit["name"].as_str().map(str::to_owned));
    }
    for tenant in case.policy["tenants"].as_array().into_iter().flatten() {
        let id = tenant["id"].as_str().expect("an id");
        names.extend([format!("tenant:{id}"), format!("tenant:{id}/up"), format!("tenant:{id}:remainder")]);
    }
    if names.is_empty() {
        return Vec::new();
    }
    let name = |(number, (choice, entry)): (usize, &(usize, Value))| Override {
        id: format!("o{number}"),
        limit: names[choice % names.len()].clone(),
        entry: entry.clone(),
    };
    step.overrides.iter().enumerate().map(name).collect()
}

fn numbers(numbers: &Value) -> OverrideNumbers {
    let whole = |value: &Value| u32::try_from(value.as_u64().expect("a number")).expect("it is small");
    if let Some(times) = numbers.get("times") {
        return OverrideNumbers::Times(u16::try_from(whole(times)).expect("it is small"));
    }
    let rate = |sustained: &Value| {
        let window = match sustained["window"].as_str().expect("a window") {
            "minute" => Nanos::MINUTE,
            "10s" => Nanos::from_secs(10),
            _ => Nanos::SECOND,
        };
        Rate::new(whole(&sustained["rate"]).into(), window).expect("in range")
    };
    OverrideNumbers::Fixed {
        rate: numbers.get("sustained").filter(|sustained| sustained.is_object()).map(rate),
        capacity: numbers.get("capacity").filter(|capacity| capacity.is_number()).map(whole),
    }
}

/// The same overrides for the engine.
fn compiled(case: &Case, overrides: &[Override]) -> Result<Overrides, String> {
    let who: Vec<&Value> = overrides.iter().map(|one| &one.entry["who"]).collect();
    let mut document = json!({ "version": 1, "limits": [], "block": who, "defaults": {} });
    document["defaults"]["paths"] = case.policy["defaults"].get("paths").cloned().unwrap_or(json!({}));
    let rules = Policy::parse(&document.to_string()).map_err(|error| format!("{document}: {error}"))?;
    let rules = RuleSet::from(rules);
    let rule = |(one, who): (&Override, &tidegate_policy::GateRule)| {
        OverrideRule::new(&one.id, &one.limit, numbers(&one.entry["numbers"]), who.clone(), Arc::default())
    };
    Ok(Overrides::new(overrides.iter().zip(rules.block().entries()).map(rule)))
}

/// Compares the engine with the model. After each request whose bit in `evicts` is set, the engine forgets every bucket
/// that it may forget. Returns how many of them the model had to forget too: those that make a difference.
fn judge(case: &Case, steps: &[OverrideStep], evicts: u64) -> Result<usize, String> {
    let policy = Policy::parse(&case.policy.to_string()).map_err(|error| error.to_string())?;
    let clock = ManualClock::new(Nanos::ZERO);
    let limiter =
        Limiter::in_memory(policy, SMALL_TABLE, clock.clone()).map_err(|error| error.to_string())?;
    limiter.set_invalid_credentials(case.invalid());
    let crowd = Crowd::new(limiter.store()).map_err(|error| error.to_string())?;
    let mut model = Model::new(case);
    for (number, line) in case.trace.iter().enumerate() {
        for step in steps.iter().filter(|step| step.before == number) {
            let overrides = named(case, step);
            limiter.set_overrides(Some(compiled(case, &overrides)?));
            model.set_overrides(overrides);
        }
        let text = line.to_string();
        let asked = trace_line(&text).map_err(|error| error.to_string())?;
        clock.set(asked.at);
        let overflows = limiter.store().overflows();
        let found = limiter.take_place_at(&asked.request, asked.at).to_json();
        if limiter.store().overflows() > overflows {
            // More keys are in use than the table has slots, so some share a bucket, which the model does not have.
            return Ok(model.forgotten());
        }
        let mut found: Value = serde_json::from_str(&found).map_err(|error| error.to_string())?;
        found["at_ms"] = line["at_ms"].clone();
        let expected = model.decide_or_forget(line, &found);
        if found != expected {
            let until = Case { trace: case.trace[..=number].to_vec(), ..case.clone() };
            let why =
                format!("overrides: {steps:?}\nevicts: {evicts:#b}\nengine: {found}\nmodel:  {expected}");
            return Err(format!("{until:?}\n{why}"));
        }
        if evicts >> (number % 64) & 1 == 1 {
            crowd.evict_idle_keys(limiter.store(), asked.at);
        }
    }
    Ok(model.forgotten())
}

#[test]
fn the_engine_decides_as_the_model_does_while_overrides_come_and_go() {
    // A random policy, and random overrides of it.
    on_large_stack(check_overrides);
}

fn check_overrides() {
    let source_file = Some(file!());
    let config = Config { cases: cases(), source_file, max_shrink_iters: 4_000, ..Config::default() };
    let forgotten = Cell::new(0);
    let result =
        TestRunner::new(config).run(&(case(), override_steps(), any::<u64>()), |(case, steps, evicts)| {
            let case = Case { trust: None, ..case };
            let judged = judge(&case, &steps, evicts).map_err(TestCaseError::fail)?;
            forgotten.set(forgotten.get() + judged);
            Ok(())
        });
    match result {
        // It happens in about one of a hundred cases.
        Ok(()) => assert!(forgotten.get() > 0 || cases() < 2_000, "no override has found a forgotten bucket"),
        Err(TestError::Fail(reason, _)) => panic!("{reason}"),
        Err(error) => panic!("{error}"),
    }
}
