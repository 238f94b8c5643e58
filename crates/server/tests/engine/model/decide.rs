//! Decides requests one after the other, from the JSON of the request to the JSON of the decision.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::exact::Wait;
use super::forgetting::Forgetting;
use super::gates::{BurstTold, Detectors, gate};
use super::matching::path_matches;
use super::meter::{self, Reading, Usage};
use super::overrides::{self, Override};
use super::rendered::{admitted, denied, entries, millis, refused, shadow_denied};
use super::request::{Request, Spellings, normal_path};
use super::terms::{self, Applied, Strategy};
use super::trust::TrustModel;
use super::{limits, tenants, upstreams};
use crate::engine::Case;

/// A bucket: the limit's name and the values of its key.
pub(super) type Bucket = (String, Vec<String>);

/// A policy, and the state of everything under it.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    policy: Value,
    pub(super) usage: BTreeMap<Bucket, Usage>,
    /// The instants at which queued requests are admitted.
    reserved: BTreeMap<Bucket, Vec<i128>>,
    detectors: Detectors,
    /// Are requests with an invalid credential treated as anonymous?
    anonymous: bool,
    /// What is known about users, if their trust is computed.
    trust: Option<TrustModel>,
    /// The number of requests so far.
    requests: usize,
    /// The overrides in force, newest first.
    overrides: Vec<Override>,
    /// Which buckets may be forgotten.
    pub(super) forgetting: Forgetting,
}

/// A limit and its answer.
pub(super) type Said = (Applied, Reading);

impl Model {
    /// A policy before its first request.
    pub(crate) fn new(case: &Case) -> Model {
        Model {
            policy: case.policy.clone(),
            anonymous: case.anonymous,
            usage: BTreeMap::new(),
            reserved: BTreeMap::new(),
            detectors: Detectors::default(),
            trust: case.trust.as_ref().map(TrustModel::new),
            requests: 0,
            overrides: Vec::new(),
            forgetting: Forgetting::default(),
        }
    }

    /// Replaces the overrides.
    pub(crate) fn set_overrides(&mut self, newest_first: Vec<Override>) {
        self.forgetting.before_change(&self.usage, &newest_first);
        self.overrides = newest_first;
    }

    /// Decides a line of a trace.
    pub(crate) fn decide(&mut self, line: &Value) -> Value {
        let (mut request, route_cost) = self.read(line);
        self.forgetting.now = request.at();
        if let Some(trust) = &mut self.trust {
            trust.step(self.requests, request.at());
        }
        self.requests += 1;
        let mut told = None;
        let mut decision = self.before_limits(&mut request, route_cost, &mut told);
        self.note_violation(&request, &decision);
        if let Some(told) = told {
            decision["burst"] = json!(told.word());
        }
        decision["at_ms"] = line["at_ms"].clone();
        decision
    }

    /// Makes the buckets of a request unused. Those who wait in queues keep their instants.
    pub(crate) fn reset(&mut self, line: &Value) {
        for bucket in self.buckets(line) {
            self.usage.remove(&bucket);
        }
    }

    /// The buckets of a request.
    pub(super) fn buckets(&self, line: &Value) -> Vec<Bucket> {
        let (request, route_cost) = self.read(line);
        let (mut applied, _) = limits::applying(&self.policy, route_cost, &request);
        applied.extend(tenants::applying(&self.policy, route_cost, &request));
        applied.iter().map(bucket).collect()
    }

    /// A request, and the cost of its route if that has one.
    fn read<'l>(&self, line: &'l Value) -> (Request<'l>, Option<i128>) {
        let mut request = Request::new(line).spelled(Spellings::of(&self.policy));
        request.default_tenant =
            self.policy.pointer("/defaults/tenant").map(|id| id.as_str().unwrap().to_owned());
        request.upstream = upstreams::of_host(&self.policy, request.value("host"));
        let route_cost = self.take_route(&mut request);
        (request, route_cost)
    }

    /// A denial by a limit on somebody that does not hold the cost is a violation of the user.
    fn note_violation(&mut self, request: &Request<'_>, decision: &Value) {
        let reasons = ["token_bucket", "sliding_window", "sliding_log", "fixed_window"];
        let exceeded = reasons.iter().any(|algorithm| decision["reason"] == format!("{algorithm}_exceeded"));
        let limit = terms::entries(&self.policy, "limits")
            .into_iter()
            .find(|limit| exceeded && limit["name"] == decision["violated_rule"]);
        let is_personal = limit.is_some_and(|limit| limits::is_personal(&limits::descriptors(limit)));
        if let (true, Some(user), Some(trust)) = (is_personal, request.value("user"), &mut self.trust)
            && limits::uses_trust(&self.policy)
        {
            trust.violated(&user, request.at());
        }
    }

    /// The score of a request's user, if it is needed.
    fn computed_trust(&mut self, request: &Request<'_>) -> Option<i128> {
        let is_used = limits::uses_trust(&self.policy) && request.own_trust().is_none();
        let (user, trust) = (request.value("user")?, self.trust.as_mut().filter(|_| is_used)?);
        trust.score(&user, request.claims(), request.at())
    }

    /// The first route that matches, and its cost if it has one.
    fn take_route(&self, request: &mut Request<'_>) -> Option<i128> {
        let path = request.path()?;
        let method = request.value("method");
        let route = terms::entries(&self.policy, "routes").into_iter().find(|route| {
            let methods = route.get("methods").and_then(Value::as_array);
            let method_fits = methods.is_none_or(|methods| {
                methods.iter().any(|wanted| Some(wanted.as_str().unwrap()) == method.as_deref())
            });
            let upstream = route.get("upstream").map(|name| name.as_str().unwrap().to_owned());
            let goes_there = upstream.is_none() || upstream == request.value("upstream");
            method_fits
                && goes_there
                && !limits::excepted(route, request)
                && path_matches(route["path"].as_str().unwrap(), &path, request.spellings)
        })?;
        request.route = Some(normal_path(route["path"].as_str().unwrap(), request.spellings));
        route.get("cost").map(terms::integer)
    }

    /// The order of checks: `block`, `allow` and bursts that need no credential; the credential; those that need it;
    /// unknown tenants; then the limits. A policy in shadow mode only records what it would have denied.
    fn before_limits(
        &mut self,
        request: &mut Request<'_>,
        route_cost: Option<i128>,
        told: &mut Option<BurstTold>,
    ) -> Value {
        let only_notes = terms::whole_shadow(&self.policy);
        let mut noted = Vec::new();
        if let Some(decided) = self.gates(false, request, &mut noted, told) {
            return decided;
        }
        let rejected = match request.credential().as_str() {
            "invalid" if !self.anonymous => Some("invalid_credentials"),
            "unknown_key" => Some("unknown_key"),
            _ => None,
        };
        if let Some(reason) = rejected {
            if !only_notes {
                return refused(reason, Some(reason), Some("custom"), Wait::Never);
            }
            noted.push(reason.to_owned());
        }
        if let Some(decided) = self.gates(true, request, &mut noted, told) {
            return decided;
        }
        request.computed_trust = self.computed_trust(request);
        let denies_unknown = self.policy.pointer("/defaults/unknown_tenant") == Some(&json!("deny"));
        let tenant = request.value("tenant");
        if denies_unknown
            && request.cost() > 0
            && tenant.is_some_and(|tenant| tenants::is_unknown(&self.policy, &tenant))
        {
            if !only_notes {
                return refused("unknown_tenant", Some("unknown_tenant"), Some("tenant"), Wait::Never);
            }
            noted.push("unknown_tenant".to_owned());
        }
        let (mut applied, lacking) = limits::applying(&self.policy, route_cost, request);
        if request.cost() > 0 {
            noted.extend(lacking.iter().filter(|limit| limit.shadow).map(|limit| limit.name.clone()));
            if let Some(limit) = lacking.iter().find(|limit| !limit.shadow) {
                let mut denial = refused("missing_key", Some(&limit.name), Some(limit.tier), Wait::Never);
                denial["shadow_denied"] = json!(noted);
                return denial;
            }
        }
        applied.extend(tenants::applying(&self.policy, route_cost, request));
        applied.iter_mut().for_each(|limit| overrides::apply(limit, &self.overrides, request));
        self.weigh(applied, request.at(), noted)
    }

    /// `block`, `allow` and bursts: either those that depend on the credential, or the others.
    fn gates(
        &mut self,
        by_identity: bool,
        request: &Request<'_>,
        noted: &mut Vec<String>,
        told: &mut Option<BurstTold>,
    ) -> Option<Value> {
        let only_notes = terms::whole_shadow(&self.policy);
        if let Some(wait) = gate(&self.policy, "block", by_identity, request) {
            if !only_notes {
                return Some(refused("blocked", Some("block"), Some("custom"), wait));
            }
            if !noted.contains(&"block".to_owned()) {
                noted.push("block".to_owned());
            }
        }
        if gate(&self.policy, "allow", by_identity, request).is_some() {
            return Some(admitted("allowlisted", None, noted));
        }
        let (detector, wait) = self.detectors.meet(&self.policy, by_identity, request, told)?;
        let name = detector["name"].as_str().unwrap();
        if !only_notes {
            return Some(refused("burst_blocked", Some(name), Some(limits::tier(detector)), wait));
        }
        noted.push(name.to_owned());
        None
    }

    /// Decides by all limits that apply, all or nothing.
    fn weigh(&mut self, applied: Vec<Applied>, now: i128, noted: Vec<String>) -> Value {
        let said: Vec<Said> = applied
            .into_iter()
            .map(|limit| {
                let reading = meter::look(self.usage.get(&bucket(&limit)), &limit.quota, limit.cost, now);
                self.forgetting.shown(&bucket(&limit), reading.remaining == limit.quota.capacity);
                (limit, reading)
            })
            .collect();
        let denying = |(limit, reading): &&Said| !limit.shadow && !reading.admits;
        let vetoing: Vec<&Said> = said
            .iter()
            .filter(denying)
            .filter(|(limit, _)| !matches!(limit.strategy, Strategy::Degrade { .. }))
            .collect();
        // If a limit refuses without a queue, the decision names only such limits, even if others would queue.
        let is_final = |said: &&&Said| said.0.strategy == Strategy::Reject || said.1.wait == Wait::Never;
        let finals: Vec<&Said> = vetoing.iter().filter(is_final).copied().collect();
        let Some(worst) = longest_wait(if finals.is_empty() { &vetoing } else { &finals }) else {
            return self.admit(said, now, &noted);
        };
        let Wait::For(wait) = worst.1.wait else {
            return denied("cost_exceeds_capacity", worst, Wait::Never, &said, &noted);
        };
        if vetoing.iter().any(|(limit, _)| limit.strategy == Strategy::Reject) {
            // By the time of the retry, the wait in each queue must have fallen to its `max_wait`.
            let until_queued = |(limit, reading): &&Said| match (&limit.strategy, reading.wait) {
                (Strategy::Queue { max_wait, .. }, Wait::For(wait)) => Wait::For((wait - max_wait).max(0)),
                _ => Wait::NONE,
            };
            let longest = vetoing.iter().map(until_queued).max().unwrap_or(Wait::NONE).max(Wait::For(wait));
            return denied(worst.0.quota.algorithm.reason(), worst, longest, &said, &noted);
        }
        for (limit, _) in &vetoing {
            let Strategy::Queue { max_depth, max_wait } = limit.strategy else { unreachable!() };
            let waiting = self.reserved.get(&bucket(limit)).into_iter().flatten().filter(|at| **at > now);
            if waiting.count() >= max_depth {
                return denied("queue_full", worst, worst.1.wait, &said, &noted);
            }
            if wait > max_wait {
                return denied("queue_timeout", worst, worst.1.wait, &said, &noted);
            }
        }
        let mut decision = self.admit(said, now, &noted);
        decision["queued_ms"] = millis(Wait::For(wait));
        decision
    }

    /// Charges every limit that admits. A limit that makes the request wait is charged as of the instant at which its
    /// bucket would admit the request. Such a charge in advance is described as of that instant, and its reset counted
    /// from now: instants are rounded down to the tick, so seen from now, before that instant, the bucket would be full
    /// up to a tick later than it is. Limits that neither admit nor queue are shadow limits, or degrade.
    fn admit(&mut self, said: Vec<Said>, now: i128, noted: &[String]) -> Value {
        let after: Vec<Said> = said
            .into_iter()
            .map(|(limit, reading)| {
                let queues = matches!(limit.strategy, Strategy::Queue { .. }) && !limit.shadow;
                let at = match reading.wait {
                    _ if limit.cost == 0 => return (limit, reading),
                    _ if reading.admits => now,
                    Wait::For(wait) if queues => now + wait,
                    _ => return (limit, reading),
                };
                let stored = self.usage.get(&bucket(&limit));
                // Who is charged in advance has the numbers of the override from now on.
                let moved =
                    stored.filter(|_| at > now).and_then(|used| meter::moved(used, &limit.quota, now));
                let charged = meter::charge(moved.as_ref().or(stored), &limit.quota, limit.cost, at);
                let then = meter::look(Some(&charged), &limit.quota, 0, at);
                let reading = Reading { reset: then.reset + (at - now), ..then };
                self.usage.insert(bucket(&limit), charged);
                self.forgetting.charged(bucket(&limit), &limit);
                if at > now {
                    self.reserved.entry(bucket(&limit)).or_default().push(at);
                }
                (limit, reading)
            })
            .collect();
        let enforced: Vec<&Said> = after.iter().filter(|(limit, _)| !limit.shadow).collect();
        let admitting: Vec<&Said> = enforced.iter().filter(|(_, reading)| reading.admits).copied().collect();
        let speaking = tightest(&enforced);
        let reason = if enforced.is_empty() { "no_limit" } else { "ok" };
        let mut decision = admitted(reason, speaking, &shadow_denied(&after, noted));
        decision["degraded"] = json!(admitting.len() < enforced.len());
        // The first limit in the order of the document that did not admit says how the request is marked.
        let marking = enforced.iter().find(|(_, reading)| !reading.admits);
        if let Some(Strategy::Degrade { tag }) = marking.map(|(limit, _)| &limit.strategy) {
            decision["degraded_tag"] = json!(tag);
        }
        decision["limits"] = entries(&after);
        decision
    }
}

fn bucket(limit: &Applied) -> Bucket {
    (limit.name.clone(), limit.key.clone())
}

/// The first limit with the longest wait.
fn longest_wait<'a>(said: &[&'a Said]) -> Option<&'a Said> {
    let longest = said.iter().map(|(_, reading)| reading.wait).max()?;
    said.iter().copied().find(|(_, reading)| reading.wait == longest)
}

/// The first limit with the smallest fraction left, by the printed numbers.
fn tightest<'a>(said: &[&'a Said]) -> Option<&'a Said> {
    let tighter = |one: &Said, other: &Said| {
        one.1.remaining * other.0.quota.capacity < other.1.remaining * one.0.quota.capacity
    };
    said.iter().copied().reduce(|best, next| if tighter(next, best) { next } else { best })
}
