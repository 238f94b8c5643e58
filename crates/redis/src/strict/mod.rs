//! One question about several limits, put to the server in one call.
//!
//! The server says what it found and what it did; what that means is worked out here, by the arithmetic of core.
//! Where keys are spread over slots, a call can be about one slot only: the limits of each are asked together and
//! all slots at once, and what was taken from some is handed back if others refuse.

mod replay;
mod round;

use futures_util::future::join_all;
use smallvec::SmallVec;
use tidegate::{Charge, Intent, Limit, LimitDecision, Nanos, Verdict};

use crate::errors::StoreError;
use crate::link::{CallVerb, Link, LinkError, State};
use crate::registry::LimitRegistry;
use round::{CallDraft, RoundAnswer};

/// More limits than a request has by far: a script takes no more keys.
const ENTRIES_MAX: usize = 4_000;

/// What came of asking.
#[derive(Debug)]
pub(crate) struct StrictAnswer {
    /// The verdict; its `at` is the server's now, the earliest if there are several.
    pub(crate) verdict: Verdict,
    /// How many tokens were leased beyond each cost.
    pub(crate) leased: SmallVec<[u32; 8]>,
    /// Where each limit stands after it.
    pub(crate) standings: SmallVec<[LimitState; 8]>,
    /// How many stored values were no states.
    pub(crate) poisoned: u32,
    /// Was it refused only since others kept changing what was being brought up?
    pub(crate) contended: bool,
    /// How many calls that took.
    pub(crate) calls: u32,
}

/// Where a limit stands: its numbers, and its state under them.
#[derive(Clone, Debug)]
pub(crate) struct LimitState {
    pub(crate) limit: Limit,
    pub(crate) state: State,
    /// When that was so, by the clock of the server that has it.
    pub(crate) at: Nanos,
}

/// What is asked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StrictRequest<'a> {
    pub(crate) intent: Intent,
    pub(crate) charges: &'a [Charge<'a>],
    /// The tokens to lease beyond each cost, or none at all.
    pub(crate) wants: &'a [u32],
    /// For [`Intent::HandBack`].
    pub(crate) charged_at: Nanos,
    /// The server's now, where a test says so.
    pub(crate) at: Option<Nanos>,
}

/// Is there time for one more call?
pub(crate) type DeadlineCheck<'a> = &'a (dyn Fn() -> bool + Sync);

/// Asks. No call but the first is begun unless it is `in_time`, except for those that hand back what was taken from
/// some slots: whoever asks waits for the first call, and at most two more that were begun just in time or hand
/// back.
pub(crate) async fn ask<L: Link>(
    link: &L,
    registry: &LimitRegistry,
    question: StrictRequest<'_>,
    in_time: DeadlineCheck<'_>,
) -> Result<StrictAnswer, StoreError> {
    let StrictRequest { intent, charges, wants, charged_at, at } = question;
    if charges.len() > ENTRIES_MAX {
        let refused = format!("{} limits in one request, at most {ENTRIES_MAX} are asked", charges.len());
        return Err(LinkError::Refused(refused).into());
    }
    let verb = match intent {
        Intent::Take => CallVerb::Take,
        Intent::Peek => CallVerb::Peek,
        Intent::Refund => CallVerb::Refund,
        Intent::HandBack => CallVerb::HandBack,
    };
    let asking = CallDraft::new(registry, verb, charges, wants, charged_at, at);
    let mut groups = if link.has_slots() { asking.by_tag() } else { vec![asking] };
    if groups.len() == 1 {
        let group = groups.pop().expect("there is one");
        let (group, told) = group.ask(link, registry, in_time).await?;
        return Ok(merged(charges.len(), vec![(group, told)], 0));
    }
    ask_slots(link, registry, charges.len(), groups, in_time).await
}

/// Asks the slots of a request at once.
async fn ask_slots<L: Link>(
    link: &L,
    registry: &LimitRegistry,
    charges: usize,
    groups: Vec<CallDraft>,
    in_time: DeadlineCheck<'_>,
) -> Result<StrictAnswer, StoreError> {
    let asked = join_all(groups.into_iter().map(|group| group.ask(link, registry, in_time))).await;
    let (mut told, mut failure) = (Vec::with_capacity(asked.len()), None);
    for answer in asked {
        match answer {
            Ok(answer) => told.push(answer),
            Err(error) => failure = Some(error),
        }
    }
    let mut calls = 0;
    if failure.is_some() || told.iter().any(|(_, told)| !told.allowed) {
        let undone = told.iter().filter_map(|(group, told)| group.undo(told));
        // Who cannot be handed back to now keeps the charge: that denies too much, for a while, and never too little.
        let backs = join_all(undone.map(|back| back.ask(link, registry, in_time))).await;
        calls = backs.iter().flatten().map(|(_, told)| told.calls).sum();
        told.iter_mut().for_each(|(_, told)| told.take_back());
    }
    match failure {
        Some(error) => Err(error),
        None => Ok(merged(charges, told, calls)),
    }
}

/// What several slots said, in the order of the charges.
fn merged(charges: usize, groups: Vec<(CallDraft, RoundAnswer)>, mut calls: u32) -> StrictAnswer {
    let mut decisions: SmallVec<[Option<LimitDecision>; 8]> = SmallVec::from_elem(None, charges);
    let mut standings: SmallVec<[Option<LimitState>; 8]> = SmallVec::from_elem(None, charges);
    let mut leased: SmallVec<[u32; 8]> = SmallVec::from_elem(0, charges);
    let (mut allowed, mut at, mut poisoned, mut contended) = (true, Nanos::MAX, 0, false);
    for (group, told) in groups {
        allowed &= told.allowed;
        // The earlier a charge is told to be, the less of it is given back.
        at = at.min(told.at);
        contended |= told.contended;
        poisoned += told.poisoned;
        calls += told.calls;
        let said = told.decisions.into_iter().zip(told.standings).zip(told.leased);
        for (place, ((decision, standing), granted)) in group.places().zip(said) {
            (decisions[place], standings[place], leased[place]) = (Some(decision), Some(standing), granted);
        }
    }
    let decisions = decisions.into_iter().map(|decision| decision.expect("every charge is in a group"));
    let standings = standings.into_iter().map(|standing| standing.expect("every charge is in a group"));
    StrictAnswer {
        verdict: Verdict { allowed, decisions: decisions.collect(), at },
        leased,
        standings: standings.collect(),
        poisoned,
        contended,
        calls,
    }
}

#[cfg(test)]
mod tests;
