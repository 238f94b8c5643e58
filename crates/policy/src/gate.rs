//! Who passes, or is refused, before any limit is looked at.

use tidegate_core::Nanos;

use crate::matching::{Condition, Index};
use crate::{Facts, Span};

/// `allow` or `block`: entries, found by what they name.
#[derive(Debug, Default)]
pub struct Gate {
    entries: Box<[GateRule]>,
    index: Index,
}

/// An entry of a gate.
#[derive(Clone, Debug)]
pub struct GateRule {
    /// Where it stands in the document.
    pub at: Span,
    /// All must hold.
    pub conditions: Box<[Condition]>,
    /// Why it is there.
    pub reason: Option<Box<str>>,
    /// It counts before this instant.
    pub until: Option<Nanos>,
}

impl GateRule {
    /// When it stops to count; the end of time if it does not.
    fn end(&self) -> Nanos {
        self.until.unwrap_or(Nanos::MAX)
    }
}

impl Gate {
    pub(crate) fn new(entries: Vec<GateRule>) -> Gate {
        let index = Index::new((0..).zip(entries.iter().map(|entry| &*entry.conditions)));
        Gate { entries: entries.into(), index }
    }

    /// Of the entries that count at `now` and match, the one that does so longest;
    /// of equals the first.
    pub fn find(&self, facts: &Facts<'_, '_>, now: Nanos) -> Option<&GateRule> {
        if self.entries.is_empty() {
            return None;
        }
        let mut longest: Option<&GateRule> = None;
        for number in self.index.candidates(facts) {
            let entry = &self.entries[number as usize];
            let is_longer = longest.is_none_or(|held| entry.end() > held.end());
            let counts = now < entry.end();
            if counts && is_longer && entry.conditions.iter().all(|condition| condition.holds(facts)) {
                longest = Some(entry);
            }
        }
        longest
    }

    /// All entries that are in use.
    pub fn entries(&self) -> &[GateRule] {
        &self.entries
    }
}
