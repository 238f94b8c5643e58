//! Live gates decide as the same entries of a policy would.

use serde_json::{Value, json};
use tidegate::engine::{Limiter, Policy, Reason, Request};
use tidegate::{ManualClock, MemoryOptions, Nanos};
use tidegate_server::wire::trace_line;

use crate::engine::Case;
use crate::properties::{cases, check};

fn limiter(
    policy: &Value,
    case: &Case,
) -> Result<(Limiter<tidegate::Memory<ManualClock>, ManualClock>, ManualClock), String> {
    let policy = Policy::parse(&policy.to_string()).map_err(|error| error.to_string())?;
    let clock = ManualClock::new(Nanos::ZERO);
    let options = MemoryOptions { max_keys: 1_000, ..MemoryOptions::default() };
    let limiter = Limiter::in_memory(policy, options, clock.clone()).map_err(|error| error.to_string())?;
    limiter.set_invalid_credentials(case.invalid());
    Ok((limiter, clock))
}

/// All entries of `block` and `allow` are taken out of the policy and added as live entries.
#[test]
fn entries_of_a_policy_decide_the_same_when_they_are_live() {
    check(cases() / 4, |case| {
        if case.policy["defaults"]["mode"] == "shadow" {
            return Ok(());
        }
        let mut without = case.policy.clone();
        let mut live = json!({ "version": 1, "limits": [], "defaults": {} });
        live["defaults"]["paths"] = case.policy["defaults"].get("paths").cloned().unwrap_or(json!({}));
        for list in ["block", "allow"] {
            if let Some(entries) = without.as_object_mut().and_then(|policy| policy.remove(list)) {
                live[list] = entries;
            }
        }
        let live = Policy::parse(&live.to_string()).map_err(|error| format!("{live}: {error}"))?;
        let ((written, written_clock), (added, added_clock)) =
            (limiter(&case.policy, case)?, limiter(&without, case)?);
        added.set_live_gates(Some(live));
        for line in &case.trace {
            let text = line.to_string();
            let asked = trace_line(&text).map_err(|error| error.to_string())?;
            written_clock.set(asked.at);
            added_clock.set(asked.at);
            let expected = written.check_at(&asked.request, asked.at).to_json();
            let found = added.check_at(&asked.request, asked.at).to_json();
            if found != expected {
                return Err(format!("{case:?}\n{text}\nin the policy: {expected}\nlive:          {found}"));
            }
        }
        Ok(())
    });
}

fn decided(policy: &str, live: &str, request: &Request<'_>) -> (Reason, Option<String>) {
    let limiter = Limiter::new(Policy::parse(policy).expect("a policy")).expect("a limiter");
    limiter.set_live_gates(Some(Policy::parse(live).expect("live entries")));
    let explanation = limiter.explain(request);
    let gate = explanation.gate.map(|gate| {
        let place = gate.line.map_or_else(|| "live".to_owned(), |line| format!("line {line}"));
        format!("{} {place}", gate.list)
    });
    assert_eq!(limiter.check(request).reason(), explanation.decision.reason());
    (explanation.decision.reason(), gate)
}

#[test]
fn live_blocks_come_first_and_live_exemptions_after_the_blocks_of_the_policy() {
    let policy = "version: 1\nlimits: []\nblock:\n- { user: bad }\nallow:\n- { user: good }\n";
    let live =
        "version: 1\nlimits: []\nblock:\n- { user: [good, both] }\nallow:\n- { user: [bad, both, new] }\n";
    let by = |user: &'static str| decided(policy, live, &Request::new().user(user));
    assert_eq!(by("good"), (Reason::Blocked, Some("block live".into())), "whatever the policy allows");
    assert_eq!(by("bad"), (Reason::Blocked, Some("block line 4".into())), "the policy's block stays");
    assert_eq!(by("both"), (Reason::Blocked, Some("block live".into())));
    assert_eq!(by("new"), (Reason::Allowlisted, Some("allow live".into())));
    assert_eq!(by("other"), (Reason::NoLimit, None));
}

#[test]
fn a_policy_in_shadow_mode_does_not_shadow_live_blocks() {
    let policy = "version: 1\ndefaults: { mode: shadow }\nlimits: []\nblock:\n- { user: bad }\n";
    let live = "version: 1\nlimits: []\nblock:\n- { user: worse }\n";
    assert_eq!(decided(policy, live, &Request::new().user("worse")).0, Reason::Blocked);
    assert_eq!(decided(policy, live, &Request::new().user("bad")).0, Reason::NoLimit);
}
