//! Gates: `allow` and `block`, which are checked before any limit.

use tidegate_core::Nanos;

use crate::matching::{Condition, Index};
use crate::{Descriptor, Facts, GateStage, Span};

/// The entries of `allow` or `block`, with an index over their conditions.
#[derive(Debug, Default)]
pub struct Gate {
    entries: Box<[GateRule]>,
    unidentified: Part,
    /// Entries that could be checked at once, but for the route, which the policy's routes may tell only later.
    by_route: Part,
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
    /// When its descriptors are known, and whether one of them is the route, which may be known later.
    fn stage(&self) -> (GateStage, bool) {
        let descriptors = || self.conditions.iter().map(Condition::descriptor);
        let stage = GateStage::last_of(descriptors().map(|descriptor| descriptor.stage()));
        (stage, descriptors().any(|descriptor| descriptor == Descriptor::Route))
    }

    /// When it ends; the latest possible time if it does not.
    fn end(&self) -> Nanos {
        self.until.unwrap_or(Nanos::MAX)
    }
}

impl Gate {
    pub(crate) fn new(entries: Vec<GateRule>) -> Gate {
        let part = |is_in: fn((GateStage, bool)) -> bool| {
            let of_stage = (0..).zip(&entries).filter(move |(_, entry)| is_in(entry.stage()));
            let filed = of_stage.map(|(number, entry)| (number, &*entry.conditions));
            Part { is_empty: filed.clone().next().is_none(), index: Index::new(filed) }
        };
        let unidentified = part(|stage| stage == (GateStage::Unidentified, false));
        let by_route = part(|stage| stage == (GateStage::Unidentified, true));
        let identified = part(|(stage, _)| stage == GateStage::Identified);
        Gate { entries: entries.into(), unidentified, by_route, identified }
    }

    /// Of the entries of a stage that match and apply at `now`, the one that ends last; of equals the first.
    pub fn find(&self, stage: GateStage, facts: &Facts<'_, '_>, now: Nanos) -> Option<&GateRule> {
        if self.entries.is_empty() {
            return None;
        }
        let of_stage = match stage {
            GateStage::Unidentified => &self.unidentified,
            GateStage::Identified => &self.identified,
        };
        let by_route = Some(&self.by_route).filter(|_| facts.route_stage == stage);
        let mut longest: Option<(u32, &GateRule)> = None;
        for part in std::iter::once(of_stage).chain(by_route).filter(|part| !part.is_empty) {
            for number in part.index.candidates(facts) {
                let entry = &self.entries[number as usize];
                let goes_before =
                    |(held_number, held): (u32, &GateRule)| (entry.end(), held_number) > (held.end(), number);
                let applies = now < entry.end() && longest.is_none_or(goes_before);
                if applies && entry.conditions.iter().all(|condition| condition.holds(facts)) {
                    longest = Some((number, entry));
                }
            }
        }
        longest.map(|(_, entry)| entry)
    }

    /// All entries that are switched on.
    pub fn entries(&self) -> &[GateRule] {
        &self.entries
    }
}
