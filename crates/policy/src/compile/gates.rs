//! Compiles `allow` and `block`.

use tidegate_core::Nanos;

use super::Compiler;
use crate::Problem;
use crate::document::GateEntry;
use crate::rules::{Gate, GateRule};

impl Compiler<'_> {
    pub(super) fn gate(&mut self, list: &str, entries: &[GateEntry], now: Nanos) -> Gate {
        let mut rules = Vec::new();
        for entry in entries.iter().filter(|entry| entry.enabled) {
            if let Some(until) = entry.until.filter(|until| until.value <= now) {
                let message = format!("this entry of `{list}` has expired and does nothing");
                let problem = Problem::warning(until.at, format!("{}.until", entry.path), message);
                self.report(problem.hint("remove the entry, or give it a later time"));
            }
            rules.push(GateRule {
                at: entry.at,
                conditions: self.conditions(&entry.conditions),
                reason: entry.reason.as_deref().map(Box::from),
                until: entry.until.map(|until| until.value),
            });
        }
        Gate::new(rules)
    }
}
