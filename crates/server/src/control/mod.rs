//! The control plane: the admin API, the policy that is in force and where it comes from, and who may change it.
//!
//! It runs on a thread of its own (`thread`), so that neither a large document nor a slow database delays a decision.
//! The data plane and the control plane meet at one place: `Node::swap_policy`.

pub mod access;
mod allocation;
pub(crate) mod api;
mod cache;
pub(crate) mod candidates;
mod carried;
mod changing;
pub(crate) mod collection;
pub(crate) mod console;
mod console_files;
mod entry_edit;
mod following;
pub(crate) mod glance;
pub(crate) mod live;
mod masked_policy;
mod projection;
pub(crate) mod records;
mod running;
mod shown_explanation;
mod simulation;
pub(crate) mod startup;
mod subtree;
pub(crate) mod thread;
mod told_problems;
pub(crate) mod trials;
pub(crate) mod trust;
mod waking;

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use arc_swap::{ArcSwap, ArcSwapOption};
use tidegate_document::{DocumentNode, parse};
use tokio::runtime::Handle;
use tokio::sync::{MutexGuard, Semaphore};
use tokio::task::JoinError;

use access::Access;
use candidates::CandidateBoard;
use glance::Glance;
use live::LiveBoard;
use records::Records;
use records::retention::Keeper;
pub use running::{PolicySource, RunningPolicy};
use thread::ControlThread;
use tidegate_database::Database;
use tidegate_redis::WakeUps;
use trials::TrialQueue;
use trust::TrustBoard;

use crate::bounds::{LONG_TASKS_MAX, TOKEN_USES_INTERVAL};
use crate::node::Node;

/// What the admin API works on. The node owns it.
#[derive(Debug)]
pub struct ControlPlane {
    running: ArcSwap<RunningPolicy>,
    /// The policy as a tree, once somebody has asked for it.
    document: ArcSwapOption<ParsedPolicy>,
    access: Access,
    database: Option<Database>,
    /// Why the database did not answer, while it does not.
    database_problem: Mutex<Option<String>>,
    /// The records on their way to the database, if there is one.
    records: Option<Records>,
    /// The figures of now and of the last hour.
    glance: Glance,
    /// The channel by which nodes wake each other, if they share a store.
    wake_ups: OnceLock<WakeUps>,
    thread: ControlThread,
    /// The name of this node, once it is known.
    node_id: OnceLock<String>,
    /// Held by whoever changes the policy in the database, so that writers of this node do not race.
    writing: tokio::sync::Mutex<()>,
    /// Held by whoever puts a version of the database in force.
    swapping: tokio::sync::Mutex<()>,
    /// What is done beside the policy.
    live: LiveBoard,
    /// What is known about users.
    trust: TrustBoard,
    /// The drafts that decide beside the policy.
    candidates: CandidateBoard,
    /// Who tries something out, and who waits for that.
    trials: TrialQueue,
    /// Permits for work that computes for long: checking a large policy, replaying a trace.
    long_tasks: Arc<Semaphore>,
}

/// A text, and the tree that it was parsed to.
#[derive(Debug)]
struct ParsedPolicy {
    text: Arc<str>,
    root: Arc<DocumentNode>,
}

impl ControlPlane {
    /// A control plane on its thread.
    pub(crate) fn new(
        thread: ControlThread,
        running: RunningPolicy,
        access: Access,
        database: Option<Database>,
    ) -> ControlPlane {
        ControlPlane {
            running: ArcSwap::from_pointee(running),
            document: ArcSwapOption::empty(),
            access,
            database,
            database_problem: Mutex::default(),
            records: None,
            glance: Glance::default(),
            wake_ups: OnceLock::new(),
            thread,
            node_id: OnceLock::new(),
            writing: tokio::sync::Mutex::default(),
            swapping: tokio::sync::Mutex::default(),
            live: LiveBoard::default(),
            trust: TrustBoard::default(),
            candidates: CandidateBoard::default(),
            trials: TrialQueue::default(),
            long_tasks: Arc::new(Semaphore::new(LONG_TASKS_MAX)),
        }
    }

    /// The same, with records that are written to the database.
    #[must_use]
    pub(crate) fn recording(self, records: Option<Records>) -> ControlPlane {
        ControlPlane { records, ..self }
    }

    /// The records on their way to the database, if there is one.
    pub(crate) fn records(&self) -> Option<&Records> {
        self.records.as_ref()
    }

    /// Starts to follow the versions in the database, if the policy comes from there. `id` is the name of this node.
    pub(crate) fn follow(&self, node: &Arc<Node>, id: String) {
        let _named_before = self.node_id.set(id.clone());
        if let (Some(_), Some(shared)) = (&self.database, &node.settings().shared) {
            waking::connect(self, shared);
            self.runtime().spawn(waking::log_changes(Arc::clone(node)));
        }
        let Some(database) = self.database.clone() else { return };
        let node = Arc::clone(node);
        match self.running().source {
            PolicySource::Database => self.runtime().spawn(following::follow(node, database, id)),
            _ => self.runtime().spawn(following::listen_beside(node, database)),
        };
    }

    /// Starts to read the counters of the node once a second, and to tell the other nodes of them.
    pub(crate) fn watch_figures(&self, node: &Arc<Node>) {
        self.runtime().spawn(glance::watch(Arc::clone(node)));
        self.runtime().spawn(glance::tell(Arc::clone(node)));
    }

    /// The figures of now and of the last hour.
    pub(crate) fn glance(&self) -> &Glance {
        &self.glance
    }

    /// The channel by which nodes wake each other, if they share a store.
    pub(crate) fn wake_ups(&self) -> Option<&WakeUps> {
        self.wake_ups.get()
    }

    /// Starts to follow the live entries.
    pub(crate) fn follow_live(&self, node: &Arc<Node>) {
        self.runtime().spawn(live::follow(Arc::clone(node)));
    }

    /// What is done beside the policy.
    pub(crate) fn live(&self) -> &LiveBoard {
        &self.live
    }

    /// Starts to follow what is known about users, if trust is computed from it.
    pub(crate) fn follow_trust(&self, node: &Arc<Node>) {
        if node.limiter().trust_book().is_some() {
            self.runtime().spawn(trust::follow(Arc::clone(node)));
        }
    }

    /// What is known about users.
    pub(crate) fn trust(&self) -> &TrustBoard {
        &self.trust
    }

    /// Starts to follow the candidates in the database, if there is one.
    pub(crate) fn follow_candidates(&self, node: &Arc<Node>) {
        if self.database.is_some() {
            self.runtime().spawn(candidates::follow(Arc::clone(node)));
        }
    }

    /// The drafts that decide beside the policy.
    pub(crate) fn candidates(&self) -> &CandidateBoard {
        &self.candidates
    }

    /// Starts to write down when tokens were used last.
    pub(crate) fn note_token_uses(&self, node: &Arc<Node>) {
        let node = Arc::clone(node);
        self.runtime().spawn(async move {
            loop {
                tokio::time::sleep(TOKEN_USES_INTERVAL).await;
                if let Some(control) = node.control()
                    && let Err(error) = control.access.write_uses().await
                {
                    tracing::debug!(%error, "the last uses of tokens are not written yet");
                }
            }
        });
    }

    /// The name of this node among those that share a database.
    pub(crate) fn node_id(&self) -> Option<&str> {
        self.node_id.get().map(String::as_str)
    }

    /// Waits for the turn to change the policy.
    async fn write_turn(&self) -> MutexGuard<'_, ()> {
        self.writing.lock().await
    }

    /// Waits for the turn to put a version in force.
    async fn swap_turn(&self) -> MutexGuard<'_, ()> {
        self.swapping.lock().await
    }

    /// Starts to write records to the database, and to remove old ones.
    pub(crate) fn record(&self, node: &Node) {
        if let (Some(database), Some(records)) = (&self.database, &self.records) {
            records.write_to(database, self.runtime(), node.clock());
            let keeper = Keeper::new(database, records, node);
            self.runtime().spawn(keeper.run());
        }
    }

    /// The database, if there is one.
    pub(crate) fn database(&self) -> Option<&Database> {
        self.database.as_ref()
    }

    /// Why the database did not answer, while it does not.
    pub fn database_problem(&self) -> Option<String> {
        self.database_problem.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Notes whether the database answers, and logs it when that changes.
    pub(crate) fn set_database_problem(&self, problem: Option<String>) {
        let mut known = self.database_problem.lock().unwrap_or_else(PoisonError::into_inner);
        match (&*known, &problem) {
            (None, Some(problem)) => {
                tracing::error!(
                    problem,
                    "the database does not answer; decisions go on with the policy in force"
                );
            }
            (Some(_), None) => tracing::info!("the database answers again"),
            _ => {}
        }
        *known = problem;
    }

    /// The policy in force, as it was written.
    pub fn running(&self) -> Arc<RunningPolicy> {
        self.running.load_full()
    }

    /// The tree of the policy in force. It is parsed once for each version.
    pub(crate) async fn document(&self) -> Option<(Arc<RunningPolicy>, Arc<DocumentNode>)> {
        let running = self.running();
        let known = self.document.load_full();
        if let Some(known) = known.filter(|known| Arc::ptr_eq(&known.text, &running.text)) {
            return Some((running, Arc::clone(&known.root)));
        }
        let text = Arc::clone(&running.text);
        let root = Arc::new(self.run_long(move || parse(&text).ok()).await??);
        let parsed = ParsedPolicy { text: Arc::clone(&running.text), root: Arc::clone(&root) };
        self.document.store(Some(Arc::new(parsed)));
        Some((running, root))
    }

    /// Notes that another policy is in force.
    pub(crate) fn set_running(&self, running: RunningPolicy) {
        self.running.store(Arc::new(running));
    }

    /// Who may use the admin API.
    pub fn access(&self) -> &Access {
        &self.access
    }

    /// The runtime of the control plane.
    pub(crate) fn runtime(&self) -> &Handle {
        self.thread.handle()
    }

    /// Runs a future on the thread of the control plane, and waits for it. Not for threads that have a runtime.
    pub(crate) fn wait_for<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, JoinError> {
        self.thread.run(work)
    }

    /// Runs work that computes for long, on a thread where that delays nobody. At most [`LONG_TASKS_MAX`] run at once;
    /// the others wait. `None` if the work panicked, which the panic hook has logged.
    pub(crate) async fn run_long<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let permits = Arc::clone(&self.long_tasks);
        let permit = permits.acquire_owned().await.expect("the semaphore is never closed");
        let working = move || {
            // Kept until the work is done, even if nobody waits for it any more.
            let _permit = permit;
            work()
        };
        self.runtime().spawn_blocking(working).await.ok()
    }

    /// Runs work that computes for long and that this node does for itself: compiling what it follows. It does not wait for
    /// calls of the API that compute for long, since a block must be in force within a second whatever others ask for. There is
    /// one such task for each thing that is followed.
    pub(crate) async fn run_own<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        self.runtime().spawn_blocking(work).await.ok()
    }
}
