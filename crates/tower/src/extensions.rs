//! What the layer reads from a request's extensions, and what it leaves there and
//! in those of the response.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tidegate::engine::{Decision, Reason};

/// The address that a connection came from, for servers that do not tell it in a
/// way of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PeerAddr(pub SocketAddr);

/// The mark of a request that exceeded a limit whose strategy is `degrade`: the
/// handler may give a cheaper answer. It is in the request's extensions, only if
/// the request is marked.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Degraded(pub Arc<str>);

/// What was decided, in the extensions of every request that reaches the inner
/// service, and in those of every response.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RateLimitInfo {
    /// Was the request admitted?
    pub allowed: bool,
    /// Why.
    pub reason: Reason,
    /// The limit that speaks for all, if any applies.
    pub tightest: Option<Tightest>,
    /// How long the request waited in a queue.
    pub queued: Option<Duration>,
}

/// The tightest limit after a decision: when denied the one with the longest
/// wait, when allowed the one with the smallest share remaining.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tightest {
    /// Its name.
    pub name: Arc<str>,
    /// Its capacity, or its limit per window.
    pub limit: u32,
    /// What is left of it.
    pub remaining: u32,
    /// How long until all of it is back.
    pub reset_after: Duration,
}

impl RateLimitInfo {
    pub(crate) fn of(decision: &Decision) -> RateLimitInfo {
        RateLimitInfo {
            allowed: decision.is_allowed(),
            reason: decision.reason(),
            tightest: decision.tightest().map(|limit| Tightest {
                name: Arc::from(&*limit.rule.name),
                limit: limit.decision.limit,
                remaining: limit.decision.remaining,
                reset_after: limit.decision.reset_after.into(),
            }),
            queued: decision.queued(),
        }
    }

    /// Is this what a client should be told, rather than `other`? A refusal
    /// before anything else, then the smaller share that remains.
    pub(crate) fn is_tighter_than(&self, other: &RateLimitInfo) -> bool {
        let share = |of: &Tightest, by: &Tightest| u64::from(of.remaining) * u64::from(by.limit);
        match (&self.tightest, &other.tightest) {
            _ if self.allowed != other.allowed => other.allowed,
            (Some(own), Some(its)) => share(own, its) < share(its, own),
            (own, its) => own.is_some() && its.is_none(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn standing(allowed: bool, numbers: Option<(u32, u32)>) -> RateLimitInfo {
        let tightest = numbers.map(|(remaining, limit)| Tightest {
            name: "limit".into(),
            limit,
            remaining,
            reset_after: Duration::from_secs(1),
        });
        RateLimitInfo { allowed, reason: Reason::Ok, tightest, queued: None }
    }

    #[test]
    fn refusals_come_first_then_the_smaller_share() {
        let ordered = [
            standing(false, None),
            standing(true, Some((1, 10))),
            standing(true, Some((300, 1_000))),
            standing(true, None),
        ];
        for (place, tighter) in ordered.iter().enumerate() {
            assert!(!tighter.is_tighter_than(tighter));
            for looser in &ordered[place + 1..] {
                assert!(tighter.is_tighter_than(looser), "{tighter:?} {looser:?}");
                assert!(!looser.is_tighter_than(tighter), "{tighter:?} {looser:?}");
            }
        }
    }
}
