//! The types that the layer reads from, and adds to, the extensions of requests and responses.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tidegate::engine::{Decision, Reason};

/// The peer address of the connection. Servers insert it into the extensions of each request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PeerAddr(pub SocketAddr);

/// The tag of a request that exceeded a limit with the strategy `degrade`: the handler may give a cheaper response.
/// Only such requests have it in their extensions.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Degraded(pub Arc<str>);

/// The decision, in the extensions of every request that reaches the inner service and of every response.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RateLimitInfo {
    /// Was the request admitted?
    pub allowed: bool,
    /// The reason for the decision.
    pub reason: Reason,
    /// The tightest limit, if any applies.
    pub tightest: Option<Tightest>,
    /// How long the request waited in a queue.
    pub queued: Option<Duration>,
}

/// The tightest limit after a decision: if the request is refused, the limit with the longest wait; if it is admitted,
/// the limit with the smallest fraction of its tokens left.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tightest {
    /// Its name.
    pub name: Arc<str>,
    /// Its capacity, or its limit per window.
    pub limit: u32,
    /// How much of it is left.
    pub remaining: u32,
    /// How long until it is full again.
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

    /// Should the client get the headers of this decision rather than those of `other`? A refusal takes
    /// precedence over an admission; of two of the same kind, the smaller remaining fraction does.
    pub(crate) fn is_tighter_than(&self, other: &RateLimitInfo) -> bool {
        // Compares the fractions by cross-multiplying.
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

    fn info(allowed: bool, numbers: Option<(u32, u32)>) -> RateLimitInfo {
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
        let ordered =
            [info(false, None), info(true, Some((1, 10))), info(true, Some((300, 1_000))), info(true, None)];
        for (index, tighter) in ordered.iter().enumerate() {
            assert!(!tighter.is_tighter_than(tighter));
            for looser in &ordered[index + 1..] {
                assert!(tighter.is_tighter_than(looser), "{tighter:?} {looser:?}");
                assert!(!looser.is_tighter_than(tighter), "{tighter:?} {looser:?}");
            }
        }
    }
}
