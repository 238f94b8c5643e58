//! Overrides: other numbers of a limit for some requests.

use serde_json::Value;

use super::exact::{floor, fraction, span, whole};
use super::gates::{conditions, instant};
use super::matching::all_hold;
use super::meter::{Algorithm, Quota};
use super::request::Request;
use super::terms::{Applied, integer};

/// An override: its id, the name of its limit, whom it is for, and its numbers.
#[derive(Clone, Debug)]
pub(crate) struct Override {
    pub(crate) id: String,
    pub(crate) limit: String,
    pub(crate) entry: Value,
}

/// Gives a limit the numbers of the newest override that matches, if it can have them.
pub(super) fn apply(applied: &mut Applied, newest_first: &[Override], request: &Request<'_>) {
    let is_it = |one: &&Override| {
        let who = &one.entry["who"];
        let until = who.get("until").map(|until| instant(until.as_str().unwrap()));
        one.limit == applied.name
            && until.is_none_or(|until| request.at() < until)
            && all_hold(&conditions(who), request)
    };
    let Some(found) = newest_first.iter().find(is_it) else { return };
    let Some(quota) = found.numbers_of(applied) else { return };
    applied.quota = applied.trust.map_or(quota.clone(), |trust| quota.trusting(trust));
    applied.untrusted = quota;
    applied.overridden = Some(found.id.clone());
}

impl Override {
    /// Its numbers for a limit of its name, before trust; `None` if the limit cannot have them.
    pub(super) fn numbers_of(&self, limit: &Applied) -> Option<Quota> {
        let numbers = &self.entry["numbers"];
        let mut quota = replaced(&limit.plain, numbers)?;
        if let Some(ceiling) = &limit.ceiling {
            quota = at_most(&quota, ceiling)?;
        }
        quota.overridden = Some(numbers.to_string());
        Some(quota)
    }
}

/// The numbers in place of those of a limit; `None` if it cannot have them.
fn replaced(plain: &Quota, numbers: &Value) -> Option<Quota> {
    let is_bucket = plain.algorithm == Algorithm::TokenBucket;
    let mut quota = plain.clone();
    if let Some(times) = numbers.get("times").map(integer) {
        quota.capacity = floor(&fraction(plain.capacity * times, 100)).max(1);
        quota.rate = if is_bucket {
            &plain.rate * fraction(times, 100)
        } else {
            fraction(quota.capacity, plain.window)
        };
        return in_range(quota);
    }
    if let Some(sustained) = numbers.get("sustained").filter(|sustained| sustained.is_object()) {
        let rate = fraction(integer(&sustained["rate"]), span(sustained["window"].as_str().unwrap()));
        quota = with_rate(quota, rate)?;
    }
    if let Some(capacity) = numbers.get("capacity").filter(|capacity| capacity.is_number() && is_bucket) {
        quota.capacity = integer(capacity);
    }
    in_range(quota)
}

/// A window admits what the rate is in its length; `None` if that is nothing.
fn with_rate(mut quota: Quota, rate: super::exact::Exact) -> Option<Quota> {
    if quota.algorithm != Algorithm::TokenBucket {
        quota.capacity = floor(&(&rate * whole(quota.window)));
        quota.rate = fraction(quota.capacity, quota.window);
        return (quota.capacity > 0).then_some(quota);
    }
    quota.rate = rate;
    Some(quota)
}

fn in_range(quota: Quota) -> Option<Quota> {
    let most = match quota.algorithm {
        Algorithm::TokenBucket => i128::from(u32::MAX),
        Algorithm::SlidingWindow | Algorithm::FixedWindow => 1_000_000,
        Algorithm::SlidingLog => 10_000,
    };
    let year = 366 * 86_400 * 1_000_000_000;
    let is_fast_enough = quota.algorithm != Algorithm::TokenBucket || quota.rate >= fraction(1, year);
    (quota.capacity <= most && is_fast_enough).then_some(quota)
}

/// At most what the ancestors of a tenant allow.
fn at_most(quota: &Quota, ceiling: &Quota) -> Option<Quota> {
    let mut capped = quota.clone();
    if ceiling.rate < capped.rate {
        capped = with_rate(capped, ceiling.rate.clone())?;
    }
    if quota.algorithm == Algorithm::TokenBucket {
        capped.capacity = capped.capacity.min(ceiling.capacity);
    }
    Some(capped)
}
