//! Gates: `allow` and `block`, which are checked before any limit.

use tidegate_core::Nanos;

use crate::matching::{Condition, Index};
use crate::{Facts, GateStage, Span};

/// The entries of `allow` or `block`, with an index over their conditions.
#[derive(Debug, Default)]
pub struct Gate {
    entries: Box<[GateRule]>,
    unidentified: Part,
    identified: Part,
}

/// The entries of a gate that are checked at the same stage.
#[derive(Debug, Default)]
struct Part {
    index: Index,
    is_empty: bool,
}

/// An entry of a gate.
#[derive(Clone, Debug)]
pub struct GateRule {
    /// Where it was written.
    pub at: Span,
    /// Its conditions: all must hold.
    pub conditions: Box<[Condition]>,
    /// Why it is there.
    pub reason: Option<Box<str>>,
    /// It applies before this point in time.
    pub until: Option<Nanos>,
}

impl GateRule {
    /// When it is checked.
    pub fn stage(&self) -> GateStage {
        self.conditions
            .iter()
            .map(|condition| condition.descriptor().stage())
            .max()
            .unwrap_or(GateStage::Unidentified)
    }

    /// When it ends; the latest possible time if it does not.
    fn end(&self) -> Nanos {
        self.until.unwrap_or(Nanos::MAX)
    }
}

impl Gate {
    pub(crate) fn new(entries: Vec<GateRule>) -> Gate {
        let part = |stage: GateStage| {
            let of_stage = (0..).zip(&entries).filter(move |(_, entry)| entry.stage() == stage);
            let filed = of_stage.map(|(number, entry)| (number, &*entry.conditions));
            Part { is_empty: filed.clone().next().is_none(), index: Index::new(filed) }
        };
        let (unidentified, identified) = (part(GateStage::Unidentified), part(GateStage::Identified));
        Gate { entries: entries.into(), unidentified, identified }
    }

    /// Of the entries of a stage that match and apply at `now`, the one that ends last; of equals the first.
    pub fn find(&self, stage: GateStage, facts: &Facts<'_, '_>, now: Nanos) -> Option<&GateRule> {
        let part = match stage {
            GateStage::Unidentified => &self.unidentified,
            GateStage::Identified => &self.identified,
        };
        if self.entries.is_empty() || part.is_empty {
            return None;
        }
        let mut longest: Option<&GateRule> = None;
        for number in part.index.candidates(facts) {
            let entry = &self.entries[number as usize];
            let is_longer = longest.is_none_or(|held| entry.end() > held.end());
            let applies = now < entry.end();
            if applies && is_longer && entry.conditions.iter().all(|condition| condition.holds(facts)) {
                longest = Some(entry);
            }
        }
        longest
    }

    /// All entries that are switched on.
    pub fn entries(&self) -> &[GateRule] {
        &self.entries
    }
}
