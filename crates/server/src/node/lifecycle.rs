//! The phase of the server (starting, serving, draining), and the problems of files that were reloaded.

use std::sync::{Mutex, PoisonError};

use tokio::sync::watch;

/// The phase of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Not all listeners are open yet.
    Starting,
    /// Requests are answered.
    Serving,
    /// Open requests are answered; load balancers should send new ones elsewhere.
    Draining,
}

/// A file, or pair of files, that is reloaded when it changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReloadedPart {
    /// The policy.
    Policy,
    /// The certificate and its key.
    Tls,
    /// The keys that tokens are verified with.
    Jwks,
    /// The API keys of clients.
    ApiKeys,
    /// What is known about accounts.
    Trust,
    /// The keys of the identity provider of the admin API.
    Oidc,
}

impl ReloadedPart {
    /// All of them.
    pub const ALL: [ReloadedPart; 6] = [
        ReloadedPart::Policy,
        ReloadedPart::Tls,
        ReloadedPart::Jwks,
        ReloadedPart::ApiKeys,
        ReloadedPart::Trust,
        ReloadedPart::Oidc,
    ];

    /// Its name in metrics and `/readyz`.
    pub const fn as_str(self) -> &'static str {
        match self {
            ReloadedPart::Policy => "policy",
            ReloadedPart::Tls => "tls",
            ReloadedPart::Jwks => "jwks",
            ReloadedPart::ApiKeys => "api_keys",
            ReloadedPart::Trust => "trust",
            ReloadedPart::Oidc => "oidc",
        }
    }
}

/// The phase and the reload problems, shared by all parts of the server.
#[derive(Debug)]
pub struct Lifecycle {
    phase: watch::Sender<Phase>,
    /// Should connections end?
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
    /// The current phase.
    pub fn phase(&self) -> Phase {
        *self.phase.borrow()
    }

    /// A receiver that sees each change of the phase.
    pub fn phases(&self) -> watch::Receiver<Phase> {
        self.phase.subscribe()
    }

    /// Enters a phase.
    pub fn enter(&self, phase: Phase) {
        self.phase.send_replace(phase);
    }

    /// Tells connections to end. Called some time after `Draining` began, so that load balancers have seen it.
    pub fn close(&self) {
        self.closing.send_replace(true);
    }

    /// Resolves when connections should end. The phase is `Draining` some time before, so that load balancers can
    /// switch to other nodes while new connections are still answered.
    pub async fn closing(&self) {
        let mut closing = self.closing.subscribe();
        // The sender lives in `self`, so this cannot fail.
        let _seen = closing.wait_for(|closing| *closing).await;
    }

    /// Sets what is wrong with the changed file while the previous one stays in force; `None` if nothing is.
    pub fn set_problem(&self, part: ReloadedPart, problem: Option<String>) {
        self.problems.lock().unwrap_or_else(PoisonError::into_inner)[part as usize] = problem;
    }

    /// What is wrong with the changed file.
    pub fn problem(&self, part: ReloadedPart) -> Option<String> {
        self.problems.lock().unwrap_or_else(PoisonError::into_inner)[part as usize].clone()
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
        assert_eq!(
            ReloadedPart::ALL.map(|part| lifecycle.problem(part)),
            [const { None }; ReloadedPart::ALL.len()]
        );
    }
}
