//! The time of a whole check, and the parts of planning and of the store in it.

use std::hint::black_box;

use tidegate::engine::{Limiter, Policy};
use tidegate::{Charge, Clock, Intent, Memory, MonotonicClock, Store};

use super::shapes::request;
use super::{MatchingError, OPS, OPTIONS, WARM_UP};
use crate::report::{Figure, Report};
use crate::rounds::{Contender, RoundPlan, measure};

/// Eight limits; a case uses the first few.
const LIMITS: [(&str, &str); 8] = [
    ("per-user", "[user]"),
    ("per-route", "[route]"),
    ("overall", "[]"),
    ("per-address", "[ip]"),
    ("per-tenant", "[tenant]"),
    ("per-client", "[client]"),
    ("per-member", "[tenant, user]"),
    ("per-key", "[\"header:x-api-key\"]"),
];

const CASES: [(usize, &str); 3] = [(1, "1 limit"), (3, "3 limits"), (8, "8 limits")];

/// Measures each number of limits.
pub(super) fn run(rounds: usize, report: &mut Report) -> Result<(), MatchingError> {
    for (limits, name) in CASES {
        measure_case(&document(limits), name, rounds, report)?;
    }
    Ok(())
}

fn document(limits: usize) -> String {
    let entry = |(name, key): &(&str, &str)| {
        format!("- {{ name: {name}, key: {key}, sustained: {{ rate: 1000000000 }} }}\n")
    };
    let entries: String = LIMITS[..limits].iter().map(entry).collect();
    format!("version: 1\nlimits:\n{entries}")
}

fn measure_case(
    text: &str,
    name: &'static str,
    rounds: usize,
    report: &mut Report,
) -> Result<(), MatchingError> {
    let clock = MonotonicClock::new();
    let limiter = Limiter::in_memory(Policy::parse(text)?, OPTIONS, clock.clone())?;
    let rules = Policy::parse(text)?.rules;
    let store = Memory::with_clock(OPTIONS, clock.clone())?;
    let named: Vec<_> = rules
        .rules()
        .iter()
        .map(|rule| store.limit(&rule.name, rule.limit, rule.carry, clock.now()))
        .collect::<Result<_, _>>()?;

    let request = &request();
    let plan = rules.plan(&rules.facts(request));
    let charges: Vec<Charge<'_>> = plan
        .items()
        .iter()
        .zip(&named)
        .map(|(item, limit)| Charge::new(limit, plan.key(item), item.cost))
        .collect();
    let whole =
        Contender::new("check", |share| share.each_time(|| limiter.check(black_box(request)).is_allowed()));
    let planning = Contender::new("planning", |share| {
        share.each_time(|| !black_box(rules.plan(&rules.facts(black_box(request)))).items().is_empty())
    });
    let charging = Contender::new("clock and store", |share| {
        share.each_time(|| store.charge_now(Intent::Take, black_box(&charges), clock.now()).allowed)
    });
    let schedule = RoundPlan { rounds, threads: 1, ops: OPS, warm_up: WARM_UP, sequences: &[] };
    let lanes = measure(&[&whole, &planning, &charging], &schedule);
    let times: Vec<f64> = lanes.iter().map(|lane| lane.median_nanos()).collect();
    let mut add = |what: &str, value: f64| {
        report.figures.push(Figure { what: what.to_owned(), contender: name, value, unit: "ns" });
    };
    add("a check", times[0]);
    add("  of that, planning", times[1]);
    add("  of that, clock and store", times[2]);
    add("  of that, concluding and counting", times[0] - times[1] - times[2]);
    Ok(())
}
