//! A store that works until it is told to fail.

use std::future::{Future, poll_fn};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::task::Poll;

use tidegate::engine::{AdHocError, AdHocLimit, AdHocRequest, Decision, Limiter, Policy, Request};
use tidegate::{
    Carry, Charge, Clock, Intent, Limit, LimitDecision as Limited, LimitError, LimitRef, LimitVariant,
    ManualClock, Memory, MemoryOptions, NamedLimit, Nanos, NowOrLater, OverrideNumbers, OwnedCharge, Store,
    Verdict,
};

/// How far the store's clock is ahead.
pub(crate) const AHEAD: Nanos = Nanos::from_secs(1_000);

/// The store does not support ad hoc buckets of this capacity.
pub(crate) const NOT_KEPT: u32 = 8;

/// Nor can it count limits of this capacity.
pub(crate) const NOT_COUNTED: u32 = 77;

pub(crate) const OPTIONS: MemoryOptions = MemoryOptions { max_keys: 1_000, max_log_entries: 1_000 };

pub(crate) type Shared = Limiter<Flaky, ManualClock>;

/// What a charge is on: its limit, its key, its tag.
pub(crate) type Seen = (String, Vec<u8>, Option<Vec<u8>>);

#[derive(Debug)]
pub(crate) struct Flaky {
    memory: Memory<ManualClock>,
    clock: ManualClock,
    fails: AtomicBool,
    /// Fails after this many more calls.
    calls_left: AtomicUsize,
    nodes: AtomicU32,
    /// How long each call takes, in nanoseconds.
    latency: AtomicU64,
    calls: AtomicUsize,
    /// How often each call is pending, beside the first time.
    pauses: AtomicUsize,
    seen: Mutex<Vec<Seen>>,
    handed_back: Mutex<Vec<(Seen, Nanos)>>,
}

#[derive(Debug, thiserror::Error)]
#[error("it was told to fail")]
pub(crate) struct Failed;

impl Flaky {
    pub(crate) fn new(clock: ManualClock) -> Flaky {
        // Its clock is read when charges are handed back.
        let memory = Memory::with_clock(OPTIONS, clock.clone()).unwrap();
        Flaky {
            memory,
            clock,
            fails: AtomicBool::new(false),
            calls_left: AtomicUsize::new(usize::MAX),
            nodes: AtomicU32::new(1),
            latency: AtomicU64::new(0),
            calls: AtomicUsize::new(0),
            pauses: AtomicUsize::new(0),
            seen: Mutex::default(),
            handed_back: Mutex::default(),
        }
    }

    pub(crate) fn fail(&self, fails: bool) {
        self.fails.store(fails, Ordering::SeqCst);
    }

    pub(crate) fn fail_after(&self, calls: usize) {
        self.calls_left.store(calls, Ordering::SeqCst);
    }

    pub(crate) fn set_nodes(&self, nodes: u32) {
        self.nodes.store(nodes, Ordering::SeqCst);
    }

    /// From now on each call takes this long, on the clock of the test, and is decided at its end.
    pub(crate) fn set_latency(&self, latency: Nanos) {
        self.latency.store(latency.get(), Ordering::SeqCst);
    }

    /// From now on each call is pending this many times more.
    pub(crate) fn pause_longer(&self, times: usize) {
        self.pauses.store(times, Ordering::SeqCst);
    }

    pub(crate) fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }

    /// All calls so far.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// The charges that were handed back without waiting, and when they were made.
    pub(crate) fn handed_back(&self) -> Vec<(Seen, Nanos)> {
        self.handed_back.lock().unwrap().clone()
    }
}

fn seen(charge: &Charge<'_>) -> Seen {
    (charge.limit.name().to_owned(), charge.key.to_vec(), charge.tag.map(<[u8]>::to_vec))
}

/// Pending once, like a call over a network.
async fn pause() {
    let mut paused = false;
    poll_fn(|context| {
        if std::mem::replace(&mut paused, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

impl Flaky {
    async fn charge_later(
        &self,
        intent: Intent,
        charges: Vec<OwnedCharge>,
        now: Nanos,
    ) -> Result<Verdict, Failed> {
        let charges: Vec<Charge<'_>> = charges.iter().map(OwnedCharge::as_charge).collect();
        for _ in 0..=self.pauses.load(Ordering::SeqCst) {
            pause().await;
        }
        self.calls.fetch_add(1, Ordering::SeqCst);
        let left =
            self.calls_left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        if self.fails.load(Ordering::SeqCst) || left.is_err() {
            return Err(Failed);
        }
        self.seen.lock().unwrap().extend(charges.iter().map(seen));
        let latency = Nanos::new(self.latency.load(Ordering::SeqCst));
        let now = if latency == Nanos::ZERO {
            now
        } else {
            self.clock.advance(latency);
            self.clock.now()
        };
        let verdict = self.memory.charge_now(intent, &charges, now);
        Ok(Verdict { at: verdict.at.saturating_add(AHEAD), ..verdict })
    }
}

fn check(name: &str, limit: &Limit) -> Result<(), LimitError> {
    if limit.capacity() == NOT_COUNTED {
        return Err(LimitError::NotShared { name: name.into(), why: "it is odd" });
    }
    Ok(())
}

impl Store for Flaky {
    type Error = Failed;

    fn limits(&self, limits: &[NamedLimit<'_>], now: Nanos) -> Result<Vec<LimitRef>, LimitError> {
        self.check_limits(limits)?;
        self.memory.limits(limits, now)
    }

    fn check_limits(&self, limits: &[NamedLimit<'_>]) -> Result<(), LimitError> {
        limits.iter().try_for_each(|named| check(named.name, &named.limit))
    }

    fn variant(&self, limit: &LimitRef, variant: LimitVariant) -> Result<LimitRef, LimitError> {
        check(limit.name(), &limit.limit().at(variant)?)?;
        self.memory.variant(limit, variant)
    }

    fn expect_overrides(&self, limit: &LimitRef, numbers: &[OverrideNumbers]) {
        self.memory.expect_overrides(limit, numbers);
    }

    fn charge(
        &self,
        intent: Intent,
        charges: &[Charge<'_>],
        now: Nanos,
    ) -> NowOrLater<'_, Result<Verdict, Failed>> {
        assert!(!charges.is_empty(), "nothing was asked");
        let charges: Vec<OwnedCharge> = charges.iter().map(OwnedCharge::from).collect();
        NowOrLater::later(self.charge_later(intent, charges, now))
    }

    fn hand_back(&self, charges: &[Charge<'_>], at: Nanos) {
        self.handed_back.lock().unwrap().extend(charges.iter().map(|charge| (seen(charge), at)));
        let _ = self.memory.charge_now(Intent::HandBack, charges, at.saturating_sub(AHEAD));
    }

    fn ad_hoc(&self, limit: Limit) -> Option<LimitRef> {
        if limit.capacity() == NOT_KEPT {
            return None;
        }
        self.memory.limit(&format!("ad hoc {limit}"), limit, Carry::AsIs, self.clock.now()).ok()
    }

    fn nodes(&self) -> u32 {
        self.nodes.load(Ordering::SeqCst)
    }
}

/// An engine on such a store, with a local fallback.
pub(crate) struct World {
    pub(crate) limiter: Shared,
    pub(crate) clock: ManualClock,
}

pub(crate) fn policy(text: &str) -> Policy {
    Policy::parse(text).unwrap_or_else(|error| panic!("{error}"))
}

/// Limits, given what they have in addition to a name, a key and a rate of one per minute.
pub(crate) fn limits(entries: &[(&str, &str)]) -> String {
    let entry = |(name, rest): &(&str, &str)| {
        format!("- {{ name: {name}, key: [user], sustained: {{ rate: 1, window: minute }}, {rest} }}\n")
    };
    format!("version: 1\nlimits:\n{}", entries.iter().map(entry).collect::<String>())
}

impl World {
    pub(crate) fn new(text: &str) -> World {
        World::without_fallback(text).and_fallback()
    }

    pub(crate) fn without_fallback(text: &str) -> World {
        let clock = ManualClock::default();
        let limiter = Limiter::with_store(policy(text), Flaky::new(clock.clone()), clock.clone()).unwrap();
        World { limiter: limiter.with_ad_hoc(OPTIONS).unwrap(), clock }
    }

    fn and_fallback(self) -> World {
        World { limiter: self.limiter.with_fallback(OPTIONS).unwrap(), ..self }
    }

    pub(crate) fn store(&self) -> &Flaky {
        self.limiter.store()
    }

    pub(crate) fn check(&self, request: &Request<'_>) -> Decision {
        run(self.limiter.check_async(request))
    }

    pub(crate) fn peek(&self, request: &Request<'_>) -> Decision {
        run(self.limiter.peek_async(request))
    }

    /// The decision of an ad hoc bucket.
    pub(crate) fn ad_hoc(&self, key: &[u8], limit: AdHocLimit, cost: u64) -> Result<Limited, AdHocError> {
        let asked = AdHocRequest { key, limit, cost };
        run(self.limiter.check_ad_hoc(&asked, self.clock.now())).map(|answer| answer.decision)
    }

    /// The same, with nothing taken.
    pub(crate) fn peek_ad_hoc(&self, key: &[u8], limit: AdHocLimit, cost: u64) -> Limited {
        let asked = AdHocRequest { key, limit, cost };
        run(self.limiter.peek_ad_hoc(&asked, self.clock.now())).unwrap().decision
    }

    /// The same, with the cost given back.
    pub(crate) fn refund_ad_hoc(&self, key: &[u8], limit: AdHocLimit, cost: u64) -> Limited {
        let asked = AdHocRequest { key, limit, cost };
        run(self.limiter.refund_ad_hoc(&asked, self.clock.now())).unwrap().decision
    }

    /// How many ad hoc buckets are in this node's memory.
    pub(crate) fn own_ad_hoc(&self) -> u64 {
        self.limiter.ad_hoc_stats().unwrap().keys
    }

    /// How many of twenty requests are admitted at once.
    pub(crate) fn admitted(&self, request: &Request<'_>) -> usize {
        (0..20).filter(|_| self.check(request).is_allowed()).count()
    }
}

/// Runs a future that is `Send` to completion.
pub(crate) fn run<F: Future + Send>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

pub(crate) fn user(name: &str) -> Request<'_> {
    Request::new().user(name)
}

/// What remains of each limit in a decision.
pub(crate) fn remaining(decision: &Decision) -> Vec<u32> {
    decision.limits().map(|limit| limit.decision.remaining).collect()
}
