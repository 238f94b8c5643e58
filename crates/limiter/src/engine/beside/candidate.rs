//! A candidate: a draft of a policy that decides beside the policy in force.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tidegate_core::{Cost, Nanos};
use tidegate_policy::{Descriptor, Request, Rule, RuleSet};

use super::prefixed::PrefixedStore;
use super::report::ComparisonReport;
use super::{Beside, BesideDecision, BesideStage, LiveConditions, decisive};
use crate::engine::decide::joint::{Joint, JointBy};
use crate::engine::keys::ChosenLimits;
use crate::engine::limiter::{Limiter, Operation};
use crate::{Clock, Intent, Later, LimitError, NowOrLater, Store};

/// Runs work that no decision waits for, such as a task of a runtime does; `false` if it cannot, and drops the work.
pub type BackgroundWork = Box<dyn Fn(Later<'static, ()>) -> bool + Send + Sync>;

/// A draft of a policy that decides the same requests as the policy in force, and a report of what differs. It changes
/// nothing for anybody: its counts are its own, and nobody is told of its denials.
///
/// ```
/// use tidegate::engine::{Limiter, Policy, Request};
/// use tidegate::{Memory, MemoryOptions};
///
/// let limit = |rate: u32| {
///     let text = format!("version: 1\nlimits: [{{ name: a, key: [user], sustained: {{ rate: {rate} }} }}]\n");
///     Policy::parse(&text)
/// };
/// let limiter = Limiter::new(limit(10)?)?;
/// let store = Memory::new(MemoryOptions::default())?;
/// let candidate = limiter.candidate(limit(1)?, store, "candidate 1: ", Box::new(|_| false))?;
/// let candidate = std::sync::Arc::new(candidate);
/// limiter.set_candidates(&[candidate.clone()]);
///
/// let request = Request::new().user("42");
/// assert!(limiter.check(&request).is_allowed());
/// assert!(limiter.check(&request).is_allowed(), "the candidate would deny it");
/// assert_eq!(candidate.report().totals().newly_denied, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Candidate<S, C> {
    limiter: Limiter<PrefixedStore<S>, C>,
    answers_at_once: bool,
    report: ComparisonReport,
    background: BackgroundWork,
}

impl<S: Store, C: Clock + Clone> Limiter<S, C> {
    /// A candidate with these rules, on `store`, where the names of its limits begin with `prefix`. It has the clock and
    /// the trust scores of this limiter; its denials do not count as violations. It decides nothing until
    /// [`Limiter::set_candidates`].
    ///
    /// A store that nodes share must be the one of this limiter, or one like it. `background` finishes comparisons that
    /// take longer than the decision that they are about.
    ///
    /// # Errors
    /// The store cannot hold the limits of the rules, or cannot count one of them.
    pub fn candidate<T: Store>(
        &self,
        rules: impl Into<RuleSet>,
        store: T,
        prefix: &str,
        background: BackgroundWork,
    ) -> Result<Candidate<T, C>, LimitError> {
        let store = PrefixedStore::new(store, prefix);
        let mut limiter = Limiter::with_store(rules, store, self.clock.clone())?;
        limiter.trust_book.clone_from(&self.trust_book);
        limiter.is_tried_out = true;
        let report = ComparisonReport::default();
        Ok(Candidate { limiter, answers_at_once: !self.is_shared, report, background })
    }
}

impl<S: Store, C: Clock> Candidate<S, C> {
    /// What differs from the policy in force.
    pub fn report(&self) -> &ComparisonReport {
        &self.report
    }

    /// The limiter that decides by the draft, to explain requests. Its decisions are not counted.
    pub fn limiter(&self) -> &Limiter<PrefixedStore<S>, C> {
        &self.limiter
    }

    /// Decides requests; `kept` are the same requests, if somebody keeps them.
    fn decide<'s>(
        &'s self,
        requests: &'s [Request<'_>],
        kept: Option<&Arc<[Request<'static>]>>,
        stage: BesideStage,
        now: Nanos,
    ) -> NowOrLater<'s, BesideDecision> {
        let [request] = requests else { return NowOrLater::later(self.decide_joint(requests, now)) };
        let operation = match stage {
            BesideStage::Check => Operation::Check,
            BesideStage::Admit => Operation::TakePlace,
            BesideStage::Unidentified => {
                let entered = self.limiter.enter_at(request, now);
                if !entered.is_decided() {
                    return NowOrLater::Now(None);
                }
                let decided = self.limiter.decide_entered(entered, request, Operation::Check);
                return decided.map(|(decision, _)| Some((0, decision.under_full_policy())));
            }
        };
        let decided = match kept {
            Some(kept) => self.limiter.decide_kept(kept, operation, now),
            None => self.limiter.decide(request, operation, now),
        };
        decided.map(|(decision, _)| Some((0, decision.under_full_policy())))
    }

    async fn decide_joint(&self, requests: &[Request<'_>], now: Nanos) -> BesideDecision {
        let joint: Vec<Joint<'_, '_>> =
            requests.iter().map(|request| Joint { request, by: JointBy::Policy }).collect();
        let mut decided = self.limiter.decide_joint(&joint, now).await.ok()?;
        let (index, _) = decisive(&decided)?;
        Some((index, decided.decisions.swap_remove(index).under_full_policy()))
    }
}

impl<S: Store + 'static, C: Clock + 'static> Beside for Candidate<S, C> {
    fn answers_at_once(&self) -> bool {
        self.answers_at_once
    }

    fn decide_now(&self, requests: &[Request<'_>], stage: BesideStage, now: Nanos) -> BesideDecision {
        crate::now_or_later::ready(self.decide(requests, None, stage, now))
    }

    fn decide_later(
        self: Arc<Self>,
        requests: Arc<[Request<'static>]>,
        stage: BesideStage,
        now: Nanos,
    ) -> Later<'static, BesideDecision> {
        Box::pin(async move {
            // A decision is large: one that is ready must not be kept in this future.
            let later = match self.decide(&requests, Some(&requests), stage, now) {
                NowOrLater::Now(decided) => return decided,
                NowOrLater::Later(later) => later,
            };
            later.await
        })
    }

    fn refund(self: Arc<Self>, request: &Request<'_>, cost: Cost) -> NowOrLater<'static, ()> {
        if self.answers_at_once {
            drop(self.limiter.refund_async(request, cost).expect_now());
            return NowOrLater::Now(());
        }
        let request = request.clone().into_owned();
        NowOrLater::later(async move { drop(self.limiter.refund_async(&request, cost).await) })
    }

    fn act_on_keys(
        self: Arc<Self>,
        act: (Intent, Cost),
        request: &Request<'_>,
        chosen: ChosenLimits<'_>,
    ) -> NowOrLater<'static, ()> {
        if self.answers_at_once {
            drop(self.limiter.act(act, request, chosen).expect_now());
            return NowOrLater::Now(());
        }
        let (limits, request) = (self.limiter.limits_of(request, chosen), request.clone().into_owned());
        NowOrLater::later(async move {
            let is_chosen = |rule: &Rule| limits.iter().any(|limit| limit.name == rule.name);
            drop(self.limiter.act(act, &request, &is_chosen).await);
        })
    }

    fn renumber(
        self: Arc<Self>,
        limit: &str,
        named: &[Descriptor],
        request: &Request<'_>,
    ) -> NowOrLater<'static, ()> {
        if self.answers_at_once {
            drop(self.limiter.renumber_async(limit, named, request).expect_now());
            return NowOrLater::Now(());
        }
        let (limit, named, request) = (limit.to_owned(), named.to_vec(), request.clone().into_owned());
        NowOrLater::later(async move { drop(self.limiter.renumber_async(&limit, &named, &request).await) })
    }

    fn touches_any(&self, request: &Request<'_>, chosen: ChosenLimits<'_>) -> bool {
        self.limiter.touches_any(request, chosen)
    }

    fn touch_the_same(&self, one: &Request<'_>, other: &Request<'_>, chosen: ChosenLimits<'_>) -> bool {
        self.limiter.touch_the_same(one, other, chosen)
    }

    fn forget_keys(&self, after: Intent, request: &Request<'_>, chosen: ChosenLimits<'_>) {
        self.limiter.forget(after, request, chosen);
    }

    fn hold_under(&self, conditions: &LiveConditions) {
        self.limiter.set_kill_switch(conditions.kill_switch);
        self.limiter.admits_invalid.store(conditions.admits_invalid, Ordering::Relaxed);
        self.limiter.live_gates.share(conditions.gates.clone());
        self.limiter.share_overrides(conditions.overrides.clone());
    }

    fn finish(&self, work: Later<'static, ()>) {
        if !(self.background)(work) {
            self.report.lose_one();
        }
    }

    fn report(&self) -> &ComparisonReport {
        &self.report
    }
}

impl<S, C> fmt::Debug for Candidate<S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Candidate").field("limiter", &self.limiter).finish_non_exhaustive()
    }
}
