//! How one of two policies decided a request.

use tidegate_policy::{Descriptor, Request};

use crate::engine::bursts::late::shown_key;
use crate::engine::decision::{Decision, Refuser};
use crate::engine::reason::Reason;

/// How one of two policies decided a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecidedSide {
    /// Is the request admitted?
    pub allowed: bool,
    /// Why.
    pub reason: Reason,
    /// What denied it: the name of a limit or a detector, or `block`; otherwise the reason.
    pub rule: Option<Box<str>>,
    /// The key of that limit or detector, for people, without secrets.
    pub key: Option<Box<str>>,
    /// Was it decided without the store?
    pub without_store: bool,
}

impl DecidedSide {
    /// What a decision says about a request.
    pub(crate) fn of(decision: &Decision, request: &Request<'_>) -> DecidedSide {
        DecidedSide {
            allowed: decision.is_allowed(),
            reason: decision.reason(),
            rule: decision.violated_rule().map(Box::from),
            key: refusing_key(decision).map(|key| shown_key(&decision.rules().facts(request), key).into()),
            without_store: decision.without_store(),
        }
    }
}

/// The key of the limit or detector that denied.
fn refusing_key(decision: &Decision) -> Option<&[Descriptor]> {
    match decision.ruling().refuser? {
        Refuser::Rule(number) => Some(&decision.rules().rule(number).key),
        Refuser::Detector(number) => Some(&decision.rules().detectors()[number as usize].key),
        Refuser::Block | Refuser::Credentials | Refuser::UnknownKey | Refuser::UnknownTenant => None,
    }
}
