//! The trait of all stores, with one operation: charge several limits as one.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use tidegate_core::{Carry, Limit, LimitVariant, Nanos, OverrideNumbers, QuotaError};

use crate::history::LimitVersion;
use crate::{Charge, Intent, NowOrLater, SharedBursts, Verdict};

/// Stores the state of limits and charges them.
///
/// The only operation is atomic: there is no get or set from which a caller could build a race. Every store
/// passes the same conformance suite (feature `testing`).
pub trait Store: Send + Sync {
    /// The error of a store that cannot be reached or does not answer.
    type Error: std::error::Error + Send + Sync + 'static;

    /// Registers limits, in order. The state belongs to the name: registering a name again with other numbers
    /// is an edit, which takes effect at `now` and carries the tokens over as [`NamedLimit::carry`] says;
    /// registering it again with the same numbers changes nothing.
    ///
    /// # Errors
    /// The store cannot hold that many limits; then none of them was registered.
    fn limits(&self, limits: &[NamedLimit<'_>], now: Nanos) -> Result<Vec<LimitRef>, LimitError>;

    /// Could the store count and hold these limits? Nothing is registered or edited. By default it could.
    ///
    /// # Errors
    /// Why it could not.
    fn check_limits(&self, limits: &[NamedLimit<'_>]) -> Result<(), LimitError> {
        let _ = limits;
        Ok(())
    }

    /// Registers one limit.
    ///
    /// # Errors
    /// The store cannot hold more limits.
    fn limit(&self, name: &str, limit: Limit, carry: Carry, now: Nanos) -> Result<LimitRef, LimitError> {
        let mut named = self.limits(&[NamedLimit { name, limit, carry, trusted: false }], now)?;
        Ok(named.pop().expect("one limit was registered"))
    }

    /// The same limit with the same state, in the numbers of a variant (see [`Limit::at`]): those of an override, for
    /// a client with some trust. [`LimitVariant::PLAIN`] gives the limit itself. Later calls return the same variant,
    /// cheaply.
    ///
    /// A key that was last charged in one variant and is charged in another keeps its tokens, at most the new
    /// capacity, as of that charge; an unused key stays unused. What a full bucket holds beyond its own capacity
    /// depends on what changes: at another trust, what has come in since at its own rate
    /// ([`token_bucket::carry_trust`](tidegate_core::token_bucket::carry_trust)); in the numbers of another override,
    /// what has come in since at the new rate
    /// ([`token_bucket::carry_override`](tidegate_core::token_bucket::carry_override)). So whoever alternates is
    /// never given more than the largest numbers alone would give. Windows keep their counts, at most twice the new
    /// limit; logs keep what they have admitted.
    ///
    /// An edit of the limit applies to keys in whatever variant they were charged: the tokens move on by the edit's
    /// [`Carry`], from what the variant was before the edit to what it is after it. A multiplier multiplies the new
    /// numbers; fixed numbers stay what they are, so an edit that keeps the tokens leaves such a key as it is. A denial
    /// leaves a key in the variant it is stored in, and its wait is long enough for that variant too.
    ///
    /// # Errors
    /// The scaled numbers are out of range, or the store cannot hold more limits. Overrides take at most half of the
    /// versions that a store can hold, so that limits can still be registered.
    fn variant(&self, limit: &LimitRef, variant: LimitVariant) -> Result<LimitRef, LimitError>;

    /// The overrides of a limit that are in force: keys may be charged in their numbers from now on, and in no others. A
    /// bucket of the limit that is full is kept until it would be full in those numbers too; one that was charged in numbers
    /// that are not in force any more, until it would be full in those that are. As long as this was never called, each
    /// [`Store::variant`] in the numbers of an override puts those in force for good. A bucket that the store has already
    /// forgotten is full in whatever numbers come; a shared store forgets it at a time that is set at each charge. By default
    /// nothing is done.
    fn expect_overrides(&self, limit: &LimitRef, numbers: &[OverrideNumbers]) {
        let _ = (limit, numbers);
    }

    /// Charges all limits or none. `now` is the caller's time; a store with a clock of its own that it shares
    /// with other nodes uses that clock instead. For [`Intent::HandBack`], `now` is the instant at which the
    /// charges were made; how long ago that is follows from the store's own clock, if that is later.
    ///
    /// If the store can answer at once, it does; otherwise it returns a future that owns everything it needs of
    /// the charges. A request to another server is sent when that future is first polled.
    ///
    /// # Errors
    /// The store cannot decide; then the caller must not assume that anything was taken.
    fn charge(
        &self,
        intent: Intent,
        charges: &[Charge<'_>],
        now: Nanos,
    ) -> NowOrLater<'_, Result<Verdict, Self::Error>>;

    /// The same store, for a policy that is tried out beside the one in force. Where a store remembers how its calls went,
    /// what this one asks for in vain must not keep the other from being served.
    #[must_use]
    fn beside(self) -> Self
    where
        Self: Sized,
    {
        self
    }

    /// Runs `poll`, which polls futures of [`Store::charge`] of this store and of its clones. A store on another server
    /// may gather what they begin, and run `poll` again to send it as one call. Each time `poll` must poll all of them that are
    /// pending, whether or not they were woken, and none that is ready.
    ///
    /// What is sent as one call may wait for the future that sends it, without a deadline of its own. So each future must be
    /// polled until it is ready, or dropped: whoever keeps one unpolled may keep others waiting.
    fn send_together(&self, poll: &mut dyn FnMut()) {
        poll();
    }

    /// [`Intent::HandBack`] for callers that cannot wait, such as a `Drop`: done at once, or as soon as the
    /// store gets to it. `at` is [`Verdict::at`] of the charges.
    fn hand_back(&self, charges: &[Charge<'_>], at: Nanos);

    /// Forgets what this node remembers about these keys beside the store's own state, since another node has changed
    /// that: after [`Intent::Refund`] denials, after [`Intent::Reset`] also tokens that were leased before.
    fn forget_keys(&self, after: Intent, charges: &[Charge<'_>]) {
        let _ = (after, charges);
    }

    /// The time until a bucket holds the cost of a charge (zero if it does at `now`), computed as if the
    /// `delayed` tokens, those of this charge included, were still in it. For callers that made delayed charges
    /// and use them in another order, or later. If the bucket runs over because they were not used in time, the
    /// overflow is lost, and all delayed charges move to after `now` by that amount.
    ///
    /// `None` from stores that would have to wait or that other nodes charge too, for limits that are not token
    /// buckets, and for limits that have been edited since. [`Intent::Refund`] right after this call undoes a
    /// delayed charge.
    fn pace(&self, charge: &Charge<'_>, delayed: u64, now: Nanos) -> Option<Nanos> {
        let _ = (charge, delayed, now);
        None
    }

    /// A limit without a name, whose state belongs to its numbers: for ad hoc buckets. `None` if the store does
    /// not support them; shared stores do.
    fn ad_hoc(&self, limit: Limit) -> Option<LimitRef> {
        let _ = limit;
        None
    }

    /// Burst detectors that nodes share; `None` if each node counts for itself.
    fn shared_bursts(&self) -> Option<&dyn SharedBursts> {
        None
    }

    /// How many nodes share this store, as far as it knows; 1 if it is not shared.
    fn nodes(&self) -> u32 {
        1
    }
}

/// A limit to register in a store.
#[derive(Clone, Copy, Debug)]
pub struct NamedLimit<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its numbers.
    pub limit: Limit,
    /// What an edit does with the tokens.
    pub carry: Carry,
    /// May keys of this limit have changing trust? Then a full bucket is kept until it would be full at any
    /// trust. Calling [`Store::variant`] sets this too.
    pub trusted: bool,
}

/// A limit registered in a store; cheap to clone. As long as one is held, the store remembers the numbers that the
/// limit had when it was registered, and every later edit of the limit, which takes less than 320 bytes: hold it as long
/// as it is in force or a request uses it, and register the limit again for the next one.
#[derive(Clone)]
pub struct LimitRef(Arc<Named>);

struct Named {
    name: Arc<str>,
    limit: Limit,
    id: u64,
    variant: LimitVariant,
    /// What the store knows of it.
    version: Option<Arc<dyn Any + Send + Sync>>,
    /// Shows the store that somebody holds a reference to this limit as it was between two edits.
    _in_use: Option<Arc<()>>,
}

impl LimitRef {
    /// For stores: a limit with its name and the store's own id for it.
    pub fn new(name: &str, limit: Limit, id: u64) -> LimitRef {
        LimitRef(Arc::new(Named {
            name: name.into(),
            limit,
            id,
            variant: LimitVariant::PLAIN,
            version: None,
            _in_use: None,
        }))
    }

    /// For stores: the same limit in another variant, with its numbers and another id.
    #[must_use]
    pub fn in_variant(&self, variant: LimitVariant, limit: Limit, id: u64) -> LimitRef {
        let name = self.0.name.clone();
        LimitRef(Arc::new(Named { name, limit, id, variant, version: None, _in_use: None }))
    }

    /// A limit of a history.
    pub(crate) fn of_version<D: Send + Sync + 'static>(
        version: Arc<LimitVersion<D>>,
        in_use: Arc<()>,
    ) -> LimitRef {
        LimitRef(Arc::new(Named {
            name: version.name.clone(),
            limit: version.limit,
            id: version.id,
            variant: version.variant,
            version: Some(version),
            _in_use: Some(in_use),
        }))
    }

    /// What a store with a history of such data knows of it; `None` if it is from another kind of store.
    #[inline]
    pub(crate) fn version<D: 'static>(&self) -> Option<&LimitVersion<D>> {
        self.0.version.as_deref()?.downcast_ref()
    }

    pub(crate) fn shared_version<D: Send + Sync + 'static>(&self) -> Option<Arc<LimitVersion<D>>> {
        self.0.version.clone()?.downcast().ok()
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Its numbers, as its variant has them.
    pub fn limit(&self) -> &Limit {
        &self.0.limit
    }

    /// The store's own id for it: the same for the same numbers between two edits, and never used again.
    pub fn id(&self) -> u64 {
        self.0.id
    }

    /// The override and the trust by which its numbers are scaled.
    pub fn variant(&self) -> LimitVariant {
        self.0.variant
    }
}

impl fmt::Debug for LimitRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LimitRef({}: {})", self.0.name, self.0.limit)
    }
}

/// Why a limit could not be registered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LimitError {
    /// The store has no version numbers left: that many limits, each trust level and override counted, are in use, or
    /// have keys that still count.
    #[error(
        "a store holds at most {max} limits that are in use, and every trust level and every override of a limit counts \
         as one, as does every edit until the requests from before it have ended; use fewer limits"
    )]
    TooMany {
        /// The most that it holds.
        max: u32,
    },
    /// The numbers of the limit are out of range in that variant.
    #[error("the limit cannot be scaled by that trust or override: {0}")]
    Scaled(#[from] QuotaError),
    /// A store shared by several nodes cannot count the limit exactly.
    #[error(
        "a shared store cannot count the limit `{name}` exactly: {why}; use a window in round numbers or a shorter \
         one, or count on each node with `store.mode: local`"
    )]
    NotShared {
        /// The name of the limit.
        name: Box<str>,
        /// The number that cannot be counted.
        why: &'static str,
    },
}
