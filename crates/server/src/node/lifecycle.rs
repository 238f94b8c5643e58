//! Starting, serving, draining: where the server is in its life, and what is wrong with it.

use std::sync::{Mutex, PoisonError};

use tokio::sync::watch;

/// Where the server is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Not all listeners are open yet.
    Starting,
    /// Requests are answered.
    Serving,
    /// Requests under way are answered; new ones should go elsewhere.
    Draining,
}

/// Something that is read again when it changes, and that may then be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReloadedPart {
    /// The policy.
    Policy,
    /// The certificate and its key.
    Tls,
    /// The keys that tokens are verified with.
    Jwks,
}

impl ReloadedPart {
    /// All of them.
    pub const ALL: [ReloadedPart; 3] = [ReloadedPart::Policy, ReloadedPart::Tls, ReloadedPart::Jwks];

    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            ReloadedPart::Policy => "policy",
            ReloadedPart::Tls => "tls",
            ReloadedPart::Jwks => "jwks",
        }
    }
}

/// Where the server is, for everybody who must know.
#[derive(Debug)]
pub struct Lifecycle {
    phase: watch::Sender<Phase>,
    /// Are connections asked to end?
    closing: watch::Sender<bool>,
    problems: Mutex<[Option<String>; ReloadedPart::ALL.len()]>,
}

impl Default for Lifecycle {
    fn default() -> Lifecycle {
        let (phase, closing) = (watch::Sender::new(Phase::Starting), watch::Sender::new(false));
        Lifecycle { phase, closing, problems: Mutex::default() }
    }
}

impl Lifecycle {
    /// Where it is now.
    pub fn phase(&self) -> Phase {
        *self.phase.borrow()
    }

    /// Where it is, as it changes.
    pub fn phases(&self) -> watch::Receiver<Phase> {
        self.phase.subscribe()
    }

    /// It goes on to the next phase.
    pub fn enter(&self, phase: Phase) {
        self.phase.send_replace(phase);
    }

    /// Asks connections to end: once enough time has passed for load balancers to see that it drains.
    pub fn close(&self) {
        self.closing.send_replace(true);
    }

    /// Resolves when connections are asked to end. The phase is `Draining` a moment before, so that load
    /// balancers can look elsewhere while new connections are still answered.
    pub async fn closing(&self) {
        let mut closing = self.closing.subscribe();
        // The sender is in `self`, so it is there.
        let _seen = closing.wait_for(|closing| *closing).await;
    }

    /// What is wrong with the newest of something, if what was there before is still in force; `None` when
    /// it is well.
    pub fn set_problem(&self, concern: ReloadedPart, problem: Option<String>) {
        self.problems.lock().unwrap_or_else(PoisonError::into_inner)[concern as usize] = problem;
    }

    /// What is wrong with the newest of something.
    pub fn problem(&self, concern: ReloadedPart) -> Option<String> {
        self.problems.lock().unwrap_or_else(PoisonError::into_inner)[concern as usize].clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn connections_are_asked_to_end_after_the_phase_has_changed() {
        let lifecycle = Lifecycle::default();
        assert_eq!(lifecycle.phase(), Phase::Starting);
        lifecycle.enter(Phase::Draining);
        let waiting = tokio::time::timeout(std::time::Duration::ZERO, lifecycle.closing()).await;
        assert!(waiting.is_err(), "not yet");
        lifecycle.close();
        lifecycle.closing().await;
    }

    #[test]
    fn problems_are_kept_apart() {
        let lifecycle = Lifecycle::default();
        lifecycle.set_problem(ReloadedPart::Tls, Some("the key is of another certificate".into()));
        assert_eq!(lifecycle.problem(ReloadedPart::Policy), None);
        assert!(lifecycle.problem(ReloadedPart::Tls).is_some());
        lifecycle.set_problem(ReloadedPart::Tls, None);
        assert_eq!(ReloadedPart::ALL.map(|concern| lifecycle.problem(concern)), [None, None, None]);
    }
}
