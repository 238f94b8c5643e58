//! The deliberate mistakes of the server and of the links to it.

use tidegate_core::{Cost, Limit, Meter, Nanos};
use tidegate_redis::{
    BucketEntry, BurstAnswer, BurstCall, CallAnswer, CallOutcome, CallVerb, FoundState, ScriptCall, State,
};

use crate::Network;
use crate::model::{Model, OutOfMemory};
use crate::scenario::sabotage::Sabotage;

/// How much later a reset is repeated: long enough that clients have used what the first one gave.
const REPEATED_AFTER: Nanos = Nanos::from_millis(150);

/// Executes a call on the server.
pub(super) fn call(
    sabotage: Option<Sabotage>,
    model: &mut Model,
    call: &ScriptCall,
    at: Nanos,
) -> Result<CallAnswer, OutOfMemory> {
    match sabotage {
        Some(Sabotage::GrantsDouble) if is_grant(call) => model.call(&with_double_costs(call), at),
        Some(Sabotage::RenumbersToFull) => model.call(&renumbered_to_full(call), at),
        Some(Sabotage::TakesTwice) if call.verb == CallVerb::Take => {
            let answer = model.call(call, at);
            // If it does not fit once more, it is taken once.
            let _ = model.call(call, at);
            answer
        }
        _ => model.call(call, at),
    }
}

/// Counts requests in the server's burst detectors.
pub(super) fn count_bursts(
    sabotage: Option<Sabotage>,
    model: &mut Model,
    call: &BurstCall,
    at: Nanos,
) -> Result<Vec<BurstAnswer>, OutOfMemory> {
    match sabotage {
        Some(Sabotage::CountsTwice) => model.count_bursts(&doubled(call), at),
        _ => model.count_bursts(call, at),
    }
}

/// Does the link send a call twice?
pub(super) fn is_sent_twice(sabotage: Option<Sabotage>, call: &ScriptCall) -> bool {
    sabotage == Some(Sabotage::ActsTwice) && call.verb == CallVerb::Refund
}

/// Does the server execute a call once more, some time later?
pub(super) fn is_repeated_later(sabotage: Option<Sabotage>, call: &ScriptCall) -> bool {
    sabotage == Some(Sabotage::ResetsAgain) && call.verb == CallVerb::Refund && !is_grant(call)
}

/// The answer as a node hears it.
pub(super) fn heard(network: &Network, call: &ScriptCall, answer: CallAnswer) -> CallAnswer {
    let is_misheard = network.sabotage == Some(Sabotage::CandidateUnheard)
        && (call.verb, answer.outcome) == (CallVerb::Take, CallOutcome::Done)
        && call.entries.iter().all(|entry| network.record.is_of_candidate(&entry.key));
    if is_misheard { as_refused(call, answer) } else { answer }
}

/// The answer of a server whose token buckets are all empty; as it is if there are others.
fn as_refused(call: &ScriptCall, answer: CallAnswer) -> CallAnswer {
    let empty = |entry: &BucketEntry| match &entry.limit {
        Limit::Meter(meter @ Meter::TokenBucket(quota)) => {
            let word = meter.charge(0, Cost::new(quota.capacity()), answer.at)?;
            Some(FoundState::Here(State::Word(word)))
        }
        _ => None,
    };
    match call.entries.iter().map(empty).collect() {
        Some(found) => CallAnswer { found, outcome: CallOutcome::Refused, ..answer },
        None => answer,
    }
}

impl Network {
    /// Executes a call once more on the server after a while, without a record of it.
    pub(super) fn repeat_later(&self, call: Box<ScriptCall>) {
        let network = self.clone();
        self.world.after(REPEATED_AFTER, move || {
            let now = network.world.now();
            // A server that is out of memory does not do it: that is no mistake then.
            let _ = network.with_model(|model| model.call(&call, now));
        });
    }
}

/// A reset gives back more than anybody can have taken; a grant names its tokens.
fn is_grant(call: &ScriptCall) -> bool {
    call.verb == CallVerb::Refund && call.entries.iter().all(|entry| entry.cost < Cost::new(u32::MAX))
}

fn with_double_costs(call: &ScriptCall) -> ScriptCall {
    let mut call = call.clone();
    call.entries.iter_mut().for_each(|entry| entry.cost = Cost::new(entry.cost.get().saturating_mul(2)));
    call
}

/// A call that brings the tokens of an unused bucket in other numbers.
fn renumbered_to_full(call: &ScriptCall) -> ScriptCall {
    let mut call = call.clone();
    for (_, state) in call.entries.iter_mut().filter_map(|entry| entry.migrated.as_deref_mut()) {
        if let State::Word(word) = state {
            *word = 0;
        }
    }
    call
}

/// A call with every count twice.
fn doubled(call: &BurstCall) -> BurstCall {
    let mut call = call.clone();
    let counts = call.entries.iter_mut().flat_map(|entry| entry.counts.iter_mut());
    counts.for_each(|(_, requests)| *requests *= 2);
    call
}
