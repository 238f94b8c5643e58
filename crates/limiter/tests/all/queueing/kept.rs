//! A clock whose timers can be inspected, and a store that is one node's own or shared by several.

use std::future::{Future, poll_fn};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};

use tidegate::{
    Charge, Clock, Intent, LimitError, LimitRef, LimitVariant, Memory, NamedLimit, Nanos, NowOrLater,
    OverrideNumbers, Sleep, Store, Verdict,
};

/// A clock that reports when its timers are due.
#[derive(Clone)]
pub(crate) struct Timers(Arc<Set>);

/// Its time, and the wakers with their due instants.
struct Set {
    now: AtomicU64,
    timers: Mutex<Vec<(Nanos, Waker)>>,
}

impl Timers {
    pub(crate) fn new() -> Timers {
        Timers(Arc::new(Set { now: AtomicU64::new(Nanos::from_secs(1_000).get()), timers: Mutex::default() }))
    }

    pub(crate) fn next(&self) -> Option<Nanos> {
        self.0.timers.lock().unwrap().iter().map(|(due, _)| *due).min()
    }

    pub(crate) fn set(&self, now: Nanos) {
        self.0.now.store(now.get(), Ordering::SeqCst);
        let due: Vec<_> = self.0.timers.lock().unwrap().extract_if(.., |(due, _)| *due <= now).collect();
        due.into_iter().for_each(|(_, waker)| waker.wake());
    }
}

impl Clock for Timers {
    fn now(&self) -> Nanos {
        Nanos::new(self.0.now.load(Ordering::SeqCst))
    }
}

impl Sleep for Timers {
    fn sleep(&self, span: Nanos) -> impl Future<Output = ()> + Send {
        let due = self.now().saturating_add(span);
        poll_fn(move |context| {
            if self.now() >= due {
                return Poll::Ready(());
            }
            self.0.timers.lock().unwrap().push((due, context.waker().clone()));
            Poll::Pending
        })
    }
}

/// A node's own memory, or one that several nodes share: those do not know what others do with a bucket.
pub(crate) struct Kept {
    pub(crate) memory: Arc<Memory<Timers>>,
    pub(crate) is_shared: bool,
}

impl Store for Kept {
    type Error = std::convert::Infallible;

    fn limits(&self, limits: &[NamedLimit<'_>], now: Nanos) -> Result<Vec<LimitRef>, LimitError> {
        self.memory.limits(limits, now)
    }

    fn variant(&self, limit: &LimitRef, variant: LimitVariant) -> Result<LimitRef, LimitError> {
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
    ) -> NowOrLater<'_, Result<Verdict, Self::Error>> {
        match self.memory.charge(intent, charges, now) {
            NowOrLater::Now(said) if self.is_shared => NowOrLater::later(std::future::ready(said)),
            said => said,
        }
    }

    fn hand_back(&self, charges: &[Charge<'_>], at: Nanos) {
        self.memory.hand_back(charges, at);
    }

    fn pace(&self, charge: &Charge<'_>, delayed: u64, now: Nanos) -> Option<Nanos> {
        if self.is_shared { None } else { self.memory.pace(charge, delayed, now) }
    }
}
