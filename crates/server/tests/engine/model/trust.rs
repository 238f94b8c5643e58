//! Trust scores from facts, term by term as the formula says: min(age in days / 365, 0.3) + 0.2 if the email address is
//! verified + 0.5 × the success rate of seven days − min(0.05 × the violations of thirty days, 0.2), between 0 and 1, cut to
//! hundredths.

use std::collections::BTreeMap;

use serde_json::Value;

use super::exact::{Exact, SECOND, decimal, floor, fraction, whole};

const DAY: i128 = 86_400 * SECOND;

/// Everything that was ever told about users, and the scores that are in use.
#[derive(Clone, Debug)]
pub(crate) struct TrustModel {
    /// What the case says: `claims`, `score_life_ms`, `listed`, `steps`.
    world: Value,
    listed: Value,
    told: BTreeMap<String, Value>,
    outcomes: Vec<(String, i128, i128, i128)>,
    violations: Vec<(String, i128)>,
    in_use: BTreeMap<String, InUse>,
}

/// A score that is used until it ends, or until something else is known.
#[derive(Clone, Debug)]
struct InUse {
    claimed: AccountFacts,
    since: i128,
    hundredths: Option<i128>,
}

/// When the account was created, whether its address is verified, and its success rate.
type AccountFacts = (Option<i128>, Option<bool>, Option<Exact>);

impl TrustModel {
    pub(crate) fn new(world: &Value) -> TrustModel {
        TrustModel {
            world: world.clone(),
            listed: world["listed"].clone(),
            told: BTreeMap::new(),
            outcomes: Vec::new(),
            violations: Vec::new(),
            in_use: BTreeMap::new(),
        }
    }

    /// What the program tells before the request with this number.
    pub(crate) fn step(&mut self, number: usize, now: i128) {
        let steps = self.world["steps"].as_array().expect("a list").clone();
        for step in steps.iter().filter(|step| step["before"] == number) {
            if let Some(listed) = step.get("listed") {
                self.listed = listed.clone();
                self.in_use.clear();
                continue;
            }
            let user = step["user"].as_str().expect("a user").to_owned();
            if let Some(facts) = step.get("facts") {
                self.in_use.remove(&user);
                self.told.insert(user, facts.clone());
            } else {
                let count = |index: usize| i128::from(step["outcomes"][index].as_i64().expect("a number"));
                self.outcomes.push((user, now.div_euclid(DAY), count(0), count(1)));
            }
        }
    }

    /// The score of a user with these claims; `None` if nothing is known about the account.
    pub(crate) fn score(&mut self, user: &str, claims: &Value, now: i128) -> Option<i128> {
        let claimed = self.claimed(claims);
        let life = decimal(&self.world["score_life_ms"].to_string(), 6);
        if let Some(used) = self.in_use.get(user)
            && used.claimed == claimed
            && now < used.since + life
        {
            return used.hundredths;
        }
        let hundredths = self.compute(user, &claimed, now);
        self.in_use.insert(user.to_owned(), InUse { claimed, since: now, hundredths });
        hundredths
    }

    pub(crate) fn violated(&mut self, user: &str, at: i128) {
        self.violations.push((user.to_owned(), at));
    }

    fn compute(&self, user: &str, claimed: &AccountFacts, now: i128) -> Option<i128> {
        let told = self.told.get(user).map(stated).unwrap_or_default();
        let listed = self.listed.get(user).map(stated).unwrap_or_default();
        let created = claimed.0.or(told.0).or(listed.0);
        let verified = claimed.1.or(told.1).or(listed.1);
        let success = claimed.2.clone().or(self.success(user, now)).or(told.2).or(listed.2);
        if (created, verified, &success) == (None, None, &None) {
            return None;
        }
        let days = created.map_or(0, |created| ((now - created).max(0)) / DAY);
        let age = fraction(days, 365).min(fraction(3, 10));
        let email = if verified == Some(true) { fraction(2, 10) } else { whole(0) };
        let success = fraction(5, 10) * success.unwrap_or_else(|| whole(0));
        let recent = self.violations.iter().filter(|(who, at)| who == user && now - at < 30 * DAY).count();
        let penalty = (fraction(5, 100) * whole(recent as i128)).min(fraction(2, 10));
        let score = (age + email + success - penalty).max(whole(0)).min(whole(1));
        Some(floor(&(score * whole(100))))
    }

    /// The success rate of the current day and the six before it.
    fn success(&self, user: &str, now: i128) -> Option<Exact> {
        let today = now.div_euclid(DAY);
        let recent = self.outcomes.iter().filter(|(who, day, ..)| who == user && today - day < 7);
        let (good, all) = recent.fold((0, 0), |(good, all), (.., successes, failures)| {
            (good + successes, all + successes + failures)
        });
        (all > 0).then(|| fraction(good, all))
    }

    /// What claims say. One that is none of the generated forms says nothing.
    fn claimed(&self, claims: &Value) -> AccountFacts {
        let text = |fact: &str| {
            let value = claims.get(self.world["claims"].get(fact)?.as_str()?)?;
            Some(value.as_str().map_or_else(|| value.to_string(), str::to_owned))
        };
        let created = text("created").and_then(|text| match text.as_str() {
            "1970-04-01T00:00:00Z" => Some(90 * DAY),
            digits => digits.parse::<i128>().ok().map(|seconds| seconds * SECOND),
        });
        let verified = text("email_verified").and_then(|text| text.parse().ok());
        let rate = text("success_rate").filter(|text| text.starts_with("0.") || text == "1");
        (created, verified, rate.map(|text| fraction(decimal(&text, 6), 1_000_000)))
    }
}

/// Facts as the case writes them.
fn stated(facts: &Value) -> AccountFacts {
    let rate = facts.get("success_millionths").and_then(Value::as_i64);
    (
        facts.get("created_s").and_then(Value::as_i64).map(|seconds| i128::from(seconds) * SECOND),
        facts.get("email_verified").and_then(Value::as_bool),
        rate.map(|millionths| fraction(millionths.into(), 1_000_000)),
    )
}

#[test]
fn the_score_is_the_documents_formula() {
    let world = serde_json::json!({
        "claims": {"email_verified": "checked"}, "score_life_ms": 0, "steps": [],
        "listed": {"u": {"created_s": 0, "success_millionths": 900_000}},
    });
    let (mut model, now) = (TrustModel::new(&world), 109 * DAY);
    let claims = serde_json::json!({"checked": true});
    assert_eq!(model.score("u", &claims, now), Some(94), "0.29863 + 0.2 + 0.45");
    (0..5).for_each(|_| model.violated("u", now));
    assert_eq!(model.score("u", &claims, now), Some(74), "no more than 0.2 for violations");
    assert_eq!(model.score("u", &claims, now + 30 * DAY), Some(95));
    assert_eq!((model.score("v", &claims, now), model.score("v", &Value::Null, now)), (Some(20), None));
}
