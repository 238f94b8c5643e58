//! Virtual time and what happens in it: a single thread, a heap of events, and tasks that are polled in the
//! order in which they were woken. Nothing here depends on the machine it runs on.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use tidegate_core::Nanos;

use crate::Random;
use crate::clock::ClockDriver;
use crate::trace::Trace;

/// When worlds begin: the start of a minute. All that happens does so at whole microseconds.
pub const START: Nanos = Nanos::from_secs(1_800_000_000);

/// So many polls without time moving on mean that somebody goes in circles.
const POLLS_AT_ONE_INSTANT_MAX: u64 = 1_000_000;

type Job = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A task of the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(usize);

/// A world with its time, its tasks and its chance. Clones are the same world.
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
    trace: Trace,
}

struct Task {
    node: Option<usize>,
    job: Option<Job>,
}

/// A node as the world sees it: its clock, and whether it runs.
struct NodeState {
    hands: ClockDriver,
    stopped: bool,
    /// Woken while it did not run.
    waiting: Vec<TaskId>,
}

/// What happens at an instant; what was arranged first happens first.
struct Event {
    at: Nanos,
    number: u64,
    happening: Happening,
}

enum Happening {
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
    /// A world in which everything follows from `seed`. It keeps a trace if `traced`.
    pub fn new(seed: u64, traced: bool) -> World {
        let state = State {
            now: START,
            events: BinaryHeap::new(),
            events_so_far: 0,
            tasks: Vec::new(),
            current: None,
            nodes: Vec::new(),
            random: Random::new(seed),
            trace: Trace::new(traced),
        };
        World { state: Arc::new(Mutex::new(state)), ready: Arc::default() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// The true time, which no node knows.
    pub fn now(&self) -> Nanos {
        self.lock().now
    }

    /// Something by chance.
    pub fn by_chance<T>(&self, draw: impl FnOnce(&mut Random) -> T) -> T {
        draw(&mut self.lock().random)
    }

    /// Notes a line of the trace: `node` is who it is about.
    pub fn note(&self, node: Option<usize>, what: fmt::Arguments<'_>) {
        let mut state = self.lock();
        let since = state.now.saturating_sub(START);
        state.trace.note(since, node, what);
    }

    /// The trace so far.
    pub fn take_trace(&self) -> Trace {
        std::mem::take(&mut self.lock().trace)
    }

    /// A node with its clock.
    pub fn add_node(&self, hands: ClockDriver) -> usize {
        let mut state = self.lock();
        state.nodes.push(NodeState { hands, stopped: false, waiting: Vec::new() });
        state.nodes.len() - 1
    }

    /// What a node's clock shows.
    pub fn local_now(&self, node: usize) -> Nanos {
        let state = self.lock();
        state.nodes[node].hands.shows(state.now)
    }

    /// Does something to a node's clock.
    pub fn turn_clock(&self, node: usize, turn: impl FnOnce(&mut ClockDriver, Nanos)) {
        let mut state = self.lock();
        let now = state.now;
        turn(&mut state.nodes[node].hands, now);
    }

    /// Stops a node: none of its tasks is polled until it goes on.
    pub fn stop(&self, node: usize) {
        self.lock().nodes[node].stopped = true;
    }

    /// Lets a stopped node go on.
    pub fn go_on(&self, node: usize) {
        let mut state = self.lock();
        state.nodes[node].stopped = false;
        lock(&self.ready.0).extend(state.nodes[node].waiting.drain(..));
    }

    /// Drops all tasks of a node: it is dead.
    pub fn kill(&self, node: usize) {
        let mut dead = Vec::new();
        for task in &mut self.lock().tasks {
            if task.as_ref().is_some_and(|task| task.node == Some(node)) {
                dead.push(task.take());
            }
        }
        // Dropped without the lock: a task may look at its clock while it goes.
        drop(dead);
    }

    /// Starts a task of a node, or of nobody.
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

    /// Does something at an instant, whoever is alive then.
    pub fn at(&self, at: Nanos, run: impl FnOnce() + Send + 'static) {
        self.arrange(at, Happening::Run(Box::new(run)));
    }

    /// Does something `span` from now.
    pub fn after(&self, span: Nanos, run: impl FnOnce() + Send + 'static) {
        let at = self.now().saturating_add(span);
        self.at(at, run);
    }

    fn arrange(&self, at: Nanos, happening: Happening) {
        let mut state = self.lock();
        state.events_so_far += 1;
        let number = state.events_so_far;
        state.events.push(Reverse(Event { at, number, happening }));
    }

    /// Resolves at an instant of the true time.
    pub fn until(&self, at: Nanos) -> UntilInstant {
        UntilInstant { world: self.clone(), at, asked: None }
    }

    /// Lets time pass until `end`, with all that happens before.
    ///
    /// # Panics
    /// When tasks wake each other for ever at one instant.
    pub fn run_until(&self, end: Nanos) {
        let mut polls = 0;
        loop {
            while let Some(task) = self.next_ready() {
                polls += 1;
                assert!(polls < POLLS_AT_ONE_INSTANT_MAX, "time stands still at {}", self.now());
                self.poll(task);
            }
            let mut state = self.lock();
            if state.events.peek().is_none_or(|Reverse(event)| event.at > end) {
                state.now = end;
                return;
            }
            let Reverse(event) = state.events.pop().expect("it was just looked at");
            if event.at > state.now {
                state.now = event.at;
                polls = 0;
            }
            drop(state);
            match event.happening {
                Happening::Wake(waker) => waker.wake(),
                Happening::Run(run) => run(),
            }
        }
    }

    /// Drops all tasks and all that was to happen.
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
        if let Some(node) = node.filter(|&node| state.nodes[node].stopped) {
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
            self.world.arrange(self.at, Happening::Wake(waker.clone()));
        }
        Poll::Pending
    }
}

/// Nothing panics while it holds one of these locks but what ends the run anyway.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
