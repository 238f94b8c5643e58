//! The inside, for tests of it that need a real server.

use tidegate::{
    Charge, Intent, Limit, LimitError, LimitRef, Meter, NamedLimit, Nanos, NowOrLater, OwnedCharge, Store,
    Verdict,
};

use crate::errors::StoreError;
use crate::link::{Link, State};
use crate::registry::LimitRegistry;
use crate::strict::{StrictRequest, ask};
use crate::wire::{log_entries, numbers, state_and_text};

pub use crate::scripts::Script;
pub use crate::wire::{EncodedCall, decode, decode_beat, encode, encode_beat};

/// Can scripts count this limit?
pub fn countable(limit: &Limit) -> bool {
    numbers::countable(limit).is_ok()
}

/// What is kept of a state of a meter, read as of `at`, under a text.
pub fn kept(meter: &Meter, word: u64, at: Nanos, text: &str) -> Vec<u8> {
    let (first, second) = numbers::written(meter, word, at);
    [&numbers::double(first), &numbers::double(second), text.as_bytes()].concat()
}

/// The state that is kept in a value, if it is one under that text.
pub fn state_kept(meter: &Meter, value: &[u8], text: &str) -> Option<u64> {
    let (pair, _) = state_and_text(value).filter(|(_, written)| *written == text.as_bytes())?;
    match numbers::read(meter, pair)? {
        State::Word(word) => Some(word),
        State::Log(_) => None,
    }
}

/// The entries of a log as they are kept, after its text.
pub fn kept_log(entries: &[(Nanos, u32)]) -> Vec<Vec<u8>> {
    let sums = entries.iter().scan(0, |sum, (at, tokens)| {
        *sum += u64::from(*tokens);
        let numbers = [numbers::micros(*at), u64::from(*tokens), *sum];
        Some(numbers.map(numbers::double).concat())
    });
    sums.collect()
}

/// The entries of a log from what is kept of it, text first.
pub fn log_kept(elements: &[Vec<u8>]) -> Option<Vec<(Nanos, u32)>> {
    let (text, entries) = elements.split_first()?;
    log_entries(&[text.as_slice(), b"\n", &entries.concat()].concat()).map(|(_, entries)| entries)
}

/// A store that only asks: nothing is remembered, nothing leased, and the time is what each call says.
#[derive(Debug)]
pub struct AskingStore<L> {
    link: L,
    registry: LimitRegistry,
}

impl<L: Link> AskingStore<L> {
    /// A store whose keys begin with `prefix`.
    pub fn new(link: L, prefix: &str) -> AskingStore<L> {
        AskingStore { link, registry: LimitRegistry::new(prefix) }
    }

    /// The link.
    pub fn link(&self) -> &L {
        &self.link
    }
}

impl<L: Link> Store for AskingStore<L> {
    type Error = StoreError;

    fn limits(&self, limits: &[NamedLimit<'_>], now: Nanos) -> Result<Vec<LimitRef>, LimitError> {
        self.registry.name_all(limits, now)
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
        let charges: Vec<OwnedCharge> = charges.iter().map(OwnedCharge::from).collect();
        NowOrLater::later(async move {
            let charges: Vec<Charge<'_>> = charges.iter().map(OwnedCharge::as_charge).collect();
            let question =
                StrictRequest { intent, charges: &charges, wants: &[], charged_at: now, at: Some(now) };
            Ok(ask(&self.link, &self.registry, question, &|| true).await?.verdict)
        })
    }

    fn hand_back(&self, _charges: &[Charge<'_>], _at: Nanos) {
        unreachable!("the suite waits for what it hands back")
    }
}
