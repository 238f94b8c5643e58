//! Grants: tokens that one request has leased, and that expire together.

use tidegate::Nanos;

/// The tokens of one request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LeaseGrant {
    /// The unused tokens.
    pub(super) left: u32,
    /// When it expires, by this node's clock: one life after the instant before the request was sent.
    pub(super) expires: Nanos,
    /// When it was taken from the bucket, by the server's clock.
    pub(super) granted_at: Nanos,
}

impl LeaseGrant {
    /// The tokens that may be used.
    pub(super) fn alive(&self, now: Nanos) -> u32 {
        if now < self.expires { self.left } else { 0 }
    }
}

/// The grants of a key. Lease requests are at least half a life apart, so at most two grants are alive.
#[derive(Clone, Debug, Default)]
pub(super) struct LeaseGrants {
    /// The older one comes first, and is used first.
    both: [LeaseGrant; 2],
    /// By the server's clock: when all grants before these two have expired at the latest.
    forgotten_expiry: Nanos,
}

/// Drawn tokens, with the expiry of the grants that they came from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Drawn {
    from: [(u32, Nanos); 2],
}

impl Drawn {
    /// The number of tokens.
    pub(crate) fn tokens(&self) -> u32 {
        self.from[0].0 + self.from[1].0
    }
}

impl LeaseGrants {
    /// The tokens that may be used now.
    pub(super) fn alive(&self, now: Nanos) -> u32 {
        self.both.iter().fold(0, |sum, grant| sum.saturating_add(grant.alive(now)))
    }

    /// Draws as much of `cost` as there is.
    pub(super) fn draw(&mut self, cost: u32, now: Nanos) -> Drawn {
        let (mut drawn, mut tracking_losses) = (Drawn::default(), cost);
        for (grant, from) in self.both.iter_mut().zip(&mut drawn.from) {
            let tokens = grant.alive(now).min(tracking_losses);
            grant.left -= tokens;
            tracking_losses -= tokens;
            *from = (tokens, grant.expires);
        }
        drawn
    }

    /// Returns drawn tokens. Those whose grant has expired meanwhile stay unusable.
    pub(super) fn put_back(&mut self, drawn: Drawn) {
        for (tokens, expires) in drawn.from.into_iter().filter(|(tokens, _)| *tokens > 0) {
            if let Some(grant) = self.both.iter_mut().find(|grant| grant.expires == expires) {
                grant.left = grant.left.saturating_add(tokens);
            }
        }
    }

    /// Takes back a charge that was made at `charged_at` by the server's clock, if its tokens were certainly granted no
    /// earlier than a live grant, which they join. Returns whether it did.
    pub(super) fn absorb(&mut self, tokens: u32, charged_at: Nanos, life: Nanos, now: Nanos) -> bool {
        let mut older_dead = self.forgotten_expiry;
        for grant in &mut self.both {
            // Tokens are drawn from the oldest live grant: from this one only if all before it had expired.
            let was_alive = charged_at >= older_dead && charged_at >= grant.granted_at;
            if was_alive && now < grant.expires {
                grant.left = grant.left.saturating_add(tokens);
                return true;
            }
            older_dead = older_dead.max(grant.granted_at.saturating_add(life));
        }
        false
    }

    /// Adds a grant. If both others are still alive, the oldest is lost.
    pub(super) fn add(&mut self, grant: LeaseGrant, life: Nanos) {
        let gone = self.both[0];
        if gone.expires > Nanos::ZERO {
            self.forgotten_expiry = self.forgotten_expiry.max(gone.granted_at.saturating_add(life));
        }
        self.both = [self.both[1], grant];
    }

    /// Removes all live tokens, with the instants of their grants.
    pub(super) fn take_all(&mut self, now: Nanos) -> impl Iterator<Item = (u32, Nanos)> {
        let both = std::mem::take(self).both;
        both.into_iter().map(move |p| (p.alive(now), p.granted_at)).filter(|(tokens, _)| *tokens > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIFE: Nanos = Nanos::new(100);

    fn at(nanos: u64) -> Nanos {
        Nanos::new(1_000 + nanos)
    }

    /// Grants without a delay, and with equal clocks.
    fn with(grants: &[(u32, u64)]) -> LeaseGrants {
        let mut all = LeaseGrants::default();
        for &(left, granted) in grants {
            all.add(LeaseGrant { left, expires: at(granted + 100), granted_at: at(granted) }, LIFE);
        }
        all
    }

    #[test]
    fn the_older_is_used_first_and_neither_after_its_life() {
        let mut grants = with(&[(3, 0), (5, 50)]);
        let drawn = grants.draw(4, at(60));
        assert_eq!((drawn.tokens(), grants.alive(at(60))), (4, 4));
        grants.put_back(drawn);
        assert_eq!([99, 100, 149, 150].map(|nanos| grants.alive(at(nanos))), [8, 5, 5, 0]);
        assert_eq!(grants.draw(9, at(120)).tokens(), 5, "as much as there is");
    }

    #[test]
    fn what_is_handed_back_joins_nothing_younger_than_itself() {
        let join = |charged: u64, now: u64| {
            let mut grants = with(&[(0, 0), (0, 50)]);
            grants.absorb(1, at(charged), LIFE, at(now)).then(|| grants.both.map(|grant| grant.left))
        };
        assert_eq!(join(20, 60), Some([1, 0]));
        assert_eq!(join(60, 70), Some([1, 0]), "perhaps drawn from the older grant");
        assert_eq!(join(60, 110), None, "the older grant has expired");
        assert_eq!(join(105, 110), Some([0, 1]), "the older grant had expired before the charge");
        assert_eq!(join(105, 150), None);
        let mut later = with(&[(0, 0), (0, 50), (0, 100)]);
        assert!(!later.absorb(1, at(90), LIFE, at(120)), "perhaps drawn from a forgotten grant");
        assert!(later.absorb(1, at(100), LIFE, at(120)));
    }

    #[test]
    fn who_leaves_takes_out_what_is_alive() {
        let mut grants = with(&[(3, 0), (5, 50)]);
        assert_eq!(grants.take_all(at(100)).collect::<Vec<_>>(), [(5, at(50))]);
        assert_eq!(grants.alive(at(0)), 0);
    }
}
