//! Tokens that were paid for together, and live as long as each other.

use tidegate::Nanos;

/// What one ask has brought.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Parcel {
    /// What is left of it.
    pub(super) left: u32,
    /// When it dies, by this node's clock: a life after the instant before it was asked for.
    pub(super) expires: Nanos,
    /// When it was taken from the bucket, by the server's clock.
    pub(super) granted_at: Nanos,
}

impl Parcel {
    /// What of it may be used.
    pub(super) fn alive(&self, now: Nanos) -> u32 {
        if now < self.expires { self.left } else { 0 }
    }
}

/// The parcels of a key: asked for half a life apart, so two at most are alive.
#[derive(Clone, Debug, Default)]
pub(super) struct Parcels {
    /// The older one first; it is used first.
    both: [Parcel; 2],
    /// When the last of those that came before them has died at the latest, by the server's clock.
    before_them: Nanos,
}

/// What was drawn, and from which parcels, told by when they die.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Drawn {
    from: [(u32, Nanos); 2],
}

impl Drawn {
    /// How many tokens that is.
    pub(crate) fn tokens(&self) -> u32 {
        self.from[0].0 + self.from[1].0
    }
}

impl Parcels {
    /// What may be used now.
    pub(super) fn alive(&self, now: Nanos) -> u32 {
        self.both.iter().fold(0, |sum, parcel| sum.saturating_add(parcel.alive(now)))
    }

    /// Takes as much of `cost` as there is.
    pub(super) fn draw(&mut self, cost: u32, now: Nanos) -> Drawn {
        let (mut drawn, mut missing) = (Drawn::default(), cost);
        for (parcel, from) in self.both.iter_mut().zip(&mut drawn.from) {
            let tokens = parcel.alive(now).min(missing);
            parcel.left -= tokens;
            missing -= tokens;
            *from = (tokens, parcel.expires);
        }
        drawn
    }

    /// Puts back what was drawn. What has died meanwhile stays dead.
    pub(super) fn put_back(&mut self, drawn: Drawn) {
        for (tokens, expires) in drawn.from.into_iter().filter(|(tokens, _)| *tokens > 0) {
            if let Some(parcel) = self.both.iter_mut().find(|parcel| parcel.expires == expires) {
                parcel.left = parcel.left.saturating_add(tokens);
            }
        }
    }

    /// Puts a charge back that was made at `charged_at` of the server's clock, if it surely was paid for no
    /// earlier than a parcel that is alive. Says whether it did.
    pub(super) fn absorb(&mut self, tokens: u32, charged_at: Nanos, life: Nanos, now: Nanos) -> bool {
        let mut older_dead = self.before_them;
        for parcel in &mut self.both {
            // Tokens are drawn from the oldest parcel that is alive: from this one only if those before were dead.
            let was_alive = charged_at >= older_dead && charged_at >= parcel.granted_at;
            if was_alive && now < parcel.expires {
                parcel.left = parcel.left.saturating_add(tokens);
                return true;
            }
            older_dead = older_dead.max(parcel.granted_at.saturating_add(life));
        }
        false
    }

    /// A new parcel has come. If the clock has it that both others are alive, the oldest is lost.
    pub(super) fn add(&mut self, parcel: Parcel, life: Nanos) {
        let gone = self.both[0];
        if gone.expires > Nanos::ZERO {
            self.before_them = self.before_them.max(gone.granted_at.saturating_add(life));
        }
        self.both = [self.both[1], parcel];
    }

    /// Takes out all that is alive, with the instants at which it was granted.
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

    /// Granted at once, by clocks that show the same.
    fn with(parcels: &[(u32, u64)]) -> Parcels {
        let mut all = Parcels::default();
        for &(left, granted) in parcels {
            all.add(Parcel { left, expires: at(granted + 100), granted_at: at(granted) }, LIFE);
        }
        all
    }

    #[test]
    fn the_older_is_used_first_and_neither_after_its_life() {
        let mut parcels = with(&[(3, 0), (5, 50)]);
        let drawn = parcels.draw(4, at(60));
        assert_eq!((drawn.tokens(), parcels.alive(at(60))), (4, 4));
        parcels.put_back(drawn);
        assert_eq!([99, 100, 149, 150].map(|nanos| parcels.alive(at(nanos))), [8, 5, 5, 0]);
        assert_eq!(parcels.draw(9, at(120)).tokens(), 5, "as much as there is");
    }

    #[test]
    fn what_is_handed_back_joins_nothing_younger_than_itself() {
        let join = |charged: u64, now: u64| {
            let mut parcels = with(&[(0, 0), (0, 50)]);
            parcels.absorb(1, at(charged), LIFE, at(now)).then(|| parcels.both.map(|parcel| parcel.left))
        };
        assert_eq!(join(20, 60), Some([1, 0]));
        assert_eq!(join(60, 70), Some([1, 0]), "perhaps from the older");
        assert_eq!(join(60, 110), None, "which is dead");
        assert_eq!(join(105, 110), Some([0, 1]), "and was when it was charged");
        assert_eq!(join(105, 150), None);
        let mut later = with(&[(0, 0), (0, 50), (0, 100)]);
        assert!(!later.absorb(1, at(90), LIFE, at(120)), "perhaps from one that is forgotten");
        assert!(later.absorb(1, at(100), LIFE, at(120)));
    }

    #[test]
    fn who_leaves_takes_out_what_is_alive() {
        let mut parcels = with(&[(3, 0), (5, 50)]);
        assert_eq!(parcels.take_all(at(100)).collect::<Vec<_>>(), [(5, at(50))]);
        assert_eq!(parcels.alive(at(0)), 0);
    }
}
