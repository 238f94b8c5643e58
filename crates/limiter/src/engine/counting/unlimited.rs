//! Counts requests that met no limit, by what they lacked for one. Nothing here runs while limits apply.

use std::collections::HashMap;
use std::sync::Arc;

use smallvec::SmallVec;
use tidegate_policy::{Descriptor, Facts, RuleSet};

use super::counters::Totals;

/// How many descriptors have a counter of their own; the others share one.
const DESCRIPTORS_MAX: usize = 64;

/// What a request that met no limit lacked for one, where that is not a descriptor. The names are those of counters,
/// and no descriptor is written in brackets.
const NOTHING: &str = "(none)";
const ONLY_SHADOW: &str = "(shadow)";
const OTHERS: &str = "(other)";
const FIXED: [&str; 3] = [NOTHING, ONLY_SHADOW, OTHERS];

/// Counters by name. A name keeps its counter as long as policies use it.
pub(crate) type MissingCounters = HashMap<Box<str>, Arc<Totals>>;

/// The counters for one policy: those of [`FIXED`], then one for each descriptor that its limits count by.
#[derive(Debug, Default)]
pub(crate) struct UnlimitedCounters {
    counters: Vec<(Box<str>, Arc<Totals>)>,
    places: HashMap<Descriptor, usize>,
}

/// How often a request that met no limit lacked something for one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingCount {
    /// A descriptor that limits count by; `(none)` if the conditions of no limit held, `(shadow)` if only limits in
    /// shadow mode applied, `(other)` for descriptors beyond the first 64.
    pub missing: String,
    /// How many requests.
    pub count: u64,
}

impl UnlimitedCounters {
    /// The counters for a policy; names that are known keep theirs.
    pub(crate) fn of(rules: &RuleSet, known: &MissingCounters) -> UnlimitedCounters {
        let mut all = UnlimitedCounters::default();
        let counter = |name: &str| known.get(name).cloned().unwrap_or_else(|| Arc::new(Totals::new(1)));
        all.counters.extend(FIXED.map(|name| (name.into(), counter(name))));
        let tenant = (!rules.tenants().is_empty()).then_some(&Descriptor::Tenant);
        let limits = rules.limits().iter().filter(|rule| rule.enabled);
        for descriptor in limits.flat_map(|rule| &rule.key).chain(tenant) {
            if all.places.len() >= DESCRIPTORS_MAX {
                break;
            }
            if !all.places.contains_key(descriptor) {
                let name = descriptor.to_string();
                all.places.insert(descriptor.clone(), all.counters.len());
                let counter = counter(&name);
                all.counters.push((name.into(), counter));
            }
        }
        all
    }

    /// The counters by name.
    pub(crate) fn by_name(&self) -> MissingCounters {
        self.counters.iter().cloned().collect()
    }

    /// Counts a request that met no limit: once for each descriptor that it lacked.
    #[cold]
    pub(crate) fn count(&self, rules: &RuleSet, facts: &Facts<'_, '_>, has_shadow: bool) {
        let mut places = SmallVec::<[usize; 8]>::new();
        let place_of = |name: &str| FIXED.iter().position(|known| *known == name).unwrap_or_default();
        rules.missing(facts, |descriptor| {
            let place = self.places.get(descriptor).copied().unwrap_or_else(|| place_of(OTHERS));
            if !places.contains(&place) {
                places.push(place);
            }
        });
        if places.is_empty() {
            places.push(place_of(if has_shadow { ONLY_SHADOW } else { NOTHING }));
        }
        for place in places {
            self.counters[place].1.add(0);
        }
    }

    /// The counts, in the order of the document.
    pub(crate) fn counts(&self) -> Vec<MissingCount> {
        let count = |(name, totals): &(Box<str>, Arc<Totals>)| MissingCount {
            missing: name.to_string(),
            count: totals.get(0),
        };
        self.counters.iter().map(count).collect()
    }
}
