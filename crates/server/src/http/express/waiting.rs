//! A request of the express lane whose decision has to be waited for.

use std::task::{Context as Task, Poll, ready};

use tidegate::Later;
use tidegate::policy::{AdHocError, Decision};

use super::reply::Kind;
use crate::http::activity::UnderWay;

/// A decision, and how it is told.
#[derive(Debug)]
pub(super) struct Decided {
    pub(super) decision: Result<Decision, AdHocError>,
    pub(super) kind: Kind,
}

/// A decision that is not there yet. A place in a queue is given back when this is dropped.
pub(super) struct Waiting<'c> {
    decision: Later<'c, Result<Decision, AdHocError>>,
    kind: Kind,
    _under_way: UnderWay<'c>,
}

impl<'c> Waiting<'c> {
    pub(super) fn new(
        decision: Later<'c, Result<Decision, AdHocError>>,
        kind: Kind,
        under_way: UnderWay<'c>,
    ) -> Waiting<'c> {
        Waiting { decision, kind, _under_way: under_way }
    }

    pub(super) fn poll(&mut self, task: &mut Task<'_>) -> Poll<Decided> {
        let decision = ready!(self.decision.as_mut().poll(task));
        Poll::Ready(Decided { decision, kind: self.kind })
    }
}
