//! Internals, for tests that need a real server.

use tidegate::{
    Charge, Intent, Limit, LimitError, LimitRef, LimitVariant, Meter, NamedLimit, Nanos, NowOrLater,
    OverrideNumbers, OwnedCharge, Store, Verdict,
};

use crate::calls::wire::{PlainCall, log_entries, numbers, state_and_text};
use crate::calls::{Link, ScriptCall, State};
use crate::deciding::strict::{CallDraft, StrictRequest, execute};
use crate::failures::StoreError;
use crate::registry::LimitRegistry;

pub use crate::calls::bursts::{decode_bursts, encode_bursts};
pub use crate::calls::penalties::{decode_penalties, encode_penalties};
pub use crate::calls::scripts::Script;
pub use crate::calls::wire::{EncodedCall, decode, decode_heartbeat, encode, encode_heartbeat};

/// Can scripts count this limit exactly?
pub fn countable(limit: &Limit) -> bool {
    numbers::countable(limit).is_ok()
}

/// Can a call be sent as one with others that began before it?
pub fn can_be_one(before: &[ScriptCall], call: &ScriptCall) -> bool {
    let mut plain = before.iter().chain([call]).map(PlainCall::of);
    let Some(mut joined) = plain.next().flatten() else { return false };
    plain.all(|other| other.is_some_and(|other| joined.join(other).is_ok()))
}

/// The stored value of a meter's state as of `at`, under a text.
pub fn kept(meter: &Meter, word: u64, at: Nanos, text: &str) -> Vec<u8> {
    let (first, second) = numbers::to_pair(meter, word, at);
    [&numbers::double(first), &numbers::double(second), text.as_bytes()].concat()
}

/// The state in a stored value, if its text is that one.
pub fn state_kept(meter: &Meter, value: &[u8], text: &str) -> Option<u64> {
    let (pair, _) = state_and_text(value).filter(|(_, stored)| *stored == text.as_bytes())?;
    match numbers::from_pair(meter, pair)? {
        State::Word(word) => Some(word),
        State::Log(_) => None,
    }
}

/// The stored entries of a log, without its text.
pub fn kept_log(entries: &[(Nanos, u32)]) -> Vec<Vec<u8>> {
    let sums = entries.iter().scan(0, |sum, (at, tokens)| {
        *sum += u64::from(*tokens);
        let numbers = [numbers::micros(*at), u64::from(*tokens), *sum];
        Some(numbers.map(numbers::double).concat())
    });
    sums.collect()
}

/// The entries of a stored log, whose first element is its text.
pub fn log_kept(elements: &[Vec<u8>]) -> Option<Vec<(Nanos, u32)>> {
    let (text, entries) = elements.split_first()?;
    log_entries(&[text.as_slice(), b"\n", &entries.concat()].concat()).map(|(_, entries)| entries)
}

/// A store that calls the server for everything: no leases, no remembered denials, and the time is that of each call.
#[derive(Debug)]
pub struct ServerOnlyStore<L> {
    link: L,
    registry: LimitRegistry,
}

impl<L: Link> ServerOnlyStore<L> {
    /// A store whose keys begin with `prefix`.
    pub fn new(link: L, prefix: &str) -> ServerOnlyStore<L> {
        ServerOnlyStore { link, registry: LimitRegistry::new(prefix) }
    }

    /// The link.
    pub fn link(&self) -> &L {
        &self.link
    }
}

impl<L: Link> Store for ServerOnlyStore<L> {
    type Error = StoreError;

    fn limits(&self, limits: &[NamedLimit<'_>], now: Nanos) -> Result<Vec<LimitRef>, LimitError> {
        self.registry.name_all(limits, now)
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
        let charges: Vec<OwnedCharge> = charges.iter().map(OwnedCharge::from).collect();
        NowOrLater::later(async move {
            let charges: Vec<Charge<'_>> = charges.iter().map(OwnedCharge::as_charge).collect();
            let request =
                StrictRequest { intent, charges: &charges, wants: &[], charged_at: now, at: Some(now) };
            let mut draft = CallDraft::of(&self.registry, request)?;
            Ok(execute(&self.link, &self.registry, &mut draft, &|| true).await?.verdict)
        })
    }

    fn hand_back(&self, _charges: &[Charge<'_>], _at: Nanos) {
        unreachable!("the suite waits for what it hands back")
    }
}
