//! A request of the express lane that waits for its decision.

use std::task::{Context as Task, Poll, ready};

use tidegate::Later;
use tidegate::engine::{AdHocError, Decision};

use super::reply::ReplyAudience;
use crate::http::connection::activity::ActiveRequest;

/// A decision, and for whom the response is.
#[derive(Debug)]
pub(super) struct LaneDecision {
    pub(super) decision: Result<Decision, AdHocError>,
    pub(super) audience: ReplyAudience,
}

/// A decision that waits for the store or in a wait queue. Dropping it gives the queue slot back.
pub(super) struct WaitingDecision<'c> {
    decision: Later<'c, Result<Decision, AdHocError>>,
    audience: ReplyAudience,
    _in_flight: ActiveRequest<'c>,
}

impl<'c> WaitingDecision<'c> {
    pub(super) fn new(
        decision: Later<'c, Result<Decision, AdHocError>>,
        audience: ReplyAudience,
        in_flight: ActiveRequest<'c>,
    ) -> WaitingDecision<'c> {
        WaitingDecision { decision, audience, _in_flight: in_flight }
    }

    pub(super) fn poll(&mut self, task: &mut Task<'_>) -> Poll<LaneDecision> {
        let decision = ready!(self.decision.as_mut().poll(task));
        Poll::Ready(LaneDecision { decision, audience: self.audience })
    }
}
