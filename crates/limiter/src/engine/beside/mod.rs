//! Deciding beside: other policies decide the same requests at the same time, for comparison, and nobody is served or
//! refused by what they say.
//!
//! A [`Candidate`] is a draft of a policy with a limiter of its own, on a store of its own or on the same one under a
//! prefix (`prefixed`), so it never takes what the policy in force counts. It decides every request that the limiter in
//! force decides and charges, as of the same instant; what differs goes to its [`ComparisonReport`]. A decision never
//! waits for a candidate's answer: where the store has to be asked, both calls go out together, as one if the store can and
//! the candidate adds little to it. If the candidate's answer is the later one, its comparison is finished in the background.

mod candidate;
mod prefixed;
mod report;
mod side;

use std::fmt;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll};

use arc_swap::ArcSwapOption;
use tidegate_core::{Cost, Nanos};
use tidegate_policy::{Descriptor, Overrides, Request, RuleSet};

use super::decide::DecisionAndPlace;
use super::decide::entered::Entered;
use super::decide::joint::JointDecision;
use super::decision::Decision;
use super::keys::ChosenLimits;
use super::limiter::{Limiter, Operation};
use crate::{Clock, Intent, Later, NowOrLater, Store};

pub use candidate::{BackgroundWork, Candidate};
pub use prefixed::PrefixedStore;
pub use report::{
    ComparedExample, ComparisonReport, ComparisonSnapshot, ComparisonTotals, DifferingDecisions, DifferingKey,
};
pub use side::DecidedSide;

/// How requests are decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BesideStage {
    /// Denied where they would have to wait in a queue. If there are several, all are admitted or none.
    Check,
    /// A place in a queue is an admission.
    Admit,
    /// Decided before the client was identified, so that its identity is not known.
    Unidentified,
}

/// The decision on requests: the index of the request that it is about, and the decision on that one. `None` if it could
/// not be decided.
pub(crate) type BesideDecision = Option<(usize, Decision)>;

/// Decides what a limiter decides, beside it.
pub(crate) trait Beside: fmt::Debug + Send + Sync {
    /// Does its store answer at once?
    fn answers_at_once(&self) -> bool;

    /// Decides requests, if the store answers at once.
    fn decide_now(&self, requests: &[Request<'_>], stage: BesideStage, now: Nanos) -> BesideDecision;

    /// Decides requests on any store.
    fn decide_later(
        self: Arc<Self>,
        requests: Arc<[Request<'static>]>,
        stage: BesideStage,
        now: Nanos,
    ) -> Later<'static, BesideDecision>;

    /// Gives tokens back, as the limiter in force does.
    fn refund(self: Arc<Self>, request: &Request<'_>, cost: Cost) -> NowOrLater<'static, ()>;

    /// Resets the keys of a request, or grants them tokens, as [`Limiter::reset_async`] and [`Limiter::grant_async`] do.
    fn act_on_keys(
        self: Arc<Self>,
        act: (Intent, Cost),
        request: &Request<'_>,
        chosen: ChosenLimits<'_>,
    ) -> NowOrLater<'static, ()>;

    /// See [`Limiter::renumber_async`].
    fn renumber(
        self: Arc<Self>,
        limit: &str,
        named: &[Descriptor],
        request: &Request<'_>,
    ) -> NowOrLater<'static, ()>;

    /// See [`Limiter::touches_any`].
    fn touches_any(&self, request: &Request<'_>, chosen: ChosenLimits<'_>) -> bool;

    /// See [`Limiter::touch_the_same`].
    fn touch_the_same(&self, one: &Request<'_>, other: &Request<'_>, chosen: ChosenLimits<'_>) -> bool;

    /// See [`Limiter::forget`].
    fn forget_keys(&self, after: Intent, request: &Request<'_>, chosen: ChosenLimits<'_>);

    /// Replaces what holds whatever the policy is.
    fn hold_under(&self, conditions: &LiveConditions);

    /// Finishes something that nobody waits for; it is dropped if there is too much of it.
    fn finish(&self, work: Later<'static, ()>);

    /// What it compares.
    fn report(&self) -> &ComparisonReport;
}

/// What holds whatever the policy is.
pub(crate) struct LiveConditions {
    pub(crate) kill_switch: bool,
    pub(crate) admits_invalid: bool,
    pub(crate) gates: Option<Arc<RuleSet>>,
    pub(crate) overrides: Option<Arc<Overrides>>,
}

/// Those that decide beside a limiter. Without any, a decision reads one flag.
#[derive(Debug, Default)]
pub(crate) struct Besides {
    is_some: AtomicBool,
    list: ArcSwapOption<Vec<Arc<dyn Beside>>>,
}

impl Besides {
    #[inline]
    pub(crate) fn is_some(&self) -> bool {
        self.is_some.load(Ordering::Acquire)
    }

    pub(super) fn all(&self) -> Option<Arc<Vec<Arc<dyn Beside>>>> {
        self.list.load_full()
    }
}

impl<S, C> Limiter<S, C> {
    /// Tells those beside what holds whatever the policy is; called after each change of it.
    pub(super) fn tell_besides(&self) {
        if self.besides.is_some() {
            let _one_at_a_time = self.swapping.lock().unwrap_or_else(PoisonError::into_inner);
            let conditions = self.live_conditions();
            self.besides.all().iter().flat_map(|list| list.iter()).for_each(|beside| {
                beside.hold_under(&conditions);
            });
        }
    }

    fn live_conditions(&self) -> LiveConditions {
        LiveConditions {
            kill_switch: self.kill_switch.load(Ordering::Relaxed),
            admits_invalid: self.admits_invalid.load(Ordering::Relaxed),
            gates: self.live_gates(),
            overrides: self.overrides.load_full(),
        }
    }
}

impl<S: Store, C: Clock> Limiter<S, C> {
    /// Replaces the candidates that decide beside this limiter. They see every request from now on.
    pub fn set_candidates<T: Store + 'static>(&self, candidates: &[Arc<Candidate<T, C>>])
    where
        C: 'static,
    {
        let _one_at_a_time = self.swapping.lock().unwrap_or_else(PoisonError::into_inner);
        let conditions = self.live_conditions();
        candidates.iter().for_each(|candidate| candidate.hold_under(&conditions));
        let list: Vec<Arc<dyn Beside>> =
            candidates.iter().map(|one| Arc::clone(one) as Arc<dyn Beside>).collect();
        let is_some = !list.is_empty();
        self.besides.list.store(is_some.then(|| Arc::new(list)));
        self.besides.is_some.store(is_some, Ordering::Release);
    }

    /// Lets those beside decide a request that was decided at once.
    #[inline]
    pub(super) fn besides_of_now(
        &self,
        live: &Decision,
        request: &Request<'_>,
        stage: BesideStage,
        now: Nanos,
    ) {
        if self.besides.is_some() {
            self.run_besides_now((0, live), std::slice::from_ref(request), None, stage, now);
        }
    }

    /// Decides a request, and lets those beside decide it at the same time; `live` takes a decision further. Where the
    /// store is likely to be asked, the request is copied once, for all of them.
    #[inline]
    pub(super) fn decide_with_besides<'s>(
        &'s self,
        request: &Request<'_>,
        (operation, stage): (Operation, BesideStage),
        now: Nanos,
        live: impl FnOnce(NowOrLater<'s, DecisionAndPlace>) -> NowOrLater<'s, Decision>,
    ) -> NowOrLater<'s, Decision> {
        if !self.besides.is_some() {
            return live(self.decide(request, operation, now));
        }
        let kept = self.is_shared.then(|| to_owned(std::slice::from_ref(request)));
        let decided = match &kept {
            Some(kept) => self.decide_kept(kept, operation, now),
            None => self.decide(request, operation, now),
        };
        self.run_besides(live(decided), request, kept, stage, now)
    }

    /// Lets those beside decide a request at the same time.
    #[inline]
    pub(super) fn besides_of<'s>(
        &'s self,
        live: NowOrLater<'s, Decision>,
        request: &Request<'_>,
        stage: BesideStage,
        now: Nanos,
    ) -> NowOrLater<'s, Decision> {
        if self.besides.is_some() { self.run_besides(live, request, None, stage, now) } else { live }
    }

    /// `kept` is the same request, if it is kept.
    #[cold]
    fn run_besides<'s>(
        &'s self,
        live: NowOrLater<'s, Decision>,
        request: &Request<'_>,
        kept: Option<Arc<[Request<'static>]>>,
        stage: BesideStage,
        now: Nanos,
    ) -> NowOrLater<'s, Decision> {
        let requests = std::slice::from_ref(request);
        match live {
            NowOrLater::Now(decision) => {
                self.run_besides_now((0, &decision), requests, kept, stage, now);
                NowOrLater::Now(decision)
            }
            NowOrLater::Later(live) => {
                let running = self.begin_besides(kept.unwrap_or_else(|| to_owned(requests)), stage, now);
                NowOrLater::later(running.beside(&self.store, live, |decision| Some((0, decision))))
            }
        }
    }

    /// Lets those beside decide several requests, all or none, at the same time.
    #[cold]
    pub(super) fn run_besides_of_joint<'s, E: Send + 's>(
        &'s self,
        live: Later<'s, Result<JointDecision, E>>,
        requests: &[Request<'_>],
        now: Nanos,
    ) -> Later<'s, Result<JointDecision, E>> {
        let running = self.begin_besides(to_owned(requests), BesideStage::Check, now);
        Box::pin(running.beside(&self.store, live, |joint| joint.as_ref().ok().and_then(decisive)))
    }

    /// Lets each of those beside do something that nobody waits for.
    #[cold]
    pub(super) fn each_beside(&self, act: impl Fn(Arc<dyn Beside>) -> NowOrLater<'static, ()>) {
        for beside in self.besides.all().iter().flat_map(|list| list.iter()) {
            if let NowOrLater::Later(acting) = act(Arc::clone(beside)).started() {
                beside.finish(acting);
            }
        }
    }

    #[cold]
    fn run_besides_now(
        &self,
        live: (usize, &Decision),
        requests: &[Request<'_>],
        mut owned: Option<Arc<[Request<'static>]>>,
        stage: BesideStage,
        now: Nanos,
    ) {
        for beside in self.besides.all().iter().flat_map(|list| list.iter()) {
            if beside.answers_at_once() {
                let decided = beside.decide_now(requests, stage, now);
                beside.report().compare(requests, live, decided);
                continue;
            }
            let owned = owned.get_or_insert_with(|| to_owned(requests));
            let deciding = Arc::clone(beside).decide_later(Arc::clone(owned), stage, now);
            match NowOrLater::Later(deciding).started() {
                NowOrLater::Now(decided) => beside.report().compare(requests, live, decided),
                NowOrLater::Later(deciding) => finish_later(beside, deciding, Arc::clone(owned), live),
            }
        }
    }

    /// Begins the decisions of those beside; they are made while the returned value is polled.
    fn begin_besides(
        &self,
        owned: Arc<[Request<'static>]>,
        stage: BesideStage,
        now: Nanos,
    ) -> RunningBesides {
        let begin = |beside: &Arc<dyn Beside>| {
            let deciding = match beside.answers_at_once() {
                true => NowOrLater::Now(beside.decide_now(&owned, stage, now)),
                false => NowOrLater::Later(Arc::clone(beside).decide_later(Arc::clone(&owned), stage, now)),
            };
            RunningBeside { beside: Arc::clone(beside), deciding }
        };
        let all = self.besides.all();
        // From a list, so that there is room for just as many: each is large.
        let running = all.as_ref().map_or_else(Vec::new, |all| all.iter().map(begin).collect());
        RunningBesides { requests: owned, running }
    }
}

impl Entered {
    /// At which stage those beside decide the request.
    pub(super) fn beside_stage(&self, otherwise: BesideStage) -> BesideStage {
        if self.is_decided() { BesideStage::Unidentified } else { otherwise }
    }
}

/// The decision that tells of a joint decision: that on the first request that was denied, or on the first of all.
pub(super) fn decisive(joint: &JointDecision) -> Option<(usize, &Decision)> {
    let denied = joint.decisions.iter().enumerate().find(|(_, decision)| !decision.is_allowed());
    denied.or_else(|| joint.decisions.iter().enumerate().next())
}

fn to_owned(requests: &[Request<'_>]) -> Arc<[Request<'static>]> {
    requests.iter().map(|request| request.clone().into_owned()).collect()
}

/// Finishes a comparison whose decision was not made in time.
fn finish_later(
    beside: &Arc<dyn Beside>,
    deciding: Later<'static, BesideDecision>,
    requests: Arc<[Request<'static>]>,
    live: (usize, &Decision),
) {
    let live = (live.0, DecidedSide::of(live.1, &requests[live.0]), live.1.wall());
    let comparing = Arc::clone(beside);
    beside.finish(Box::pin(async move {
        let decided = deciding.await;
        comparing.report().compare_late(&requests, live, decided);
    }));
}

struct RunningBeside {
    beside: Arc<dyn Beside>,
    deciding: NowOrLater<'static, BesideDecision>,
}

/// The decisions of those beside, while the limiter in force decides the same requests.
struct RunningBesides {
    requests: Arc<[Request<'static>]>,
    running: Vec<RunningBeside>,
}

impl RunningBesides {
    fn poll(&mut self, context: &mut Context<'_>) {
        for RunningBeside { deciding, .. } in &mut self.running {
            if let NowOrLater::Later(later) = deciding
                && let Poll::Ready(decided) = later.as_mut().poll(context)
            {
                *deciding = NowOrLater::Now(decided);
            }
        }
    }

    /// Runs beside a decision, and returns that one as soon as it is made. What both ask `store` first may be one call.
    async fn beside<T: Send>(
        mut self,
        store: &impl Store,
        mut live: Later<'_, T>,
        decision: impl Fn(&T) -> Option<(usize, &Decision)> + Send,
    ) -> T {
        let decided = poll_fn(|context| {
            let mut polled = Poll::Pending;
            store.send_together(&mut || {
                // In this order, so that the call that somebody waits for is sent first.
                if polled.is_pending() {
                    polled = live.as_mut().poll(context);
                }
                self.poll(context);
            });
            polled
        })
        .await;
        if let Some(live) = decision(&decided) {
            self.compare(live);
        }
        decided
    }

    fn compare(self, live: (usize, &Decision)) {
        for RunningBeside { beside, deciding } in self.running {
            match deciding {
                NowOrLater::Now(decided) => beside.report().compare(&self.requests, live, decided),
                NowOrLater::Later(later) => finish_later(&beside, later, Arc::clone(&self.requests), live),
            }
        }
    }
}
