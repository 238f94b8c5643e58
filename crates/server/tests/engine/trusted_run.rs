//! Runs the engine in a program that tells it about users while it decides.

use serde_json::Value;
use tidegate::engine::trust::score::SuccessRate;
use tidegate::engine::trust::{AccountFacts, TrustBook, TrustClaims, TrustOptions};
use tidegate::engine::{Limiter, Policy};
use tidegate::{ManualClock, MemoryOptions, Nanos};
use tidegate_server::replay::ListedAccounts;
use tidegate_server::wire::trace_line;

use crate::engine::Case;

/// How trust is computed in a case.
pub(crate) fn options(trust: &Value) -> TrustOptions {
    let claim = |fact: &str| trust["claims"].get(fact).map(|name| name.as_str().expect("a name").to_owned());
    TrustOptions {
        claims: TrustClaims {
            created: claim("created"),
            email_verified: claim("email_verified"),
            success_rate: claim("success_rate"),
        },
        score_life: Nanos::from_millis(trust["score_life_ms"].as_u64().expect("milliseconds")),
        ..TrustOptions::default()
    }
}

/// The list of accounts.
pub(crate) fn listed(accounts: &Value) -> ListedAccounts {
    let accounts = accounts.as_object().expect("an object");
    accounts.iter().map(|(user, stated)| (user.as_str().into(), facts(stated))).collect()
}

fn facts(stated: &Value) -> AccountFacts {
    let number = |name: &str| stated.get(name).map(|number| number.as_u64().expect("a number"));
    AccountFacts {
        created: number("created_s").map(Nanos::from_secs),
        email_verified: stated.get("email_verified").and_then(Value::as_bool),
        success_rate: number("success_millionths").map(|millionths| SuccessRate::new(millionths, 1_000_000)),
    }
}

/// The decisions of a case in which the program tells something between requests.
pub(crate) fn decided(case: &Case, trust: &Value) -> Result<Vec<Value>, String> {
    let policy = Policy::parse(&case.policy.to_string()).map_err(|error| error.to_string())?;
    let clock = ManualClock::new(Nanos::ZERO);
    let size = MemoryOptions { max_keys: 1_000, ..MemoryOptions::default() };
    let limiter = Limiter::in_memory(policy, size, clock.clone()).map_err(|error| error.to_string())?;
    let limiter = limiter.with_trust(options(trust));
    limiter.set_invalid_credentials(case.invalid());
    let book = limiter.trust_book().expect("it has one");
    book.replace_listed(listed(&trust["listed"]));
    let mut decisions = Vec::new();
    for (number, line) in case.trace.iter().enumerate() {
        let text = line.to_string();
        let asked = trace_line(&text).map_err(|error| error.to_string())?;
        clock.set(asked.at);
        let steps = trust["steps"].as_array().expect("a list");
        steps.iter().filter(|step| step["before"] == number).for_each(|step| tell(book, step, asked.at));
        let decision = limiter.take_place_at(&asked.request, asked.at).to_json();
        let mut decision: Value = serde_json::from_str(&decision).map_err(|error| error.to_string())?;
        decision["at_ms"] = line["at_ms"].clone();
        decisions.push(decision);
    }
    Ok(decisions)
}

fn tell(book: &TrustBook, step: &Value, now: Nanos) {
    if let Some(accounts) = step.get("listed") {
        return book.replace_listed(listed(accounts));
    }
    let user = step["user"].as_str().expect("a user");
    match step.get("facts") {
        Some(stated) => book.set_facts(user, facts(stated), now),
        None => {
            let count = |index: usize| {
                step["outcomes"][index]
                    .as_u64()
                    .and_then(|count| u32::try_from(count).ok())
                    .expect("a number")
            };
            book.record_outcomes(user, count(0), count(1), now);
        }
    }
}
