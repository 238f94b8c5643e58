use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::calls::{
    BurstAnswer, BurstCall, CallAnswer, CallOutcome, FoundState, Heartbeat, PenaltyListAnswer,
    PenaltyListCall, ScriptCall,
};
use tidegate::testing::block_on_ready;
use tidegate::{Carry, Cost, LimitRef, NamedLimit, Outcome, Quota};

const NOW: Nanos = Nanos::from_secs(1_800_000_000);

/// Servers whose clocks differ: each call is a second later. If `contended`, one where another node with
/// other numbers always writes first.
#[derive(Default)]
struct Servers {
    calls: AtomicU64,
    contended: bool,
}

impl Link for Servers {
    async fn call(&self, call: &ScriptCall) -> Result<CallAnswer, LinkError> {
        let nth = self.calls.fetch_add(1, Ordering::SeqCst);
        let other = [&[0; 8], &(nth as f64).to_le_bytes(), b"b 1 1000000000 20".as_slice()].concat();
        let found = if self.contended { FoundState::Other(other) } else { FoundState::Here(State::Word(0)) };
        Ok(CallAnswer {
            at: NOW.saturating_add(Nanos::from_secs(nth)),
            outcome: if self.contended { CallOutcome::Migrate } else { CallOutcome::Done },
            found: vec![found; call.entries.len()],
            leased: SmallVec::from_elem(0, call.entries.len()),
            poisoned: 0,
        })
    }

    async fn heartbeat(&self, _heartbeat: &Heartbeat) -> Result<u32, LinkError> {
        Ok(1)
    }

    async fn count_bursts(&self, _call: &BurstCall) -> Result<Vec<BurstAnswer>, LinkError> {
        Err(LinkError::Down("these tests count no bursts".into()))
    }

    async fn list_penalties(&self, _call: &PenaltyListCall) -> Result<PenaltyListAnswer, LinkError> {
        Err(LinkError::Down("these tests count no bursts".into()))
    }

    fn has_slots(&self) -> bool {
        !self.contended
    }
}

fn named(registry: &LimitRegistry) -> LimitRef {
    let limit = Quota::new(1, Nanos::SECOND, 10).unwrap().into();
    registry
        .name_all(&[NamedLimit { name: "a", limit, carry: Carry::AsIs, trusted: false }], NOW)
        .unwrap()
        .remove(0)
}

fn take<'a>(charges: &'a [Charge<'a>]) -> StrictRequest<'a> {
    StrictRequest { intent: Intent::Take, charges, wants: &[], charged_at: Nanos::ZERO, at: None }
}

fn draft(registry: &LimitRegistry, request: StrictRequest<'_>) -> CallDraft {
    CallDraft::of(registry, request).unwrap()
}

#[test]
fn a_charge_on_several_servers_is_as_old_as_its_oldest_part() {
    let (servers, registry) = (Servers::default(), LimitRegistry::new("t"));
    let limit = named(&registry);
    let charges = [b"a".as_slice(), b"b", b"c"].map(|key| Charge::new(&limit, key, Cost::ONE));
    let asked = block_on_ready(execute(&servers, &registry, &mut draft(&registry, take(&charges)), &|| true))
        .unwrap();
    assert!(asked.verdict.allowed);
    assert_eq!(asked.verdict.at, NOW, "what is handed back is aged by that");
    let clocks: Vec<Nanos> = asked.standings.iter().map(|standing| standing.at).collect();
    let seconds = [0, 1, 2].map(|seconds| NOW.saturating_add(Nanos::from_secs(seconds)));
    assert_eq!(clocks, seconds, "each by its own clock");
}

#[test]
fn what_others_keep_changing_is_refused_for_now() {
    for (in_time, calls) in [(true, 16), (false, 1)] {
        let (servers, registry) =
            (Servers { contended: true, ..Servers::default() }, LimitRegistry::new("t"));
        let limit = named(&registry);
        let charges = [Charge::new(&limit, b"a", Cost::ONE)];
        let asked =
            block_on_ready(execute(&servers, &registry, &mut draft(&registry, take(&charges)), &|| in_time))
                .unwrap();
        assert!(!asked.verdict.allowed && asked.contended);
        let soon = Outcome::Denied { retry_after: Nanos::from_millis(5) };
        assert_eq!(asked.verdict.decisions[0].outcome, soon);
        assert_eq!(servers.calls.load(Ordering::SeqCst), calls);
        // A peek takes nothing, so there is nothing to refuse.
        let peek = StrictRequest { intent: Intent::Peek, ..take(&charges) };
        let peeked = block_on_ready(execute(&servers, &registry, &mut draft(&registry, peek), &|| in_time));
        assert_eq!(peeked.unwrap_err(), StoreError::Contended);
    }
}

/// `execute_by_slot` relies on this.
#[tokio::test]
async fn all_are_run_at_once_and_told_in_order() {
    let (first, second) = tokio::sync::oneshot::channel();
    let waits = async move { second.await.unwrap() };
    let sends = async move {
        first.send(1).unwrap();
        2
    };
    let futures: [Pin<Box<dyn Future<Output = i32>>>; 2] = [Box::pin(waits), Box::pin(sends)];
    assert_eq!(join_all(futures).await, [1, 2]);
}

#[test]
fn none_are_done_at_once() {
    assert!(block_on_ready(join_all(Vec::<std::future::Ready<()>>::new())).is_empty());
}
