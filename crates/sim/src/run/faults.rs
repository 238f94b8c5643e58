//! The faults of a run: when they begin and end, and what more may be spent because of them.

use std::sync::{Arc, Mutex};

use tidegate_core::Nanos;
use tidegate_redis::StoreMode;

use super::{ScenarioRun, SoloEvent};
use crate::Model;
use crate::invariants::Allowance;
use crate::invariants::served::ServerEvent;
use crate::scenario::faults::{Fault, FaultKind};
use crate::world::lock;

/// The longest pause between two attempts to connect, in milliseconds.
const ATTEMPT_PAUSE: u64 = 500;

impl ScenarioRun {
    pub(super) fn schedule_fault(&self, fault: Fault) {
        if let FaultKind::Failover { lag } | FaultKind::TwoMasters { lag, .. } = fault.what {
            let (run, kept) = (self.clone(), Arc::new(Mutex::new(Model::default())));
            let replica = Arc::clone(&kept);
            self.world.at(fault.from.saturating_sub(lag), move || {
                *lock(&replica) = run.network.with_model(|model| model.clone());
            });
            let run = self.clone();
            match fault.what {
                FaultKind::TwoMasters { stay, .. } => {
                    self.world.at(fault.from, move || run.split(&lock(&kept), stay, &fault));
                }
                _ => self.world.at(fault.until, move || run.fail_over(&lock(&kept))),
            }
        }
        let run = self.clone();
        self.world.at(fault.from, move || run.begin_fault(&fault));
        let run = self.clone();
        self.world.at(fault.until, move || run.end_fault(&fault));
    }

    fn begin_fault(&self, fault: &Fault) {
        self.world.note(None, format_args!("begins: {:?}", fault.what));
        match fault.what {
            FaultKind::NetworkConditions(conditions) => self.network.set_conditions(conditions),
            FaultKind::Partition(nodes) => self.cut(nodes, true),
            FaultKind::Restart { .. } | FaultKind::Failover { .. } => self.network.crash(),
            FaultKind::TwoMasters { .. } => {}
            FaultKind::ScriptFlush => self.network.forget_scripts(),
            FaultKind::OutOfMemory => self.network.with_model(|model| model.out_of_memory = true),
            FaultKind::ServerStep(by) => {
                self.network.step_clock(by);
                if let Ok(by) = u64::try_from(by) {
                    self.allow(None, Allowance::Jump(Nanos::new(by)));
                }
            }
            FaultKind::NodeStep(node, by) => {
                self.world.with_clock(node, |clock, now| clock.step(now, by));
                if by < 0 {
                    self.stretch(node, Nanos::new(by.unsigned_abs()));
                } else {
                    self.allow_alone(node, Allowance::Jump(Nanos::new(by.unsigned_abs())));
                }
            }
            FaultKind::Suspend { node, clock_stands } => {
                self.world.suspend(node);
                if clock_stands {
                    self.world.with_clock(node, |clock, now| clock.stand_still(now, true));
                    self.stretch(node, fault.until.saturating_sub(fault.from));
                }
            }
            FaultKind::Crash(node) => drop(self.end_node(node)),
            FaultKind::Leave(node) => self.leave(node),
            FaultKind::Poison => {
                for key in self.network.with_model(|model| model.poison(|_| true)) {
                    let bucket = self.record.bucket_of(&key);
                    self.allow(bucket, Allowance::Capacity);
                    self.record.happened(ServerEvent::Lost(bucket));
                }
            }
        }
    }

    fn end_fault(&self, fault: &Fault) {
        self.world.note(None, format_args!("ends: {:?}", fault.what));
        match fault.what {
            FaultKind::NetworkConditions(_) => self.network.set_conditions(self.scenario.conditions),
            FaultKind::Partition(nodes) => self.cut(nodes, false),
            FaultKind::Restart { empty: false } => self.network.restart(|_| {}, ATTEMPT_PAUSE),
            FaultKind::Restart { empty: true } => {
                self.network.restart(Model::wipe, ATTEMPT_PAUSE);
                self.network.bursts().lost_writes(self.world.now());
                self.allow(None, Allowance::Capacity);
                self.record.happened(ServerEvent::Lost(None));
            }
            FaultKind::OutOfMemory => self.network.with_model(|model| model.out_of_memory = false),
            FaultKind::Suspend { node, clock_stands } => {
                if clock_stands {
                    self.world.with_clock(node, |clock, now| clock.stand_still(now, false));
                }
                self.world.resume(node);
            }
            FaultKind::Crash(node) | FaultKind::Leave(node) => {
                drop(self.end_node(node));
                self.allow_alone(node, Allowance::Capacity);
                self.start_node(node);
            }
            FaultKind::TwoMasters { .. } => {
                self.network.retire_old_master();
                self.record.happened(ServerEvent::Merged);
            }
            FaultKind::Failover { .. }
            | FaultKind::ScriptFlush
            | FaultKind::ServerStep(_)
            | FaultKind::NodeStep(..)
            | FaultKind::Poison => {}
        }
    }

    fn fail_over(&self, replica: &Model) {
        // The replica is not out of memory, even if the master was.
        let mut replica = replica.clone();
        replica.out_of_memory = false;
        self.network.restart(|model| *model = replica, ATTEMPT_PAUSE);
        self.network.bursts().lost_writes(self.world.now());
        self.allow(None, Allowance::Capacity);
        self.record.happened(ServerEvent::Lost(None));
    }

    /// Both masters give tokens for as long as some node stays with the old one, and their leases live on after that.
    fn split(&self, replica: &Model, stay: u64, fault: &Fault) {
        self.network.split(replica.clone(), |node| stay >> node & 1 == 1);
        self.record.happened(ServerEvent::Split);
        let life = match self.scenario.mode {
            StoreMode::Strict => Nanos::ZERO,
            // Measured by the slowest clock.
            StoreMode::Hybrid { life } => {
                let life = Nanos::from(life).get();
                Nanos::new(life + life / 1_000 + 1_000)
            }
        };
        let both = fault.until.saturating_sub(fault.from);
        self.allow(None, Allowance::TwoMasters(both.saturating_add(life)));
    }

    /// A node leaves cleanly: its clients stop, then it hands its unused leases back.
    fn leave(&self, node: usize) {
        if let Some(limiter) = self.end_node(node) {
            self.world.spawn(Some(node), async move { limiter.store().leave().await });
        }
    }

    fn cut(&self, nodes: u64, is_cut: bool) {
        for node in (0..self.scenario.nodes).filter(|node| nodes >> node & 1 == 1) {
            self.network.cut(node, is_cut);
        }
    }

    fn allow(&self, bucket: Option<usize>, allowance: Allowance) {
        lock(&self.notes).allowances.push((self.world.now(), bucket, allowance));
    }

    fn allow_alone(&self, node: usize, allowance: Allowance) {
        let now = self.world.now();
        let mut notes = lock(&self.notes);
        for bucket in 0..self.scenario.buckets().len() {
            notes.alone.entry((node, bucket)).or_default().push(SoloEvent::Allowance(now, allowance));
        }
    }

    fn stretch(&self, node: usize, by: Nanos) {
        let mut notes = lock(&self.notes);
        let stretched = notes.stretched.entry(node).or_default();
        *stretched = stretched.saturating_add(by);
    }
}
