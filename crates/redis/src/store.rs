//! The store: what is known here, what is leased, and what has to be asked.

use std::sync::atomic::{AtomicU64, Ordering};

use smallvec::SmallVec;
use tidegate::{
    Charge, Cost, Intent, Limit, LimitDecision, LimitError, LimitRef, NamedLimit, Nanos, NowOrLater,
    OwnedCharge, Role, Sleep, Store, Verdict,
};

use crate::BucketKey;
use crate::denials::Denials;
use crate::errors::{ErrorCounts, ErrorTracker, Health, StoreError};
use crate::leases::{Leases, with_lease};
use crate::link::{Link, State};
use crate::options::{StoreMode, StoreOptions};
use crate::parts::{BreakerSet, RecordingLink};
use crate::registry::LimitRegistry;
use crate::strict::{self, LimitState, StrictAnswer, StrictRequest};
use crate::table::KeyHasher;
use crate::take::UndecidedTake;
use crate::tend::{MaintenanceBacklog, NodeCount, tend};

/// Limits on a server that nodes share.
#[derive(Debug)]
pub struct RedisStore<L, C> {
    pub(crate) link: L,
    pub(crate) clock: C,
    pub(crate) options: StoreOptions,
    pub(crate) registry: LimitRegistry,
    pub(crate) hasher: KeyHasher,
    pub(crate) denials: Denials,
    /// In [`StoreMode::Hybrid`].
    pub(crate) leases: Option<Leases>,
    pub(crate) parts: BreakerSet,
    pub(crate) chores: MaintenanceBacklog,
    pub(crate) nodes: NodeCount,
    troubles: ErrorTracker,
    calls: AtomicU64,
}

impl<L: Link, C: Sleep> RedisStore<L, C> {
    /// A store over a link. Nothing is asked yet: see [`RedisStore::first_attempt`] and [`RedisStore::tend`].
    pub fn new(link: L, clock: C, options: StoreOptions) -> RedisStore<L, C> {
        let leases = match options.mode {
            StoreMode::Strict => None,
            StoreMode::Hybrid { life } => Some(Leases::new(life, options.max_known)),
        };
        RedisStore {
            registry: LimitRegistry::new(&options.prefix),
            hasher: KeyHasher::new(),
            denials: Denials::new(options.max_known),
            leases,
            parts: BreakerSet::new(&link, clock.now()),
            chores: MaintenanceBacklog::new(),
            nodes: NodeCount::new(),
            troubles: ErrorTracker::new(),
            calls: AtomicU64::new(0),
            link,
            clock,
            options,
        }
    }

    /// The link.
    pub fn link(&self) -> &L {
        &self.link
    }

    /// The clock of this node.
    pub fn clock(&self) -> &C {
        &self.clock
    }

    /// Asks the server once, so that whoever starts knows how it is. Failing is no harm: the store heals by
    /// itself.
    ///
    /// # Errors
    /// When the server does not answer.
    pub async fn first_attempt(&self) -> Result<(), StoreError> {
        let answer = self.tell_others(true).await;
        if answer.is_err() {
            // Nobody is to wait for a server that was not there to begin with.
            self.parts.whole().trip(self.clock.now());
        }
        answer
    }

    /// What has to be done beside deciding: telling the others that this node is alive, renewing leases before
    /// they run out, giving back what nobody waited for, and looking whether a server that failed is back. Never
    /// ends; run it once for each store.
    pub async fn tend(&self) {
        tend(self, &self.chores, &self.clock).await;
    }

    /// How the store is.
    pub fn health(&self) -> Health {
        let (up, since) = self.parts.health(self.clock.now());
        Health { up, since, last_error: self.troubles.last(), nodes: self.nodes.count() }
    }

    /// What went wrong so far.
    pub fn errors(&self) -> ErrorCounts {
        self.troubles.counts(self.chores.dropped())
    }

    /// How many calls about buckets were made so far.
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// The published bound of each limit that is leased, by its name: by how many tokens all nodes together may
    /// exceed it, once.
    pub fn overshoot_bounds(&self) -> Vec<(String, u64)> {
        self.leases
            .as_ref()
            .map(|leases| leases.bounds(self.nodes.count(), self.clock.now()))
            .unwrap_or_default()
    }

    /// Now by this node's clock. Where a test gives the time, that.
    pub(crate) fn local_now(&self, given: Nanos) -> Nanos {
        self.given(given).unwrap_or_else(|| self.clock.now())
    }

    #[cfg(feature = "testing")]
    fn given(&self, now: Nanos) -> Option<Nanos> {
        self.options.given_time.then_some(now)
    }

    #[cfg(not(feature = "testing"))]
    fn given(&self, _now: Nanos) -> Option<Nanos> {
        None
    }

    /// Counts what went wrong.
    pub(crate) fn trouble(&self, error: StoreError) -> StoreError {
        self.troubles.met(&error);
        error
    }

    /// Where the state of a charge's bucket is.
    pub(crate) fn key(&self, charge: &Charge<'_>) -> BucketKey {
        let version = self.registry.version(charge.limit);
        version.data.namer().key(self.registry.prefix(), charge.key, charge.tag)
    }

    /// One question to the server, if it is to be asked.
    pub(crate) async fn ask(
        &self,
        intent: Intent,
        charges: &[Charge<'_>],
        wants: &[u32],
        charged_at: Nanos,
        given: Nanos,
    ) -> Result<StrictAnswer, StoreError> {
        let keys = charges.iter().map(|charge| self.key(charge));
        let begun = self.clock.now();
        if !self.parts.may_ask(&self.link, keys, begun) {
            return Err(self.trouble(StoreError::BreakerOpen));
        }
        let at = self.given(given);
        // Where the time is given, it stands still.
        let in_time = || at.is_some() || self.clock.now().saturating_sub(begun) <= self.options.patience;
        let question = StrictRequest { intent, charges, wants, charged_at, at };
        let link = RecordingLink { link: &self.link, parts: &self.parts, clock: &self.clock };
        let asked = strict::ask(&link, &self.registry, question, &in_time).await;
        match &asked {
            Ok(asked) => {
                self.calls.fetch_add(asked.calls.into(), Ordering::Relaxed);
                self.troubles.poisoned(asked.poisoned);
                if asked.contended {
                    self.troubles.met(&StoreError::Contended);
                }
            }
            Err(error) => {
                self.calls.fetch_add(1, Ordering::Relaxed);
                self.troubles.met(error);
            }
        }
        asked
    }

    /// Charges, where leases and remembered denials decide; otherwise tells what the server has to be asked, by
    /// [`RedisStore::charge_there`].
    ///
    /// # Errors
    /// When the server has to be asked.
    pub fn charge_here(
        &self,
        intent: Intent,
        charges: &[Charge<'_>],
        now: Nanos,
    ) -> Result<Verdict, Box<ServerCall>> {
        if charges.is_empty() {
            return Ok(Verdict { allowed: true, decisions: SmallVec::new(), at: now });
        }
        let lacking = match intent {
            Intent::Take => match self.take_here(charges, now) {
                Ok(verdict) => return Ok(verdict),
                Err(lacking) => Some(lacking),
            },
            Intent::Peek | Intent::Refund | Intent::HandBack => None,
        };
        let charges = charges.iter().map(OwnedCharge::from).collect();
        Err(Box::new(ServerCall { intent, charges, lacking, now }))
    }

    /// Asks the server.
    ///
    /// # Errors
    /// When it does not answer; then nothing may be assumed to be taken.
    pub async fn charge_there(&self, call: Box<ServerCall>) -> Result<Verdict, StoreError> {
        let ServerCall { intent, charges, lacking, now } = *call;
        let charges: SmallVec<[Charge<'_>; 8]> = charges.iter().map(OwnedCharge::as_charge).collect();
        match (intent, lacking) {
            (Intent::Take, Some(lacking)) => self.take_there(&charges, &lacking, now).await,
            (Intent::Take, None) => unreachable!("a take is tried here first"),
            (Intent::Peek, _) => self.peek(&charges, now).await,
            (Intent::Refund, _) => self.refund(&charges, now).await,
            (Intent::HandBack, _) => self.take_back(&charges, now).await,
        }
    }

    async fn peek(&self, charges: &[Charge<'_>], given: Nanos) -> Result<Verdict, StoreError> {
        let StrictAnswer { mut verdict, standings, .. } =
            self.ask(Intent::Peek, charges, &[], Nanos::ZERO, given).await?;
        let Some(leases) = &self.leases else { return Ok(verdict) };
        let (now, hashes) = (self.local_now(given), self.hashes(charges));
        for (i, charge) in charges.iter().enumerate() {
            let held = leases.held(hashes[i], charge, now);
            if let Some(decision) = leases.would_refuse(hashes[i], charge, now) {
                verdict.decisions[i] = decision;
            } else if held > 0 {
                verdict.decisions[i] = beyond(charge, held, &standings[i], &verdict.decisions[i]);
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
        self.denials.edited();
        if let Some(leases) = &self.leases {
            leases.named(&named, self.local_now(now));
        }
        Ok(named)
    }

    fn variant(&self, limit: &LimitRef, trust: u8) -> Result<LimitRef, LimitError> {
        self.registry.variant(limit, trust)
    }

    fn charge(
        &self,
        intent: Intent,
        charges: &[Charge<'_>],
        now: Nanos,
    ) -> NowOrLater<'_, Result<Verdict, StoreError>> {
        match self.charge_here(intent, charges, now) {
            Ok(verdict) => NowOrLater::Now(Ok(verdict)),
            Err(call) => NowOrLater::later(self.charge_there(call)),
        }
    }

    fn hand_back(&self, charges: &[Charge<'_>], at: Nanos) {
        self.take_back_later(charges, at);
    }

    fn ad_hoc(&self, limit: Limit) -> Option<LimitRef> {
        self.registry.ad_hoc(limit)
    }

    fn nodes(&self) -> u32 {
        self.nodes.count()
    }
}

/// A call that only the server can answer, with all that it takes to make it.
#[derive(Debug)]
pub struct ServerCall {
    intent: Intent,
    charges: SmallVec<[OwnedCharge; 4]>,
    /// Of a take.
    lacking: Option<Box<UndecidedTake>>,
    now: Nanos,
}

/// What a peek says where some of the cost would come from a lease.
fn beyond(charge: &Charge<'_>, held: u32, standing: &LimitState, told: &LimitDecision) -> LimitDecision {
    let lacking = Cost::new(charge.cost.get().saturating_sub(held));
    let decision = match (&standing.limit, &standing.state) {
        (Limit::Meter(meter), State::Word(word)) => {
            meter.peek_ahead(*word, lacking, standing.at, charge.delay)
        }
        _ => *told,
    };
    with_lease(decision, held)
}
