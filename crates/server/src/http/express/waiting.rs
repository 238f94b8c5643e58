//! A request of the express lane whose decision has to be waited for.

use std::task::{Context as Task, Poll, ready};

use tidegate::Later;
use tidegate::engine::{AdHocError, Decision};

use super::reply::ReplyAudience;
use crate::http::connection::activity::ActiveRequest;

/// A decision, and how it is told.
#[derive(Debug)]
pub(super) struct LaneDecision {
    pub(super) decision: Result<Decision, AdHocError>,
    pub(super) kind: ReplyAudience,
}

/// A decision that is not there yet. A place in a queue is given back when this is dropped.
pub(super) struct WaitingDecision<'c> {
    decision: Later<'c, Result<Decision, AdHocError>>,
    kind: ReplyAudience,
    _under_way: ActiveRequest<'c>,
}

impl<'c> WaitingDecision<'c> {
    pub(super) fn new(
        decision: Later<'c, Result<Decision, AdHocError>>,
        kind: ReplyAudience,
        under_way: ActiveRequest<'c>,
    ) -> WaitingDecision<'c> {
        WaitingDecision { decision, kind, _under_way: under_way }
    }

    pub(super) fn poll(&mut self, task: &mut Task<'_>) -> Poll<LaneDecision> {
        let decision = ready!(self.decision.as_mut().poll(task));
        Poll::Ready(LaneDecision { decision, kind: self.kind })
    }
}
