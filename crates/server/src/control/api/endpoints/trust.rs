//! Routes about the trust in users.

use std::collections::BTreeMap;

use http::Method;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tidegate::Nanos;
use tidegate::engine::trust::score::SuccessRate;
use tidegate::engine::trust::{AccountFacts, TrustAccount};
use utoipa::ToSchema;

use super::live::unprocessable;
use crate::bounds::OUTCOMES_MAX;
use crate::control::access::AccessRole;
use crate::control::api::query::REASON;
use crate::control::api::route::{Answering, ApiRoute, RouteAccess, TenantRule};
use crate::control::api::shape::{AnswerShape, BodyShape, JsonShape};
use crate::control::api::{ApiAnswer, ApiCall, ApiError};
use crate::control::trust::changing::{
    CountedOutcomes, NewFacts, count_outcomes, set_all_facts, set_facts, trust_book,
};
use crate::wire::{ShownInputs, ShownScore, ShownTerms, millionths, trust_report};

/// The longest name of a user, in characters: events and records have no longer ones.
const USER_MAX: usize = 256;

/// Facts about an account. What is absent is unknown.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ShownFacts {
    /// When the account was created.
    #[schema(format = DateTime)]
    #[serde(skip_serializing_if = "Option::is_none")]
    created: Option<String>,
    /// Whether its email address is verified.
    #[serde(skip_serializing_if = "Option::is_none")]
    email_verified: Option<bool>,
    /// The part of its requests of the last seven days that succeeded, as somebody has counted it. Outcomes count instead
    /// where there are any.
    #[schema(minimum = 0, maximum = 1)]
    #[serde(skip_serializing_if = "Option::is_none")]
    success_rate: Option<f64>,
}

/// Outcomes of requests.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct OutcomeBatch {
    /// One entry for each user; those of the same user are added.
    #[schema(max_items = 1000)]
    outcomes: Vec<ToldOutcomes>,
}

/// Outcomes of the requests of one user. They count for the current day (UTC).
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ToldOutcomes {
    /// The user, as requests name it.
    #[schema(min_length = 1, max_length = 256, example = "42")]
    user: String,
    /// How many requests succeeded.
    #[serde(default)]
    successes: u32,
    /// How many failed.
    #[serde(default)]
    failures: u32,
}

/// What was counted.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct OutcomesCounted {
    /// How many users the outcomes were about.
    users: usize,
}

/// Facts about several accounts.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct FactBatch {
    /// One entry for each user. What is absent is unknown from then on, as with `PUT /trust/{user}`.
    #[schema(max_items = 1000)]
    facts: Vec<ToldFacts>,
}

/// Facts about the account of one user.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ToldFacts {
    /// The user, as requests name it.
    #[schema(min_length = 1, max_length = 256, example = "42")]
    user: String,
    /// When the account was created.
    #[schema(format = DateTime)]
    created: Option<String>,
    /// Whether its email address is verified.
    email_verified: Option<bool>,
    /// The part of its requests of the last seven days that succeeded.
    #[schema(minimum = 0, maximum = 1)]
    success_rate: Option<f64>,
}

/// What was set.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct FactsSet {
    /// How many users the facts were about.
    users: usize,
}

/// The outcomes that count: those of the current day (UTC) and of the six before.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ShownOutcomes {
    /// How many requests succeeded.
    successes: u64,
    /// How many failed.
    failures: u64,
}

/// What is known about a user, and the score.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct UserTrust {
    /// The user.
    user: String,
    /// The facts that were told by the admin API.
    facts: ShownFacts,
    /// The outcomes that were told by the admin API.
    outcomes: ShownOutcomes,
    /// Is anything known about the account, from whatever source? If not, limits are as the policy has them.
    known: bool,
    /// The trust score that is in use, from 0 to 1, cut to hundredths.
    score: f64,
    /// What the score is the sum of.
    terms: ShownTerms,
    /// What the terms were computed from, from all sources.
    inputs: ShownInputs,
    /// Does the policy use trust?
    applied: bool,
}

const READS: RouteAccess = RouteAccess::Role(AccessRole::Viewer, TenantRule::Whole);
const OPERATES: RouteAccess = RouteAccess::Role(AccessRole::Operator, TenantRule::Whole);

/// The routes.
pub(in crate::control::api) fn routes() -> Vec<ApiRoute> {
    let shown = || AnswerShape::Json(JsonShape::of::<UserTrust>());
    let about = "What is known about a user, and the trust score with its terms.";
    let counted = AnswerShape::Json(JsonShape::of::<OutcomesCounted>());
    vec![
        ApiRoute::new(Method::GET, "/trust/{user}", READS, about, shown(), show),
        ApiRoute {
            query: &[REASON],
            body: BodyShape::Json(JsonShape::of::<ShownFacts>()),
            ..ApiRoute::new(
                Method::PUT,
                "/trust/{user}",
                OPERATES,
                "Replaces the facts about a user.",
                shown(),
                replace,
            )
        },
        ApiRoute {
            query: &[REASON],
            body: BodyShape::Json(JsonShape::of::<OutcomeBatch>()),
            ..ApiRoute::new(
                Method::POST,
                "/trust/outcomes",
                OPERATES,
                "Counts outcomes of users' requests.",
                counted,
                count,
            )
        },
        ApiRoute {
            query: &[REASON],
            body: BodyShape::Json(JsonShape::of::<FactBatch>()),
            ..ApiRoute::new(
                Method::POST,
                "/trust/facts",
                OPERATES,
                "Replaces the facts about several users.",
                AnswerShape::Json(JsonShape::of::<FactsSet>()),
                replace_all,
            )
        },
    ]
}

/// `GET /trust/{user}`
fn show(call: ApiCall) -> Answering {
    Box::pin(async move { shown(&call) })
}

/// `PUT /trust/{user}`
fn replace(call: ApiCall) -> Answering {
    Box::pin(async move {
        trust_book(&call)?;
        let (user, wanted) = (call.path.get(0), call.json::<ShownFacts>()?);
        check_user(user, "")?;
        set_facts(&call, user, new_facts(&wanted, "")?).await?;
        shown(&call)
    })
}

/// `POST /trust/outcomes`
fn count(call: ApiCall) -> Answering {
    Box::pin(async move {
        trust_book(&call)?;
        let batch: OutcomeBatch = call.json()?;
        if batch.outcomes.len() > OUTCOMES_MAX {
            let detail = format!("there are more than {OUTCOMES_MAX}: send them in several calls");
            return Err(unprocessable("/outcomes", &detail));
        }
        let mut by_user: BTreeMap<String, (u32, u32)> = BTreeMap::new();
        for (index, told) in batch.outcomes.into_iter().enumerate() {
            check_user(&told.user, &format!("/outcomes/{index}/user"))?;
            let (successes, failures) = by_user.entry(told.user).or_default();
            *successes = successes.saturating_add(told.successes);
            *failures = failures.saturating_add(told.failures);
        }
        let outcomes: Vec<CountedOutcomes> = by_user
            .into_iter()
            .map(|(user, (successes, failures))| CountedOutcomes { user, successes, failures })
            .collect();
        let answer = json!(OutcomesCounted { users: outcomes.len() });
        count_outcomes(&call, &outcomes, &answer).await?;
        Ok(ApiAnswer::json(&answer))
    })
}

/// `POST /trust/facts`
fn replace_all(call: ApiCall) -> Answering {
    Box::pin(async move {
        trust_book(&call)?;
        let batch: FactBatch = call.json()?;
        if batch.facts.len() > OUTCOMES_MAX {
            let detail = format!("there are more than {OUTCOMES_MAX}: send them in several calls");
            return Err(unprocessable("/facts", &detail));
        }
        let mut by_user: BTreeMap<String, NewFacts> = BTreeMap::new();
        for (index, told) in batch.facts.into_iter().enumerate() {
            let place = format!("/facts/{index}");
            check_user(&told.user, &format!("{place}/user"))?;
            let ToldFacts { user, created, email_verified, success_rate } = told;
            let told = new_facts(&ShownFacts { created, email_verified, success_rate }, &place)?;
            if by_user.insert(user, told).is_some() {
                return Err(unprocessable(&format!("{place}/user"), "each user can be there once"));
            }
        }
        set_all_facts(&call, &by_user).await?;
        Ok(ApiAnswer::json(&FactsSet { users: by_user.len() }))
    })
}

fn check_user(user: &str, pointer: &str) -> Result<(), ApiError> {
    if user.is_empty() || user.chars().count() > USER_MAX || user.chars().any(char::is_control) {
        let detail =
            format!("the name of a user must have 1 to {USER_MAX} characters, and no control characters");
        return Err(unprocessable(pointer, &detail));
    }
    Ok(())
}

/// The facts of a body and how they are written down; `place` is where they are in it.
fn new_facts(wanted: &ShownFacts, place: &str) -> Result<NewFacts, ApiError> {
    let facts = facts(wanted, place)?;
    Ok(NewFacts { facts, shown: json!({ "facts": ShownFacts::of(&facts) }).to_string() })
}

/// The facts of a body; `place` is where they are in it.
fn facts(wanted: &ShownFacts, place: &str) -> Result<AccountFacts, ApiError> {
    let created = wanted.created.as_deref().map(|text| -> Result<Nanos, ApiError> {
        let time: Timestamp = text.parse().map_err(|_| {
            unprocessable(&format!("{place}/created"), "it must be a time such as 2024-05-01T00:00:00Z")
        })?;
        // An account of before 1970 is as old as one can be.
        Ok(Nanos::new(u64::try_from(time.as_nanosecond().max(0)).unwrap_or(u64::MAX)))
    });
    let success_rate = wanted.success_rate.map(|rate| {
        if !(0.0..=1.0).contains(&rate) {
            return Err(unprocessable(&format!("{place}/success_rate"), "it must be a number from 0 to 1"));
        }
        Ok(SuccessRate::from_millionths((rate * 1_000_000.0).round() as u32))
    });
    Ok(AccountFacts {
        created: created.transpose()?,
        email_verified: wanted.email_verified,
        success_rate: success_rate.transpose()?,
    })
}

impl ShownFacts {
    fn of(facts: &AccountFacts) -> ShownFacts {
        let text = |time: Nanos| Timestamp::from_nanosecond(time.get().into()).map(|time| time.to_string());
        ShownFacts {
            created: facts.created.and_then(|created| text(created).ok()),
            email_verified: facts.email_verified,
            success_rate: facts.success_rate.map(|rate| millionths(rate.millionths())),
        }
    }
}

fn shown(call: &ApiCall) -> Result<ApiAnswer, ApiError> {
    let (book, user) = (trust_book(call)?, call.path.get(0));
    let TrustAccount { facts, outcomes } = book.account(user).unwrap_or_default();
    let (successes, failures) = outcomes.counted(call.now);
    let ShownScore { known, trust, terms, inputs } = trust_report(&book.report(user, call.now));
    Ok(ApiAnswer::json(&UserTrust {
        user: user.to_owned(),
        facts: ShownFacts::of(&facts),
        outcomes: ShownOutcomes { successes, failures },
        known,
        score: trust,
        terms,
        inputs,
        applied: call.node.limiter().rules().uses_trust(),
    }))
}
