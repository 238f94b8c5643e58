//! `explain`: one decision with everything that led to it.

mod explanation;
mod tenants;

pub use explanation::{
    ExplainedBucket, ExplainedDetector, ExplainedGate, ExplainedLimit, ExplainedOverride, Explanation,
};
pub use tenants::ExplainedTenant;

use std::collections::HashMap;
use std::sync::Arc;

use arc_swap::Guard;
use smallvec::SmallVec;
use tidegate_core::{Algorithm, Cost, LimitDecision, Nanos};
use tidegate_policy::{
    Applicability, Descriptor, Facts, GateStage, KeyBytes, Plan, PlanItem, Request, Strategy, Tier,
};

use super::EntryStage;
use super::gates::GateNotes;
use crate::engine::active::{Active, Payer};
use crate::engine::decision::{Decision, Ruling};
use crate::engine::limiter::{Limiter, Operation};
use crate::engine::reason::Reason;
use crate::now_or_later::both;
use crate::{Charge, Clock, Intent, Memory, NowOrLater, Role, Store, Verdict};

impl<C: Clock> Limiter<Memory<C>, C> {
    /// The decision that a check of this request would return now, and why. Nothing is charged or counted.
    pub fn explain(&self, request: &Request<'_>) -> Explanation {
        let (now, set) = (self.clock.now(), self.active.load_full());
        let (plan, states) = self.bucket_states(&set, request, now);
        let states = states.expect_now().expect("memory always answers");
        self.explain_with(set, (request, &plan), now, &states)
    }
}

impl<S: Store, C: Clock> Limiter<S, C> {
    /// [`Limiter::explain`] on any store.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn explain_async(&self, request: &Request<'_>) -> Result<Explanation, S::Error> {
        let (now, set) = (self.clock.now(), self.active.load_full());
        let (plan, states) = self.bucket_states(&set, request, now);
        // Where it does not answer about penalties, this node would decide by those that it knows.
        let (states, _read) = match self.read_shared(&set, request, now) {
            Some(reading) => both(states, reading).await,
            None => (states.await, false),
        };
        let states = states?;
        Ok(self.explain_with(set, (request, &plan), now, &states))
    }

    /// The limits of the request, and the state of each bucket: before it, and after it, in turn. Nothing is taken, so each
    /// state is what it would be if the store were asked for it alone. Everything is explained by this one plan: an override
    /// that is added before the store has answered must not be shown beside numbers from before it.
    fn bucket_states(
        &self,
        set: &Active,
        request: &Request<'_>,
        now: Nanos,
    ) -> (Plan, NowOrLater<'_, Result<Verdict, S::Error>>) {
        let facts = set.rules.facts(request);
        let plan = self.plan_of(set, &facts, now);
        let charges = set.charges(&plan, Payer::of(&set.rules, request), &self.store);
        let mut all = Vec::with_capacity(2 * charges.len());
        for charge in charges {
            let mut free = charge;
            free.cost = Cost::ZERO;
            all.extend([free, charge]);
        }
        let states = self.store.charge(Intent::Peek, &all, now);
        drop(all);
        (plan, states)
    }

    /// The decision that a check would return, from the states of the buckets: the store need not be asked again.
    fn decision_on(
        &self,
        set: Guard<Arc<Active>>,
        (request, plan): (&Request<'_>, &Plan),
        now: Nanos,
        states: &Verdict,
    ) -> Decision {
        let facts = set.rules.facts(request);
        let (operation, mut gated, mut notes) = (Operation::Peek, Plan::default(), GateNotes::default());
        let before = EntryStage::Nothing;
        let decided = self.begin(&set, &facts, (operation, now), before, &mut gated, &mut notes);
        let ruling = decided.unwrap_or_else(|| {
            let mut ruling = self.ruling_of_states(&set, plan, request, now, states);
            self.finish(&set, &facts, plan, &mut ruling, &notes, operation);
            ruling
        });
        drop(facts);
        self.make_decision(set, ruling)
    }

    /// The ruling of the limits of a plan, from the states of the buckets.
    fn ruling_of_states(
        &self,
        set: &Active,
        plan: &Plan,
        request: &Request<'_>,
        now: Nanos,
        states: &Verdict,
    ) -> Ruling {
        let operation = Operation::Peek;
        let charges = set.charges(plan, Payer::of(&set.rules, request), &self.store);
        let decisions: SmallVec<[LimitDecision; 8]> =
            states.decisions.iter().skip(1).step_by(2).copied().collect();
        let refuses = |(charge, decision): (&Charge<'_>, &LimitDecision)| {
            charge.role == Role::Binding && !decision.is_allowed()
        };
        let allowed = !charges.iter().zip(&decisions).any(refuses);
        let result = Ok(Verdict { allowed, decisions, at: states.at });
        let result = (operation.intent(), &result);
        self.ruling_of(set, plan, &charges, result, (operation.caller(), now))
    }

    fn explain_with(
        &self,
        set: Arc<Active>,
        (request, plan): (&Request<'_>, &Plan),
        now: Nanos,
        states: &Verdict,
    ) -> Explanation {
        let decision = self.decision_on(Guard::from_inner(Arc::clone(&set)), (request, plan), now, states);
        let (held, set) = (Arc::clone(&set), &*set);
        let facts = set.rules.facts(request);
        let by_limits = self.ruling_of_states(set, plan, request, now, states);
        let by_limits = self.make_decision(Guard::from_inner(held), by_limits);
        let (states, payer) = (&states.decisions, Payer::of(&set.rules, request));
        let charges = set.charges(plan, payer, &self.store);
        let buckets = Buckets { set, facts: &facts, plan, charges: &charges, states };
        let limits = explain_limits(&buckets);
        let tenant = facts.tenant();
        let gate = match decision.reason() {
            Reason::KillSwitch => Some(ExplainedGate::kill_switch()),
            // The decision was made before the gate entries, so no entry decided.
            Reason::BurstBlocked | Reason::InvalidCredentials | Reason::UnknownKey => None,
            _ => self.explain_gate(set, &facts, self.clock.wall_at(now)),
        };
        Explanation {
            path: facts.path.as_deref().map(str::to_owned),
            route: facts.route().map(|(route, cost)| (route.to_owned(), cost.map(Cost::get))),
            upstream: facts.upstream().map(printable),
            cost: request.cost.get(),
            priority: queues(set, plan).then(|| set.rules.priority(&facts).get()),
            gate,
            detectors: self.explain_detectors(set, &facts, now),
            limits,
            tenants: tenants::explain_tenants(&buckets),
            contended: set.contended(&facts, decision.ruling()).map(|tenant| tenant.id.to_string()),
            unknown_tenant: tenant.filter(|_| plan.unknown_tenant).map(str::to_owned),
            trust: self.trust_report(set, &facts, now),
            decision,
            by_limits,
        }
    }

    /// The entry of `block` or `allow` that decides, in the order of the gates.
    fn explain_gate(&self, set: &Active, facts: &Facts<'_, '_>, now: Nanos) -> Option<ExplainedGate> {
        let (block, allow, live) = (set.rules.block(), set.rules.allow(), self.live_gates.load());
        let find = |stage| {
            let live_block = || live.block(stage, facts, now).map(|entry| ("block", true, entry));
            let own_block = || block.find(stage, facts, now).map(|entry| ("block", false, entry));
            let live_allow = || live.allow(stage, facts, now).map(|entry| ("allow", true, entry));
            let own_allow = || allow.find(stage, facts, now).map(|entry| ("allow", false, entry));
            live_block().or_else(own_block).or_else(live_allow).or_else(own_allow)
        };
        let (list, is_live, entry) = find(GateStage::Unidentified).or_else(|| find(GateStage::Identified))?;
        Some(ExplainedGate {
            list,
            line: (!is_live).then_some(entry.at.line),
            conditions: entry.conditions.iter().map(ToString::to_string).collect(),
            reason: entry.reason.as_deref().map(str::to_owned),
        })
    }

    fn explain_detectors(&self, set: &Active, facts: &Facts<'_, '_>, now: Nanos) -> Vec<ExplainedDetector> {
        let explain = |(number, detector): (usize, &tidegate_policy::DetectorRule)| {
            let mut key = KeyBytes::new();
            let missing = facts.write_key(&detector.key, &mut key).err();
            let known = &set.detectors[number];
            let burst = match self.store.shared_bursts() {
                None => self.bursts.watch(known, &key, false, now),
                Some(shared) => {
                    let mut nothing_noted = GateNotes::default();
                    self.look_at_shared(shared, (number, known, &key), false, now, &mut nothing_noted).0
                }
            };
            let until = burst.blocked_until.filter(|_| missing.is_none());
            ExplainedDetector {
                name: detector.name.to_string(),
                threshold: detector.threshold,
                window: detector.window,
                penalty: detector.penalty,
                key: key_parts(&detector.key, facts),
                missing: missing.map(ToString::to_string),
                blocked_for: until.map(|until| until.saturating_sub(now)),
            }
        };
        set.rules.detectors().iter().enumerate().map(explain).collect()
    }
}

fn explain_limits(buckets: &Buckets<'_, '_, '_>) -> Vec<ExplainedLimit> {
    // Many limits may apply, so the plan is not searched for each of them.
    let items: HashMap<u32, usize> =
        buckets.plan.items().iter().enumerate().map(|(index, item)| (item.rule, index)).collect();
    let explain = |judged: tidegate_policy::Judgement<'_>| {
        let rule = judged.rule;
        ExplainedLimit {
            name: rule.name.to_string(),
            tier: rule.tier,
            line: rule.at.line,
            why_not: why_not(&judged.standing, rule.is_shadow()),
            conditions: rule.conditions.iter().map(ToString::to_string).collect(),
            unless: rule.unless.iter().map(ToString::to_string).collect(),
            denies_missing: matches!(judged.standing, Applicability::DeniesMissing(_)) && !rule.is_shadow(),
            group: rule.group.as_ref().map(|group| group.name.to_string()),
            bucket: items.get(&judged.number).map(|index| buckets.explain(*index)),
        }
    };
    buckets.set.rules.judge(buckets.facts).into_iter().map(explain).collect()
}

/// The buckets of a request, and their states.
struct Buckets<'e, 'r, 'q> {
    set: &'e Active,
    facts: &'e Facts<'r, 'q>,
    plan: &'e Plan,
    /// Of each item of the plan.
    charges: &'e [Charge<'e>],
    /// Two for each item of the plan: before the request, and after it.
    states: &'e [LimitDecision],
}

impl Buckets<'_, '_, '_> {
    /// The bucket of the item of the plan with this index.
    fn explain(&self, index: usize) -> ExplainedBucket {
        let (set, facts, plan) = (self.set, self.facts, self.plan);
        let item = &plan.items()[index];
        let rule = set.rules.rule(item.rule);
        let charge = &self.charges[index];
        // The bucket of a whole tenant has no key; the key of the rule only divides the tenant's own bucket.
        let aggregate = charge.key.is_empty() && rule.tier == Tier::Tenant;
        let trusted = rule.adaptive && set.rules.uses_trust();
        ExplainedBucket {
            key: if aggregate { Vec::new() } else { key_parts(&rule.key, facts) },
            is_shared: plan.is_shared(item),
            limit: match charge.limit.limit() {
                plain if *plain == rule.limit => rule.numbers.describe(plain.algorithm()),
                scaled => match plan.trust.and_then(|trust| rule.numbers.trusted(trust.hundredths())) {
                    Some(numbers)
                        if scaled.algorithm() == Algorithm::TokenBucket
                            && charge.limit.variant().numbers.is_none() =>
                    {
                        numbers.describe(scaled.algorithm())
                    }
                    _ => scaled.to_string(),
                },
            },
            overridden: plan.override_of(index).map(|found| ExplainedOverride {
                id: found.rule.id.to_string(),
                reason: found.rule.reason.as_deref().map(str::to_owned),
                until: found.rule.until,
                instead_of: rule.numbers.describe(rule.limit.algorithm()),
                is_refused: charge.limit.variant().numbers.is_none(),
            }),
            trust: plan.trust.filter(|_| trusted).map(|trust| trust.hundredths()),
            cost: charge.cost.get(),
            cost_from: rule.cost.explain(facts),
            before: self.states[2 * index],
            answer: self.states[2 * index + 1],
            shadow: rule.is_shadow(),
            strategy: rule.strategy.clone(),
        }
    }
}

/// The parts of a key.
fn key_parts(key: &[Descriptor], facts: &Facts<'_, '_>) -> Vec<(String, String)> {
    let value = |descriptor: &Descriptor| match facts.value(descriptor) {
        Some(value) => printable(&value),
        None => "(none)".to_owned(),
    };
    key.iter().map(|descriptor| (descriptor.to_string(), value(descriptor))).collect()
}

fn printable(text: &str) -> String {
    text.chars()
        .flat_map(|char| if char.is_control() { char.escape_default().collect() } else { vec![char] })
        .collect()
}

fn why_not(standing: &Applicability<'_>, shadow: bool) -> Option<String> {
    Some(match standing {
        Applicability::Applies | Applicability::AppliesShared(_) => return None,
        Applicability::Excepted(conditions) => {
            let conditions: Vec<String> = conditions.iter().map(ToString::to_string).collect();
            format!("its `unless` holds: {}", conditions.join(", "))
        }
        Applicability::DeniesMissing(descriptor) => {
            let denies =
                if shadow { "would deny such requests, in shadow mode" } else { "denies such requests" };
            format!(
                "it counts by {descriptor}, which the request does not have, and {denies} (`missing: deny`)"
            )
        }
        Applicability::Disabled => "it is switched off (`enabled: false`)".to_owned(),
        Applicability::Unmet { condition, saw: Some(saw) } => {
            let what = condition.descriptor();
            let what = if what == Descriptor::Ip { "address".to_owned() } else { what.to_string() };
            format!("it is for {condition}; the request's {what} is `{saw}`")
        }
        Applicability::Unmet { condition, saw: None } => {
            format!("it is for {condition}; the request has no {}", condition.descriptor())
        }
        Applicability::NoKey(descriptor) => {
            format!("it counts by {descriptor}, which the request does not have")
        }
        Applicability::GroupTaken { by } => format!("`{}` of the same group matched first", by.name),
    })
}

/// Does a limit that applies let requests wait?
fn queues(set: &Active, plan: &Plan) -> bool {
    let strategy = |item: &PlanItem| &set.rules.rule(item.rule).strategy;
    plan.items().iter().any(|item| matches!(strategy(item), Strategy::Queue { .. }))
}
