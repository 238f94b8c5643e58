//! The public store: its parts, its state of health, and the entry points for charges.

mod calling;
mod options;
mod side;

use std::ops::Deref;
use std::sync::{Arc, Mutex, Weak};

use smallvec::SmallVec;
use tidegate::measure::DurationHistogram;
use tidegate::{
    Charge, Intent, Limit, LimitDecision, LimitError, LimitRef, LimitVariant, MonotonicClock, NamedLimit,
    Nanos, NowOrLater, OverrideNumbers, OwnedCharge, Role, SharedBursts, Sleep, Store, Verdict,
};

use crate::bursts::WaitingPenalties;
use crate::calls::Link;
use crate::client::{RedisClient, RedisClientError, RedisClientOptions};
use crate::deciding::denials::Denials;
use crate::deciding::leases::{Leases, peek_with_lease};
use crate::deciding::local_first::UndecidedTake;
use crate::deciding::recent_keys::KeyHasher;
use crate::deciding::strict::StrictAnswer;
use crate::failures::{ErrorCounts, Health, StoreError};
use crate::maintenance::{MaintenanceBacklog, MaintenanceGuard, NodeCount, run_maintenance};
use crate::registry::LimitRegistry;
pub(crate) use side::StoreSide;

pub use options::{StoreMode, StoreOptions};

/// Limits on a Redis or Valkey server that nodes share. Cheap to clone: clones are the same store.
#[derive(Debug)]
pub struct RedisStore<L = RedisClient, C = MonotonicClock> {
    parts: Arc<StoreParts<L, C>>,
    /// Whose calls this one makes.
    pub(crate) side: Arc<StoreSide>,
}

/// The parts of a store.
#[derive(Debug)]
pub struct StoreParts<L, C> {
    pub(crate) link: L,
    pub(crate) clock: C,
    pub(crate) options: StoreOptions,
    pub(crate) registry: LimitRegistry,
    pub(crate) hasher: KeyHasher,
    pub(crate) denials: Denials,
    pub(crate) penalties: WaitingPenalties,
    /// In [`StoreMode::Hybrid`] only.
    pub(crate) leases: Option<Leases>,
    pub(crate) backlog: MaintenanceBacklog,
    pub(crate) nodes: NodeCount,
    /// The policy in force.
    pub(crate) live: Arc<StoreSide>,
    /// The policies that are tried out, as long as somebody does.
    besides: Mutex<Vec<Weak<StoreSide>>>,
    call_times: DurationHistogram,
}

/// An empty histogram with the bounds of [`RedisStore::call_times`]: from a call within one machine to a long deadline.
pub fn new_call_times() -> DurationHistogram {
    DurationHistogram::between(Nanos::new(10_000), Nanos::from_secs(10))
}

impl<L, C> Clone for RedisStore<L, C> {
    fn clone(&self) -> RedisStore<L, C> {
        RedisStore { parts: Arc::clone(&self.parts), side: Arc::clone(&self.side) }
    }
}

#[doc(hidden)]
impl<L, C> Deref for RedisStore<L, C> {
    type Target = StoreParts<L, C>;

    fn deref(&self) -> &StoreParts<L, C> {
        &self.parts
    }
}

impl RedisStore {
    /// A store on the server that `client` names, and the guard of the background task that keeps it working. Keep the
    /// guard for as long as the store is used: dropping it stops the maintenance, and the node leaves. Bind it to a name:
    /// `let (store, _) = …` drops it at once.
    ///
    /// Returns at once: the connection is made in the background, on the current tokio runtime, and made again
    /// whenever it is lost. A server that cannot be reached is no error here; charges fail until it answers.
    ///
    /// # Errors
    /// When the address or the file of certificates cannot be read, or there is no tokio runtime.
    pub fn connect(
        client: RedisClientOptions,
        options: StoreOptions,
    ) -> Result<(RedisStore, MaintenanceGuard), RedisClientError> {
        let link = RedisClient::connect(client)?;
        let store = RedisStore::new(link, MonotonicClock::new(), options);
        let guard = store.start_maintenance()?;
        Ok((store, guard))
    }
}

impl<L: Link + 'static, C: Sleep + 'static> RedisStore<L, C> {
    /// Starts the maintenance of a store that was made by [`RedisStore::new`], as a task of the current tokio runtime.
    ///
    /// # Errors
    /// When there is no tokio runtime.
    pub fn start_maintenance(&self) -> Result<MaintenanceGuard, RedisClientError> {
        MaintenanceGuard::start(self.clone())
    }
}

impl<L: Link, C: Sleep> RedisStore<L, C> {
    /// A store over a connection and a clock. It calls nothing by itself: run [`RedisStore::start_maintenance`] or
    /// [`RedisStore::run_maintenance`] beside it.
    pub fn new(link: L, clock: C, options: StoreOptions) -> RedisStore<L, C> {
        let leases = match options.mode {
            StoreMode::Strict => None,
            StoreMode::Hybrid { life } => Some(Leases::new(life.into(), options.max_remembered)),
        };
        let live = Arc::new(StoreSide::new(&link, clock.now()));
        let parts = StoreParts {
            registry: LimitRegistry::new(&options.prefix),
            hasher: KeyHasher::new(),
            denials: Denials::new(options.max_remembered),
            penalties: WaitingPenalties::default(),
            leases,
            backlog: MaintenanceBacklog::new(),
            nodes: NodeCount::new(),
            live: Arc::clone(&live),
            besides: Mutex::default(),
            call_times: new_call_times(),
            link,
            clock,
            options,
        };
        RedisStore { parts: Arc::new(parts), side: live }
    }

    /// The connection to the server.
    pub fn link(&self) -> &L {
        &self.link
    }

    /// The clock of this node.
    pub fn clock(&self) -> &C {
        &self.clock
    }

    /// Sends one heartbeat, so that a program that starts can report whether the server answers. A failure does no
    /// harm: maintenance tries again.
    ///
    /// # Errors
    /// When the server does not answer.
    pub async fn first_attempt(&self) -> Result<(), StoreError> {
        let answer = self.announce(true).await;
        if answer.is_err() {
            // No request should wait for a server that has never answered.
            self.live.breakers.whole().trip(self.clock.now());
        }
        answer
    }

    /// Runs the background work of the store, for ever: heartbeats, lease renewals, hand-backs that nobody waited for,
    /// and probes of a server that failed. Run it once for each store, or let a [`MaintenanceGuard`] do so.
    pub async fn run_maintenance(&self) {
        run_maintenance(self, &self.backlog, &self.clock).await;
    }

    /// Whether the server answers, and since when.
    pub fn health(&self) -> Health {
        let (up, since) = self.live.breakers.health(self.clock.now());
        Health { up, since, last_error: self.live.errors.last(), nodes: self.nodes.count() }
    }

    /// How often each kind of error has occurred.
    pub fn errors(&self) -> ErrorCounts {
        self.live.errors.counts(self.backlog.dropped())
    }

    /// How many calls that charge or read buckets were sent to the server; those that were sent as one count each.
    pub fn calls(&self) -> u64 {
        self.call_times.snapshot().count()
    }

    /// How long these calls took, those without an answer included.
    pub fn call_times(&self) -> &DurationHistogram {
        &self.call_times
    }

    /// For each limit that is leased, by its name in the store: the most tokens by which all nodes together may exceed
    /// it, once. The engine's names have the fields of the key after U+001F.
    pub fn overshoot_bounds(&self) -> Vec<(String, u64)> {
        self.leases
            .as_ref()
            .map(|leases| leases.bounds(self.nodes.count(), self.clock.now()))
            .unwrap_or_default()
    }

    /// This node's clock, or `given` where a test provides the time.
    pub(crate) fn local_now(&self, given: Nanos) -> Nanos {
        self.given(given).unwrap_or_else(|| self.clock.now())
    }

    /// The instant that the caller gives, where it decides: in the conformance suite alone.
    pub(crate) fn given(&self, now: Nanos) -> Option<Nanos> {
        (cfg!(feature = "testing") && self.options.given_time).then_some(now)
    }

    /// Counts an error, and returns it.
    pub(crate) fn record_error(&self, error: StoreError) -> StoreError {
        self.side.errors.record(&error);
        error
    }

    /// Decides a charge from leases and remembered denials, without waiting. Where they do not suffice, returns the
    /// call for [`RedisStore::charge_on_server`].
    ///
    /// # Errors
    /// When only the server can decide.
    pub fn charge_locally(
        &self,
        intent: Intent,
        charges: &[Charge<'_>],
        now: Nanos,
    ) -> Result<Verdict, Box<ServerCall>> {
        if charges.is_empty() {
            return Ok(Verdict { allowed: true, decisions: SmallVec::new(), at: now });
        }
        let undecided = match intent {
            Intent::Take => match self.take_locally(charges, now) {
                Ok(verdict) => return Ok(verdict),
                Err(undecided) => Some(undecided),
            },
            Intent::Peek | Intent::Refund | Intent::HandBack | Intent::Reset => None,
        };
        let charges = charges.iter().map(OwnedCharge::from).collect();
        Err(Box::new(ServerCall { intent, charges, undecided, now }))
    }

    /// Lets the server decide a charge.
    ///
    /// # Errors
    /// When the server does not answer. Then the tokens may or may not have been taken, and must not be used.
    pub async fn charge_on_server(&self, call: Box<ServerCall>) -> Result<Verdict, StoreError> {
        let (intent, now) = (call.intent, call.now);
        let charges: Vec<Charge<'_>> = call.charges.iter().map(OwnedCharge::as_charge).collect();
        match (intent, &call.undecided) {
            (Intent::Take, Some(undecided)) => self.take_on_server(&charges, undecided, now).await,
            (Intent::Take, None) => unreachable!("a take is tried locally first"),
            // Boxed, so that a take, which is the most frequent, does not have to move them.
            (Intent::Peek, _) => Box::pin(self.peek(&charges, now)).await,
            (Intent::Refund, _) => Box::pin(self.refund(&charges, now)).await,
            (Intent::HandBack, _) => Box::pin(self.hand_back_now(&charges, now)).await,
            (Intent::Reset, _) => Box::pin(self.reset(&charges, now)).await,
        }
    }

    async fn peek(&self, charges: &[Charge<'_>], given: Nanos) -> Result<Verdict, StoreError> {
        let StrictAnswer { mut verdict, standings, .. } =
            self.call_server(Intent::Peek, charges, &[], Nanos::ZERO, given).await?;
        let Some(leases) = &self.leases else { return Ok(verdict) };
        let (now, hashes) = (self.local_now(given), self.hashes(charges));
        for (i, charge) in charges.iter().enumerate() {
            let leased = leases.live_tokens(hashes[i], charge, now);
            if let Some(decision) = leases.would_refuse(hashes[i], charge, now) {
                verdict.decisions[i] = decision;
            } else if leased > 0 {
                verdict.decisions[i] = peek_with_lease(charge, leased, &standings[i], &verdict.decisions[i]);
            }
        }
        let refuses = |(charge, decision): (&Charge<'_>, &LimitDecision)| {
            charge.role == Role::Binding && !decision.is_allowed()
        };
        verdict.allowed = !charges.iter().zip(&verdict.decisions).any(refuses);
        Ok(verdict)
    }
}

impl<L: Link, C: Sleep> Store for RedisStore<L, C> {
    type Error = StoreError;

    fn limits(&self, limits: &[NamedLimit<'_>], now: Nanos) -> Result<Vec<LimitRef>, LimitError> {
        let named = self.registry.name_all(limits, now)?;
        if self.is_beside() {
            // No limit in force was edited, and nobody gets more tokens than one of these admits.
            return Ok(named);
        }
        self.denials.limits_edited();
        if let Some(leases) = &self.leases {
            leases.named(&named, self.local_now(now));
        }
        Ok(named)
    }

    fn check_limits(&self, limits: &[NamedLimit<'_>]) -> Result<(), LimitError> {
        self.registry.check_all(limits)
    }

    fn variant(&self, limit: &LimitRef, variant: LimitVariant) -> Result<LimitRef, LimitError> {
        self.registry.variant(limit, variant)
    }

    fn expect_overrides(&self, limit: &LimitRef, numbers: &[OverrideNumbers]) {
        self.registry.expect_overrides(limit, numbers);
    }

    fn charge(
        &self,
        intent: Intent,
        charges: &[Charge<'_>],
        now: Nanos,
    ) -> NowOrLater<'_, Result<Verdict, StoreError>> {
        match self.charge_locally(intent, charges, now) {
            Ok(verdict) => NowOrLater::Now(Ok(verdict)),
            Err(call) => NowOrLater::later(self.charge_on_server(call)),
        }
    }

    fn beside(self) -> RedisStore<L, C> {
        self.with_side_beside()
    }

    fn send_together(&self, poll: &mut dyn FnMut()) {
        self.link.send_together(poll);
    }

    fn hand_back(&self, charges: &[Charge<'_>], at: Nanos) {
        self.hand_back_later(charges, at);
    }

    fn forget_keys(&self, after: Intent, charges: &[Charge<'_>]) {
        self.drop_remembered(after, charges);
    }

    fn ad_hoc(&self, limit: Limit) -> Option<LimitRef> {
        self.registry.ad_hoc(limit)
    }

    fn shared_bursts(&self) -> Option<&dyn SharedBursts> {
        Some(self)
    }

    fn nodes(&self) -> u32 {
        self.nodes.count()
    }
}

/// A charge that only the server can decide, with everything that the call needs.
#[derive(Debug)]
pub struct ServerCall {
    intent: Intent,
    charges: SmallVec<[OwnedCharge; 4]>,
    /// For [`Intent::Take`]: what was drawn from leases so far.
    undecided: Option<Box<UndecidedTake>>,
    now: Nanos,
}
