//! Follows the versions in the database: each new one is compiled, put in force on this node, and reported.
//!
//! Three things make a node look: the database tells of a change (PostgreSQL) or its file is looked at (SQLite), another
//! node wakes it by the shared store, and a second has passed. All of them are hints; what is in force is decided by what
//! the database has.

use std::sync::Arc;
use std::time::Duration;

use tidegate::{Clock, Nanos};
use tidegate_database::{
    Database, DatabaseError, DatabaseKind, NodeReport, PolicyChanges, PolicyVersion, VersionChange,
    VersionMark,
};
use tidegate_policy::RuleSet;
use tidegate_redis::WakeTopic;
use tokio::sync::Notify;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::task::AbortOnDropHandle;

use super::startup::{running, unix_millis};
use super::{ControlPlane, RunningPolicy, cache};
use crate::node::Node;
use crate::node::lifecycle::ReloadedPart;
use crate::serve::reload::policy_file;

/// How often a node reports which version it runs, and looks for another one even if nothing has told it to.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);

/// The pause after a wake-up, so that many of them do not become as many questions to the database.
const WAKE_PAUSE: Duration = Duration::from_millis(10);

/// Follows the versions until the runtime ends.
pub(super) async fn follow(node: Arc<Node>, database: Database, id: String) {
    write_cache(&node).await;
    let mut follower = Follower { node, database, id, error: None, failed: None, mark: None };
    let changed = Arc::new(Notify::new());
    let listening = listen(Arc::clone(&follower.node), follower.database.changes(), Arc::clone(&changed));
    let _listening = AbortOnDropHandle::new(tokio::spawn(listening));
    let mut reports = interval(REPORT_INTERVAL);
    reports.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let node = Arc::clone(&follower.node);
    loop {
        let is_due = tokio::select! {
            () = changed.notified() => false,
            () = woken(&node) => {
                tokio::time::sleep(WAKE_PAUSE).await;
                false
            }
            _tick = reports.tick() => true,
        };
        if follower.catch_up().await || is_due {
            follower.report().await;
        }
    }
}

/// Hears from PostgreSQL of changes beside a policy that comes from elsewhere, until the runtime ends. A SQLite file tells
/// nothing of them.
pub(super) async fn listen_beside(node: Arc<Node>, database: Database) {
    if database.kind() == DatabaseKind::Postgres {
        let nobody = Arc::new(Notify::new());
        listen(node, database.changes(), nobody).await;
    }
}

/// Tells when the database has told of a change: of a version, of what is done beside the policy, or of users. It runs by
/// itself, since it tests a quiet connection after a while, which it would not come to if it began anew with every report.
async fn listen(node: Arc<Node>, mut changes: PolicyChanges, changed: Arc<Notify>) {
    let Some(control) = node.control() else { return };
    loop {
        match changes.next().await {
            VersionChange::Version(_) => changed.notify_one(),
            VersionChange::Live => control.live().wake(),
            VersionChange::Trust => control.trust().wake(),
            VersionChange::Unknown => {
                changed.notify_one();
                control.live().wake();
                control.trust().wake();
            }
        }
    }
}

/// Waits until another node tells that there may be another version.
async fn woken(node: &Node) {
    match node.control().and_then(ControlPlane::wake_ups) {
        Some(wake_ups) => {
            wake_ups.woken(WakeTopic::Policy).await;
            node.metrics().woken();
        }
        None => std::future::pending().await,
    }
}

struct Follower {
    node: Arc<Node>,
    database: Database,
    /// The name of this node.
    id: String,
    /// Why the newest version is not in force here.
    error: Option<String>,
    /// The version that this node could not put in force. It is not tried again.
    failed: Option<VersionMark>,
    /// The policy in force, and its mark: the hash of a large text is computed once.
    mark: Option<(Arc<RunningPolicy>, VersionMark)>,
}

impl Follower {
    /// Puts the active version in force, unless it is already. Returns whether this node has something new to report.
    async fn catch_up(&mut self) -> bool {
        let node = Arc::clone(&self.node);
        let Some(control) = node.control() else { return false };
        // Held while the version is read too, so that no newer one is replaced by it.
        let _turn = control.swap_turn().await;
        let known = match self.database.active_mark().await {
            Ok(Some(known)) => known,
            Ok(None) => return false,
            Err(error) => {
                self.database_failed(&error);
                return false;
            }
        };
        if known == self.running_mark(control) {
            self.failed = None;
            if self.error.take().is_none() {
                return false;
            }
            node.lifecycle().set_problem(ReloadedPart::Policy, None);
            return true;
        }
        if self.failed == Some(known) {
            return false;
        }
        let active = match self.database.active_version().await {
            Ok(Some(active)) => active,
            Ok(None) => return false,
            Err(error) => {
                self.database_failed(&error);
                return false;
            }
        };
        let mark = VersionMark { version: active.head.version, sha256: active.head.sha256 };
        let put = put_in_force(&node, active).await;
        self.error = conclude(&node, mark.version, put);
        self.failed = self.error.is_some().then_some(mark);
        true
    }

    /// The number and the hash of the policy in force.
    fn running_mark(&mut self, control: &ControlPlane) -> VersionMark {
        let running = control.running();
        match &self.mark {
            Some((known, mark)) if Arc::ptr_eq(known, &running) => *mark,
            _ => {
                let mark = VersionMark { version: running.version, sha256: running.sha256() };
                self.mark = Some((running, mark));
                mark
            }
        }
    }

    /// Tells the other nodes which version this one runs.
    async fn report(&mut self) {
        let Some(control) = self.node.control() else { return };
        let running = control.running();
        let report = NodeReport {
            id: self.id.clone(),
            version: Some(running.version),
            since: unix_millis(running.since),
            seen: unix_millis(self.node.clock().wall()),
            error: self.error.clone(),
            address: None,
            figures: serde_json::to_string(&*control.glance().told()).ok(),
        };
        let reported = self.database.report(&report).await;
        match reported {
            Ok(()) => control.set_database_problem(None),
            Err(error) => self.database_failed(&error),
        }
    }

    fn database_failed(&self, error: &DatabaseError) {
        if let Some(control) = self.node.control() {
            control.set_database_problem(Some(error.to_string()));
        }
    }
}

/// Compiles a version and swaps it in.
async fn put_in_force(node: &Arc<Node>, version: PolicyVersion) -> Result<(), String> {
    let control = node.control().ok_or("there is no control plane")?;
    let now = node.clock().wall();
    let policy = running(version, now).map_err(|error| error.to_string())?;
    let (text, compiling) = (Arc::clone(&policy.text), Arc::clone(node));
    let compiled = control.run_own(move || compile(&compiling, &text, now)).await;
    swap(node, policy, compiled.ok_or("compiling it failed unexpectedly")??)?;
    write_cache(node).await;
    Ok(())
}

/// Puts a version in force that was published through this node, unless it is already, or another one is active by now.
pub(super) async fn take_effect(node: &Arc<Node>, policy: RunningPolicy, rules: RuleSet) {
    let Some(control) = node.control() else { return };
    let Some(database) = control.database() else { return };
    let _turn = control.swap_turn().await;
    let (running, number) = (control.running(), policy.version);
    let mark = VersionMark { version: number, sha256: policy.sha256() };
    let is_active = match database.active_mark().await {
        Ok(active) => active == Some(mark),
        // Not known; the follower looks again as soon as the database answers.
        Err(_) => number > running.version,
    };
    if is_active && (number, &policy.text) != (running.version, &running.text) {
        let swapped = swap(node, policy, rules);
        if conclude(node, number, swapped).is_none() {
            write_cache(node).await;
        }
    }
}

fn swap(node: &Node, policy: RunningPolicy, rules: RuleSet) -> Result<(), String> {
    let control = node.control().ok_or("there is no control plane")?;
    node.swap_policy(rules, Some(policy.version)).map_err(|error| error.to_string())?;
    control.set_running(policy);
    Ok(())
}

/// Writes the policy in force to the cache file of the settings, if they name one.
async fn write_cache(node: &Arc<Node>) {
    let Some(control) = node.control() else { return };
    let Some(file) = node.settings().database.as_ref().and_then(|database| database.cache.clone()) else {
        return;
    };
    let policy = control.running();
    let written = control.run_own(move || cache::write(&file, &policy).map_err(|error| (file, error))).await;
    if let Some(Err((file, error))) = written {
        tracing::warn!(file = %file.display(), %error, "the policy was not written to the cache file");
    }
}

/// Tells what became of a version; returns why it is not in force.
fn conclude(node: &Node, number: u64, put: Result<(), String>) -> Option<String> {
    let problem = put.err().map(|problem| format!("version {number}: {problem}"));
    node.lifecycle().set_problem(ReloadedPart::Policy, problem.clone());
    match &problem {
        None => {
            node.metrics().policy_reloaded();
            tracing::info!(version = number, "policy updated from the database");
        }
        Some(problem) => {
            node.metrics().reload_failed(ReloadedPart::Policy);
            tracing::error!(problem, "the new version was not put in force; the previous one stays");
        }
    }
    problem
}

fn compile(node: &Node, text: &str, now: Nanos) -> Result<RuleSet, String> {
    let compiled = policy_file::compile(text, node.settings(), now);
    compiled.map(|(rules, _)| rules).map_err(|problems| policy_file::on_one_line("policy", &problems))
}
