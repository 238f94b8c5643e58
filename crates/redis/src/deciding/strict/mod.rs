//! Charges several limits in one call to the server.
//!
//! The server answers the states that it found and what it did; the decisions are computed here from them, with core's
//! arithmetic. In a Cluster a call can only have keys of one slot: then there is one call for each slot, all at the
//! same time, and if one refuses, what the others took is handed back.

mod replay;
mod round;

use futures_util::future::join_all;
use smallvec::SmallVec;
use tidegate::{Charge, Cost, Intent, Limit, LimitDecision, Nanos, Verdict};

use crate::calls::{CALL_KEYS_MAX, CallVerb, Link, LinkError, State};
use crate::failures::StoreError;
use crate::registry::LimitRegistry;
pub(crate) use round::CallDraft;
use round::RoundAnswer;

/// The result of a request.
#[derive(Debug)]
pub(crate) struct StrictAnswer {
    /// The verdict; its `at` is the server's time, the earliest if there were several calls.
    pub(crate) verdict: Verdict,
    /// For each charge: the tokens that were leased beyond the cost.
    pub(crate) leased: SmallVec<[u32; 8]>,
    /// For each charge: the state of the limit after it.
    pub(crate) standings: Vec<LimitState>,
    /// How many stored values were no valid states.
    pub(crate) poisoned: u32,
    /// Was it refused only because other nodes kept changing a state that was being migrated?
    pub(crate) contended: bool,
}

impl StrictAnswer {
    /// The result of the one call that has all charges.
    fn of_all(result: RoundAnswer) -> StrictAnswer {
        let RoundAnswer { allowed, at, decisions, standings, leased, poisoned, contended, .. } = result;
        StrictAnswer { verdict: Verdict { allowed, decisions, at }, leased, standings, poisoned, contended }
    }
}

/// The numbers of a limit, and its state in these numbers.
#[derive(Clone, Debug)]
pub(crate) struct LimitState {
    pub(crate) limit: Limit,
    pub(crate) state: State,
    /// The instant of that state, by the clock of its server.
    pub(crate) at: Nanos,
}

/// A request to the server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StrictRequest<'a> {
    pub(crate) intent: Intent,
    pub(crate) charges: &'a [Charge<'a>],
    /// The tokens to lease beyond each cost; empty for none.
    pub(crate) wants: &'a [u32],
    /// For [`Intent::HandBack`].
    pub(crate) charged_at: Nanos,
    /// The server's time, if a test gives it.
    pub(crate) at: Option<Nanos>,
}

/// Returns whether there is time for one more call.
pub(crate) type DeadlineCheck<'a> = &'a (dyn Fn() -> bool + Sync);

/// Executes a request. After the first call, no call starts unless it is `in_time`, except for those that hand back
/// what some slots took. So the caller waits for the first call, and for at most two more: one that started just in
/// time, and one that hands back.
pub(crate) async fn execute<L: Link>(
    link: &L,
    registry: &LimitRegistry,
    draft: &mut CallDraft,
    in_time: DeadlineCheck<'_>,
) -> Result<StrictAnswer, StoreError> {
    if !link.has_slots() {
        return Ok(StrictAnswer::of_all(draft.send(link, registry, in_time).await?));
    }
    // Boxed, so that callers of a single server do not have to move it.
    Box::pin(execute_by_slot(link, registry, draft, in_time)).await
}

impl CallDraft {
    /// One call for a whole request.
    ///
    /// # Errors
    /// When it has too many limits.
    pub(crate) fn of(registry: &LimitRegistry, request: StrictRequest<'_>) -> Result<CallDraft, StoreError> {
        let StrictRequest { intent, charges, wants, charged_at, at } = request;
        if charges.len() > CALL_KEYS_MAX {
            let refused =
                format!("{} limits in one request; at most {CALL_KEYS_MAX} are possible", charges.len());
            return Err(LinkError::Refused(refused).into());
        }
        let verb = match intent {
            Intent::Take => CallVerb::Take,
            Intent::Peek => CallVerb::Peek,
            Intent::Refund | Intent::Reset => CallVerb::Refund,
            Intent::HandBack => CallVerb::HandBack,
        };
        let mut draft = CallDraft::new(registry, verb, charges, wants, charged_at, at);
        if intent == Intent::Reset {
            // More than anybody can have taken is given back.
            draft.call.entries.iter_mut().for_each(|entry| entry.cost = Cost::new(u32::MAX));
        }
        Ok(draft)
    }
}

/// Calls all slots of a request at the same time.
async fn execute_by_slot<L: Link>(
    link: &L,
    registry: &LimitRegistry,
    draft: &mut CallDraft,
    in_time: DeadlineCheck<'_>,
) -> Result<StrictAnswer, StoreError> {
    let charges = draft.parts.len();
    let mut groups = draft.by_tag();
    if let [only] = &mut groups[..] {
        return Ok(StrictAnswer::of_all(only.send(link, registry, in_time).await?));
    }
    let answers = join_all(groups.iter_mut().map(|group| group.send(link, registry, in_time))).await;
    let (mut result, mut failure) = (Vec::with_capacity(answers.len()), None);
    for (group, answer) in groups.into_iter().zip(answers) {
        match answer {
            Ok(answer) => result.push((group, answer)),
            Err(error) => failure = Some(error),
        }
    }
    if failure.is_some() || result.iter().any(|(_, result)| !result.allowed) {
        let mut undone: Vec<CallDraft> =
            result.iter().filter_map(|(group, result)| group.undo(result)).collect();
        // A slot that cannot be called now keeps the charge: for a while that admits too little, never too much.
        join_all(undone.iter_mut().map(|back| back.send(link, registry, in_time))).await;
        result.iter_mut().for_each(|(_, result)| result.revert());
    }
    match failure {
        Some(error) => Err(error),
        None => Ok(merged(charges, result)),
    }
}

/// Merges the answers of several slots, in the order of the charges.
fn merged(charges: usize, groups: Vec<(CallDraft, RoundAnswer)>) -> StrictAnswer {
    let mut decisions: SmallVec<[Option<LimitDecision>; 8]> = SmallVec::from_elem(None, charges);
    let mut standings: Vec<Option<LimitState>> = vec![None; charges];
    let mut leased: SmallVec<[u32; 8]> = SmallVec::from_elem(0, charges);
    let (mut allowed, mut at, mut poisoned, mut contended) = (true, Nanos::MAX, 0, false);
    for (group, result) in groups {
        allowed &= result.allowed;
        // The earliest instant: the older a charge, the less of it is handed back.
        at = at.min(result.at);
        contended |= result.contended;
        poisoned += result.poisoned;
        let parts = result.decisions.into_iter().zip(result.standings).zip(result.leased);
        for (index, ((decision, standing), granted)) in group.indices().zip(parts) {
            (decisions[index], standings[index], leased[index]) = (Some(decision), Some(standing), granted);
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
    }
}

#[cfg(test)]
mod tests;
