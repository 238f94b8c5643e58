//! The leased tokens that a request under way has drawn.

use tidegate::{Charge, Cost, Nanos};

use super::{Drawn, Leases};
use crate::deciding::recent_keys::KeyHash;

/// What a request has drawn from leases, and the lease requests that it has begun. If the server does not answer, or
/// the caller stops waiting, dropping this returns everything.
pub(crate) struct DrawnLeases<'a> {
    leases: Option<&'a Leases>,
    sent: Nanos,
    drawn: Vec<(KeyHash, Drawn)>,
    begun: Vec<KeyHash>,
}

impl<'a> DrawnLeases<'a> {
    pub(crate) fn new(leases: Option<&'a Leases>, sent: Nanos) -> DrawnLeases<'a> {
        DrawnLeases { leases, sent, drawn: Vec::new(), begun: Vec::new() }
    }

    /// Holds what was drawn until the request is decided.
    pub(crate) fn hold(&mut self, hash: KeyHash, drawn: Drawn) {
        if let Some(leases) = self.leases.filter(|_| drawn.tokens() > 0) {
            leases.hold(hash, drawn);
            self.drawn.push((hash, drawn));
        }
    }

    /// Begins a lease request: how many tokens to want.
    pub(crate) fn begin(
        &mut self,
        hash: KeyHash,
        charge: &Charge<'_>,
        promised: impl FnOnce() -> Option<Nanos>,
    ) -> u32 {
        let Some(leases) = self.leases.filter(|_| charge.cost > Cost::ZERO) else { return 0 };
        let want = leases.begin(hash, charge, self.sent, promised);
        if want > 0 {
            self.begun.push(hash);
        }
        want
    }

    /// The server has answered; the caller passes the answer on to the leases.
    pub(crate) fn answered(&mut self) {
        self.begun.clear();
    }

    /// The request is admitted.
    pub(crate) fn used(mut self) {
        if let Some(leases) = self.leases {
            self.drawn.drain(..).for_each(|(hash, drawn)| leases.release(hash, drawn));
        }
    }
}

impl Drop for DrawnLeases<'_> {
    fn drop(&mut self) {
        if let Some(leases) = self.leases {
            self.drawn.iter().for_each(|&(hash, drawn)| leases.put_back(hash, drawn, true));
            self.begun.iter().for_each(|&hash| leases.failed(hash, self.sent));
        }
    }
}
