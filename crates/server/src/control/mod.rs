//! The control plane: the admin API, the policy that is in force and where it comes from, and who may change it.
//!
//! It runs on a thread of its own ([`thread`]), so that neither a large document nor a slow database delays a decision.
//! The data plane and the control plane meet at one place: `Node::swap_policy`.

pub mod access;
pub(crate) mod api;
pub(crate) mod collection;
mod following;
mod projection;
pub(crate) mod records;
mod running;
pub(crate) mod startup;
pub(crate) mod thread;

use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

use access::Access;
use records::Records;
use records::retention::Keeper;
pub use running::{PolicySource, RunningPolicy};
use thread::ControlThread;
use tidegate_database::Database;

use crate::bounds::LONG_TASKS_MAX;
use crate::node::Node;

/// What the admin API works on. The node owns it.
#[derive(Debug)]
pub struct ControlPlane {
    running: ArcSwap<RunningPolicy>,
    access: Access,
    database: Option<Database>,
    /// Why the database did not answer, while it does not.
    database_problem: Mutex<Option<String>>,
    /// The records on their way to the database, if there is one.
    records: Option<Records>,
    thread: ControlThread,
    /// Permits for work that computes for long: checking a large policy, replaying a trace.
    long_tasks: Arc<Semaphore>,
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
            access,
            database,
            database_problem: Mutex::default(),
            records: None,
            thread,
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
        if let (Some(database), PolicySource::Database) = (&self.database, &self.running().source) {
            self.runtime().spawn(following::follow(Arc::clone(node), database.clone(), id));
        }
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
    fn set_database_problem(&self, problem: Option<String>) {
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
}
