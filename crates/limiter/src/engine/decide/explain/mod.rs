//! `explain`: one decision with everything that led to it.

mod tenants;

pub use tenants::ExplainedTenant;

use tidegate_core::{Algorithm, Cost, LimitDecision, Nanos};
use tidegate_policy::{
    Applicability, Descriptor, Facts, GateStage, KeyBytes, Plan, PlanItem, Request, Strategy, Tier,
};

use crate::engine::active::{Active, Payer};
use crate::engine::decision::Decision;
use crate::engine::limiter::Limiter;
use crate::engine::reason::Reason;
use crate::engine::trust::TrustReport;
use crate::now_or_later::both;
use crate::{Clock, Intent, Memory, NowOrLater, Store, Verdict};

/// Everything that led to a decision.
#[derive(Debug)]
pub struct Explanation {
    /// The decision that a check would return.
    pub decision: Decision,
    /// The path in normal form.
    pub path: Option<String>,
    /// The route that matched, and its cost.
    pub route: Option<(String, Option<u32>)>,
    /// The upstream: named by the request, or found by its host.
    pub upstream: Option<String>,
    /// The factor by which the request multiplies costs.
    pub cost: u32,
    /// Its priority, from 0 to 100, if a limit that applies lets requests wait.
    pub priority: Option<u8>,
    /// The entry of `block` or `allow` that decided.
    pub gate: Option<ExplainedGate>,
    /// Every burst detector.
    pub detectors: Vec<ExplainedDetector>,
    /// Every limit of the policy, in order.
    pub limits: Vec<ExplainedLimit>,
    /// The limits along the chain of tenants, from the root down; empty if the request has no
    /// tenant or an unknown one.
    pub tenants: Vec<ExplainedTenant>,
    /// The ancestor whose limit denies the request, rather than the tenant's own.
    pub contended: Option<String>,
    /// The tenant that the policy does not know.
    pub unknown_tenant: Option<String>,
    /// The score from which the trust of the request was computed; `None` if it was not.
    pub trust: Option<TrustReport>,
}

/// An entry of `block` or `allow` that matched.
#[derive(Clone, Debug)]
pub struct ExplainedGate {
    /// `block` or `allow`.
    pub list: &'static str,
    /// Its line in the document; `None` for a live entry, which is not part of the policy.
    pub line: Option<u32>,
    /// Its conditions, as written.
    pub conditions: Vec<String>,
    /// Its reason.
    pub reason: Option<String>,
}

/// A burst detector, and whether it applies to the request.
#[derive(Clone, Debug)]
pub struct ExplainedDetector {
    /// Its name.
    pub name: String,
    /// More than this in a window is a burst.
    pub threshold: u32,
    /// The window.
    pub window: Nanos,
    /// How long a warning lasts; a block lasts twice as long.
    pub penalty: Nanos,
    /// The key that it counts: descriptors and values.
    pub key: Vec<(String, String)>,
    /// The descriptor that the request lacks, if the detector does not apply.
    pub missing: Option<String>,
    /// How much longer the block lasts, if there is one.
    pub blocked_for: Option<Nanos>,
}

/// A limit, and how it applies to the request.
#[derive(Clone, Debug)]
pub struct ExplainedLimit {
    /// Its name.
    pub name: String,
    /// What its key identifies.
    pub tier: Tier,
    /// Its line in the document.
    pub line: u32,
    /// Why it does not apply; `None` if it does.
    pub why_not: Option<String>,
    /// Its conditions, as written.
    pub conditions: Vec<String>,
    /// The conditions of its `unless`, as written.
    pub unless: Vec<String>,
    /// Does it deny the request because the request lacks its key?
    pub denies_missing: bool,
    /// Its group.
    pub group: Option<String>,
    /// The bucket, if it applies.
    pub bucket: Option<ExplainedBucket>,
}

/// The arithmetic of one bucket.
#[derive(Clone, Debug)]
pub struct ExplainedBucket {
    /// The key of this bucket: descriptors and values.
    pub key: Vec<(String, String)>,
    /// Is it the bucket that all requests without the key share?
    pub is_shared: bool,
    /// The algorithm and its numbers, in words.
    pub limit: String,
    /// The override from which they are.
    pub overridden: Option<ExplainedOverride>,
    /// The trust by which they are scaled, in hundredths.
    pub trust: Option<u8>,
    /// The cost of the request for this limit.
    pub cost: u32,
    /// Where the cost comes from.
    pub cost_from: String,
    /// The state of the bucket before the request.
    pub before: LimitDecision,
    /// The decision of the bucket on the request.
    pub answer: LimitDecision,
    /// Is the limit in shadow mode, so that it never denies?
    pub shadow: bool,
    /// What happens to a request that the limit denies.
    pub strategy: Strategy,
}

/// An override that matches the request.
#[derive(Clone, Debug)]
pub struct ExplainedOverride {
    /// Its name.
    pub id: String,
    /// Why it is there.
    pub reason: Option<String>,
    /// When it ends, by the wall clock.
    pub until: Option<Nanos>,
    /// The numbers of the limit without it, in words.
    pub instead_of: String,
    /// Could the limit not have its numbers? Then the limit itself applies.
    pub is_refused: bool,
}

impl<C: Clock> Limiter<Memory<C>, C> {
    /// The decision that a check of this request would return now, and why. Nothing is charged or counted.
    pub fn explain(&self, request: &Request<'_>) -> Explanation {
        let (now, decision) = (self.clock.now(), self.peek(request));
        let set = self.active.load_full();
        let states = self.bucket_states(&set, request, now).expect_now().expect("memory always answers");
        self.explain_with(&set, request, now, decision, &states.decisions)
    }
}

impl<S: Store, C: Clock> Limiter<S, C> {
    /// [`Limiter::explain`] on any store.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn explain_async(&self, request: &Request<'_>) -> Result<Explanation, S::Error> {
        let (now, set) = (self.clock.now(), self.active.load_full());
        // Both are sent to a shared store before either has answered.
        let deciding = self.peek_async(request);
        let states = self.bucket_states(&set, request, now);
        let (states, decision) = both(states, Box::pin(deciding)).await;
        Ok(self.explain_with(&set, request, now, decision, &states?.decisions))
    }

    /// The state of each bucket of the request: before it, and after it, in turn. Nothing is taken, so each state is what it
    /// would be if the store were asked for it alone.
    fn bucket_states(
        &self,
        set: &Active,
        request: &Request<'_>,
        now: Nanos,
    ) -> NowOrLater<'_, Result<Verdict, S::Error>> {
        let facts = set.rules.facts(request);
        let plan = self.plan_of(set, &facts, now);
        let charges = set.charges(&plan, Payer::of(&set.rules, request), &self.store);
        let mut all = Vec::with_capacity(2 * charges.len());
        for charge in charges {
            let mut free = charge;
            free.cost = Cost::ZERO;
            all.extend([free, charge]);
        }
        self.store.charge(Intent::Peek, &all, now)
    }

    fn explain_with(
        &self,
        set: &Active,
        request: &Request<'_>,
        now: Nanos,
        decision: Decision,
        states: &[LimitDecision],
    ) -> Explanation {
        let facts = set.rules.facts(request);
        let plan = self.plan_of(set, &facts, now);
        let buckets = Buckets { set, facts: &facts, plan: &plan, store: &self.store, states };
        let limits = explain_limits(&buckets);
        let tenant = facts.tenant();
        // If the decision was made before the gate entries, no entry decided.
        let ended_before = matches!(
            decision.reason(),
            Reason::BurstBlocked | Reason::InvalidCredentials | Reason::UnknownKey
        );
        let gate = if ended_before { None } else { self.explain_gate(set, &facts, self.clock.wall_at(now)) };
        Explanation {
            path: facts.path.as_deref().map(str::to_owned),
            route: facts.route().map(|(route, cost)| (route.to_owned(), cost.map(Cost::get))),
            upstream: facts.upstream().map(printable),
            cost: request.cost.get(),
            priority: queues(set, &plan).then(|| set.rules.priority(&facts).get()),
            gate,
            detectors: self.explain_detectors(set, &facts, now),
            limits,
            tenants: tenants::explain_tenants(&buckets),
            contended: set.contended(&facts, decision.ruling()).map(|tenant| tenant.id.to_string()),
            unknown_tenant: tenant.filter(|_| plan.unknown_tenant).map(str::to_owned),
            trust: self.trust_report(set, &facts, now),
            decision,
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
            let burst = self.bursts.watch(&set.detectors[number], &key, false, now);
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

fn explain_limits<S: Store>(buckets: &Buckets<'_, '_, '_, S>) -> Vec<ExplainedLimit> {
    let explain = |judged: tidegate_policy::Judgement<'_>| {
        let rule = judged.rule;
        let item = buckets.plan.items().iter().find(|item| item.rule == judged.number);
        ExplainedLimit {
            name: rule.name.to_string(),
            tier: rule.tier,
            line: rule.at.line,
            why_not: why_not(&judged.standing, rule.is_shadow()),
            conditions: rule.conditions.iter().map(ToString::to_string).collect(),
            unless: rule.unless.iter().map(ToString::to_string).collect(),
            denies_missing: matches!(judged.standing, Applicability::DeniesMissing(_)) && !rule.is_shadow(),
            group: rule.group.as_ref().map(|group| group.name.to_string()),
            bucket: item.map(|item| buckets.explain(item)),
        }
    };
    buckets.set.rules.judge(buckets.facts).into_iter().map(explain).collect()
}

/// The buckets of a request, and their states.
struct Buckets<'e, 'r, 'q, S> {
    set: &'e Active,
    facts: &'e Facts<'r, 'q>,
    plan: &'e Plan,
    store: &'e S,
    /// Two for each item of the plan: before the request, and after it.
    states: &'e [LimitDecision],
}

impl<S: Store> Buckets<'_, '_, '_, S> {
    fn explain(&self, item: &PlanItem) -> ExplainedBucket {
        let (set, facts, plan) = (self.set, self.facts, self.plan);
        let rule = set.rules.rule(item.rule);
        let index = plan.items().iter().position(|other| other == item).expect("the item is in this plan");
        let charge = set.charges(plan, Payer::of(&set.rules, facts.request), self.store)[index];
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
                id: found.id.to_string(),
                reason: found.reason.as_deref().map(str::to_owned),
                until: found.until,
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
