//! A deterministic executor with virtual time: one thread, a heap of timed events, and tasks that are polled in the
//! order in which they were woken. Nothing in it depends on the machine.

pub(crate) mod clock;
pub(crate) mod event_log;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use tidegate_core::Nanos;

use crate::Random;
use crate::world::clock::ClockDriver;
use crate::world::event_log::EventLog;

/// When every run begins: the start of a minute. All events are at whole microseconds.
pub const START: Nanos = Nanos::from_secs(1_800_000_000);

/// More polls than this at one instant mean that tasks wake each other for ever.
const POLLS_AT_ONE_INSTANT_MAX: u64 = 1_000_000;

type Job = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The id of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(usize);

/// Virtual time, tasks and random numbers of a run. Clones are the same world.
#[derive(Clone)]
pub struct World {
    state: Arc<Mutex<State>>,
    ready: Arc<Ready>,
}

#[derive(Default)]
struct Ready(Mutex<VecDeque<TaskId>>);

struct State {
    now: Nanos,
    events: BinaryHeap<Reverse<Event>>,
    events_so_far: u64,
    tasks: Vec<Option<Task>>,
    current: Option<TaskId>,
    nodes: Vec<NodeState>,
    random: Random,
    event_log: EventLog,
}

struct Task {
    node: Option<usize>,
    job: Option<Job>,
}

/// A node's clock, and whether the node runs.
struct NodeState {
    clock: ClockDriver,
    suspended: bool,
    /// Tasks that were woken while it was suspended.
    waiting: Vec<TaskId>,
}

/// A timed event. Of two at the same instant, the one that was scheduled first happens first.
struct Event {
    at: Nanos,
    number: u64,
    action: EventAction,
}

enum EventAction {
    Wake(Waker),
    Run(Box<dyn FnOnce() + Send>),
}

impl Ord for Event {
    fn cmp(&self, other: &Event) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Event) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Event {
    fn eq(&self, other: &Event) -> bool {
        self.number == other.number
    }
}

impl Eq for Event {}

struct TaskWaker {
    task: TaskId,
    ready: Arc<Ready>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        lock(&self.ready.0).push_back(self.task);
    }
}

impl World {
    /// A world in which everything follows from `seed`. Keeps the event log if `logged`.
    pub fn new(seed: u64, logged: bool) -> World {
        let state = State {
            now: START,
            events: BinaryHeap::new(),
            events_so_far: 0,
            tasks: Vec::new(),
            current: None,
            nodes: Vec::new(),
            random: Random::new(seed),
            event_log: EventLog::new(logged),
        };
        World { state: Arc::new(Mutex::new(state)), ready: Arc::default() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// The true time, which no node can read.
    pub fn now(&self) -> Nanos {
        self.lock().now
    }

    /// Draws from the random numbers of the run.
    pub fn random<T>(&self, draw: impl FnOnce(&mut Random) -> T) -> T {
        draw(&mut self.lock().random)
    }

    /// Writes a line to the event log, about a node or about none.
    pub fn note(&self, node: Option<usize>, what: fmt::Arguments<'_>) {
        let mut state = self.lock();
        let since = state.now.saturating_sub(START);
        state.event_log.note(since, node, what);
    }

    /// Takes the event log out.
    pub fn take_event_log(&self) -> EventLog {
        std::mem::take(&mut self.lock().event_log)
    }

    /// Adds a node with its clock, and returns its number.
    pub fn add_node(&self, clock: ClockDriver) -> usize {
        let mut state = self.lock();
        state.nodes.push(NodeState { clock, suspended: false, waiting: Vec::new() });
        state.nodes.len() - 1
    }

    /// What a node's clock shows.
    pub fn local_now(&self, node: usize) -> Nanos {
        let state = self.lock();
        state.nodes[node].clock.shows(state.now)
    }

    /// Applies a change to a node's clock.
    pub fn with_clock(&self, node: usize, turn: impl FnOnce(&mut ClockDriver, Nanos)) {
        let mut state = self.lock();
        let now = state.now;
        turn(&mut state.nodes[node].clock, now);
    }

    /// Suspends a node: none of its tasks is polled until it resumes.
    pub fn suspend(&self, node: usize) {
        self.lock().nodes[node].suspended = true;
    }

    /// Resumes a suspended node.
    pub fn resume(&self, node: usize) {
        let mut state = self.lock();
        state.nodes[node].suspended = false;
        lock(&self.ready.0).extend(state.nodes[node].waiting.drain(..));
    }

    /// Crashes a node: drops all its tasks.
    pub fn kill(&self, node: usize) {
        let mut dead = Vec::new();
        for task in &mut self.lock().tasks {
            if task.as_ref().is_some_and(|task| task.node == Some(node)) {
                dead.push(task.take());
            }
        }
        // Dropped without the lock: a task may read its clock in `drop`.
        drop(dead);
    }

    /// Spawns a task of a node, or of none.
    pub fn spawn(&self, node: Option<usize>, job: impl Future<Output = ()> + Send + 'static) -> TaskId {
        let mut state = self.lock();
        let id = TaskId(state.tasks.len());
        state.tasks.push(Some(Task { node, job: Some(Box::pin(job)) }));
        lock(&self.ready.0).push_back(id);
        id
    }

    /// The task that is being polled.
    pub fn current(&self) -> Option<TaskId> {
        self.lock().current
    }

    /// Runs a function at an instant, whichever nodes are alive then.
    pub fn at(&self, at: Nanos, run: impl FnOnce() + Send + 'static) {
        self.schedule(at, EventAction::Run(Box::new(run)));
    }

    /// Runs a function `span` from now.
    pub fn after(&self, span: Nanos, run: impl FnOnce() + Send + 'static) {
        let at = self.now().saturating_add(span);
        self.at(at, run);
    }

    fn schedule(&self, at: Nanos, action: EventAction) {
        let mut state = self.lock();
        state.events_so_far += 1;
        let number = state.events_so_far;
        state.events.push(Reverse(Event { at, number, action }));
    }

    /// Resolves at an instant of the true time.
    pub fn until(&self, at: Nanos) -> UntilInstant {
        UntilInstant { world: self.clone(), at, asked: None }
    }

    /// Advances time to `end`, with all events before it.
    ///
    /// # Panics
    /// When tasks wake each other for ever at one instant.
    pub fn run_until(&self, end: Nanos) {
        let mut polls = 0;
        loop {
            while let Some(task) = self.next_ready() {
                polls += 1;
                assert!(polls < POLLS_AT_ONE_INSTANT_MAX, "tasks wake each other for ever at {}", self.now());
                self.poll(task);
            }
            let mut state = self.lock();
            if state.events.peek().is_none_or(|Reverse(event)| event.at > end) {
                state.now = end;
                return;
            }
            let Reverse(event) = state.events.pop().expect("the heap was not empty");
            if event.at > state.now {
                state.now = event.at;
                polls = 0;
            }
            drop(state);
            match event.action {
                EventAction::Wake(waker) => waker.wake(),
                EventAction::Run(run) => run(),
            }
        }
    }

    /// Drops all tasks and events.
    pub fn end(&self) {
        let mut state = self.lock();
        let (tasks, events) = (std::mem::take(&mut state.tasks), std::mem::take(&mut state.events));
        drop(state);
        drop((tasks, events));
    }

    fn next_ready(&self) -> Option<TaskId> {
        lock(&self.ready.0).pop_front()
    }

    fn poll(&self, id: TaskId) {
        let mut state = self.lock();
        let Some(task) = state.tasks[id.0].as_mut() else { return };
        let node = task.node;
        if let Some(node) = node.filter(|&node| state.nodes[node].suspended) {
            let waiting = &mut state.nodes[node].waiting;
            if !waiting.contains(&id) {
                waiting.push(id);
            }
            return;
        }
        let job = state.tasks[id.0].as_mut().and_then(|task| task.job.take());
        state.current = Some(id);
        drop(state);
        let Some(mut job) = job else { return };
        let waker = Waker::from(Arc::new(TaskWaker { task: id, ready: Arc::clone(&self.ready) }));
        let polled = job.as_mut().poll(&mut Context::from_waker(&waker));
        let mut state = self.lock();
        state.current = None;
        match polled {
            Poll::Ready(()) => state.tasks[id.0] = None,
            Poll::Pending => {
                if let Some(task) = state.tasks[id.0].as_mut() {
                    task.job = Some(job);
                }
            }
        }
    }
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "World at {}", self.now().saturating_sub(START))
    }
}

/// Resolves at an instant; see [`World::until`].
#[derive(Debug)]
pub struct UntilInstant {
    world: World,
    at: Nanos,
    asked: Option<Waker>,
}

impl Future for UntilInstant {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.world.now() >= self.at {
            return Poll::Ready(());
        }
        let waker = context.waker();
        if !self.asked.as_ref().is_some_and(|asked| asked.will_wake(waker)) {
            self.asked = Some(waker.clone());
            self.world.schedule(self.at, EventAction::Wake(waker.clone()));
        }
        Poll::Pending
    }
}

/// A panic while such a lock is held ends the run anyway, so poisoning is ignored.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
