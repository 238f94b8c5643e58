//! Changes of the policy and of the overrides, which the nodes learn of one after the other.

use tidegate::engine::{Descriptor, Policy};
use tidegate_core::Nanos;

use super::node::{self, NodeLimiter};
use super::{ScenarioRun, lock};
use crate::invariants::served::TaskPurpose;
use crate::scenario::bursts::{EDIT_STAGGER, PolicyEdit};
use crate::scenario::overrides::OverrideChange;
use crate::scenario::sabotage::Sabotage;

impl ScenarioRun {
    /// Every node that lives then reads an edit, one after the other.
    pub(super) fn schedule_edit(&self, edit: PolicyEdit) {
        for node in 0..self.scenario.nodes {
            let run = self.clone();
            let at = edit.at.saturating_add(Nanos::new(EDIT_STAGGER.get() * node as u64));
            self.world.at(at, move || {
                if let Some(limiter) = run.limiter(node) {
                    run.world.note(Some(node), format_args!("reads {edit:?}"));
                    run.apply(&limiter, &edit);
                }
            });
        }
    }

    /// A node that starts reads the newest policy.
    pub(super) fn apply_edits(&self, limiter: &NodeLimiter) {
        let now = self.world.now();
        if let Some(edit) = self.scenario.edits.iter().rfind(|edit| edit.at <= now) {
            self.apply(limiter, edit);
        }
    }

    fn apply(&self, limiter: &NodeLimiter, edit: &PolicyEdit) {
        let policy = Policy::parse(&self.scenario.edited_policy(edit)).expect("an edited policy is valid");
        limiter.swap(policy).expect("a store holds a few limits");
    }

    /// Every node that lives then learns of a change of the overrides, one after the other. As a server does, it then
    /// writes the buckets in their new numbers.
    pub(super) fn schedule_override(&self, change: &OverrideChange) {
        for node in 0..self.scenario.nodes {
            let (run, change) = (self.clone(), change.clone());
            let at = change.at.saturating_add(Nanos::new(EDIT_STAGGER.get() * node as u64));
            self.world.at(at, move || {
                if let Some(limiter) = run.limiter(node) {
                    run.world.note(Some(node), format_args!("learns of {change:?}"));
                    run.put_in_force(node, &limiter, &change);
                    for key in 0..=run.scenario.limits[0].keys {
                        run.renumber(node, key);
                    }
                }
            });
        }
    }

    /// A node that starts reads the newest overrides.
    pub(super) fn apply_overrides(&self, node: usize, limiter: &NodeLimiter) {
        let now = self.world.now();
        if let Some(change) = self.scenario.overrides.iter().rfind(|change| change.at <= now) {
            self.put_in_force(node, limiter, change);
        }
    }

    fn put_in_force(&self, node: usize, limiter: &NodeLimiter, change: &OverrideChange) {
        lock(&self.notes).overrides.push((self.world.now(), node, change.clone()));
        match self.scenario.sabotage {
            Some(Sabotage::OverridesStay) if node == 0 && *change != self.scenario.overrides[0] => {}
            Some(Sabotage::OverridesTooHigh) => node::set_overrides(limiter, &change.raised_by_a_tenth()),
            _ => node::set_overrides(limiter, change),
        }
    }

    fn renumber(&self, node: usize, key: usize) {
        let run = self.clone();
        self.world.spawn(Some(node), async move {
            let Some(limiter) = run.limiter(node) else { return };
            let task = run.world.current().expect("renumbering is a task");
            let bucket = run.scenario.bucket(0, key);
            run.record.begin_acting(task, run.world.now(), bucket, TaskPurpose::Renumbering);
            let request = node::request(&[(0, key)], None);
            let named = [Descriptor::Custom("0".into())];
            let written = limiter.renumber_async("limit-0", &named, &request).await;
            run.world.note(Some(node), format_args!("writes key {key} in its new numbers: {written:?}"));
        });
    }
}
