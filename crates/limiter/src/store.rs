//! The one thing a store does: charge several limits as one.

use std::fmt;
use std::sync::Arc;

use tidegate_core::{Carry, Limit, Nanos, QuotaError};

use crate::{Charge, Intent, NowOrLater, Verdict};

/// Keeps the state of limits and charges them.
///
/// There is one verb, and it is atomic: no reading and writing back, so that no
/// caller can build a race out of it. Every store passes the same conformance
/// suite (feature `testing`).
pub trait Store: Send + Sync {
    /// How it fails.
    type Error: std::error::Error + Send + Sync + 'static;

    /// Names limits, in their order. The state belongs to a name: naming it again
    /// with other numbers is an edit that takes effect at `now` and carries the
    /// tokens over as it says; naming it again with the same changes nothing.
    ///
    /// # Errors
    /// When the store can hold no more limits; then none of them was named.
    fn limits(&self, limits: &[NamedLimit<'_>], now: Nanos) -> Result<Vec<LimitRef>, LimitError>;

    /// Names one limit.
    ///
    /// # Errors
    /// When the store can hold no more limits.
    fn limit(&self, name: &str, limit: Limit, carry: Carry, now: Nanos) -> Result<LimitRef, LimitError> {
        let mut named = self.limits(&[NamedLimit { name, limit, carry, trusted: false }], now)?;
        Ok(named.pop().expect("one limit was named"))
    }

    /// The same limit, the same state, for somebody trusted by so many hundredths
    /// (see [`Limit::trusted`]); by none, the limit itself. Asking again gives
    /// the same answer, cheaply.
    ///
    /// A key that was last charged at one trust and is charged at another keeps
    /// its tokens, at most the new capacity, as of that charge; if nothing of it
    /// is used, nothing of it is used. An edit of the limit reaches keys at
    /// whatever trust they were charged. A denial leaves a key at the trust it is
    /// kept at, and the wait that it tells is long enough for that too.
    ///
    /// # Errors
    /// When the scaled numbers are out of range, or the store can hold no more.
    fn variant(&self, limit: &LimitRef, trust: u8) -> Result<LimitRef, LimitError>;

    /// Charges all limits or none. `now` is the caller's; a store that has a
    /// clock of its own, shared with others, goes by that one. For
    /// [`Intent::HandBack`] it is when the charges were made, and the store's
    /// own clock, if it is later, tells how long ago that is.
    ///
    /// Each call is answered at once where the store can, and otherwise by a future
    /// that owns what it needs of the charges. What has to be asked elsewhere is
    /// asked when that future is first polled.
    ///
    /// # Errors
    /// When the store cannot tell; then nothing may be assumed to be taken.
    fn charge(
        &self,
        intent: Intent,
        charges: &[Charge<'_>],
        now: Nanos,
    ) -> NowOrLater<'_, Result<Verdict, Self::Error>>;

    /// [`Intent::HandBack`] for those who cannot wait, such as who goes away while it waits: now, or as soon as
    /// the store comes to it. `at` is [`Verdict::at`] of the charges.
    fn hand_back(&self, charges: &[Charge<'_>], at: Nanos);

    /// How long until a bucket holds the cost of a charge, zero if it does at `now`, for those who have reserved in it and
    /// go in another order, or later: as if the `reserved` tokens, this charge's among them, were still in it. What runs
    /// over because nobody has fetched it is lost, and all that is reserved moves behind `now` by as much.
    ///
    /// `None` from stores that would have to wait or that others charge too, for limits that are no token buckets, and
    /// for those that have been edited since.
    /// [`Intent::Refund`] directly after it gives a reservation back.
    fn pace(&self, charge: &Charge<'_>, reserved: u64, now: Nanos) -> Option<Nanos> {
        let _ = (charge, reserved, now);
        None
    }

    /// A limit that nobody has named, whose state belongs to its numbers: for buckets that come with their
    /// numbers. `None` if the store keeps none of them; a shared one does.
    fn ad_hoc(&self, limit: Limit) -> Option<LimitRef> {
        let _ = limit;
        None
    }

    /// How many nodes share this store, as far as it knows; one that is not shared has one.
    fn nodes(&self) -> u32 {
        1
    }
}

/// A limit to be named.
#[derive(Clone, Copy, Debug)]
pub struct NamedLimit<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its numbers.
    pub limit: Limit,
    /// What an edit does with the tokens.
    pub carry: Carry,
    /// May its keys be trusted, now more and now less? Then a bucket that is full is
    /// kept until it would be full at any trust. Asking for a [`Store::variant`]
    /// says so too.
    pub trusted: bool,
}

/// A limit that a store knows; cheap to clone.
#[derive(Clone)]
pub struct LimitRef(Arc<Named>);

struct Named {
    name: Box<str>,
    limit: Limit,
    id: u32,
    trust: u8,
}

impl LimitRef {
    /// For stores: a limit under its name and the store's own number for it.
    pub fn new(name: &str, limit: Limit, id: u32) -> LimitRef {
        LimitRef(Arc::new(Named { name: name.into(), limit, id, trust: 0 }))
    }

    /// For stores: the same limit at some trust, with the numbers and the id that
    /// it has there.
    #[must_use]
    pub fn at_trust(&self, trust: u8, limit: Limit, id: u32) -> LimitRef {
        LimitRef(Arc::new(Named { name: self.0.name.clone(), limit, id, trust }))
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Its numbers, scaled by the trust.
    pub fn limit(&self) -> &Limit {
        &self.0.limit
    }

    /// The store's own number for it.
    pub fn id(&self) -> u32 {
        self.0.id
    }

    /// The trust that its numbers are scaled by, in hundredths.
    pub fn trust(&self) -> u8 {
        self.0.trust
    }
}

impl fmt::Debug for LimitRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LimitRef({}: {})", self.0.name, self.0.limit)
    }
}

/// Why a limit could not be named.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LimitError {
    /// The store is out of numbers.
    #[error(
        "a store holds at most {max} limits, every edit and every trust of one counted; use fewer, or a new store"
    )]
    TooMany {
        /// How many it holds.
        max: u32,
    },
    /// The limit cannot be scaled by that trust.
    #[error("the limit cannot be scaled by that trust: {0}")]
    Trust(#[from] QuotaError),
    /// A store that is shared by many nodes cannot count it exactly.
    #[error(
        "a store that nodes share cannot count the limit `{name}` exactly: {why}; give it a window in round numbers or a \
         shorter one, or keep limits on each node with `store.mode: local`"
    )]
    NotShared {
        /// Which limit.
        name: Box<str>,
        /// What of it cannot be counted.
        why: &'static str,
    },
}
