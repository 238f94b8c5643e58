//! Between the nodes and the server: delays, losses, partitions, and a server that comes and goes.

mod sim_link;

use std::sync::{Arc, Mutex};
use std::task::Waker;

use tidegate_core::Nanos;
use tidegate_redis::{CallAnswer, LinkError, ScriptCall};

use crate::ledger::{CallOrigin, Ledger};
use crate::world::{TaskId, World, lock};
use crate::{Model, Random};
use sim_link::CallSummary;

pub use sim_link::SimLink;

/// What the way to the server is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetworkConditions {
    /// How long a message takes at least, in microseconds…
    pub delay_min: u64,
    /// …and how much longer at most.
    pub delay_more: u64,
    /// How many messages of a thousand are lost.
    pub lost: u64,
    /// How many answers of a thousand come twice.
    pub doubled: u64,
    /// How long the server itself takes for a call, in microseconds.
    pub work: u64,
}

impl NetworkConditions {
    /// A good day in one data centre.
    pub const FAIR: NetworkConditions =
        NetworkConditions { delay_min: 100, delay_more: 400, lost: 0, doubled: 0, work: 20 };

    fn delay(&self, random: &mut Random) -> Nanos {
        Nanos::new((self.delay_min + random.between(0, self.delay_more)) * 1_000)
    }
}

/// The server and the lines to it. Clones are the same one.
#[derive(Clone, Debug)]
pub struct Network {
    world: World,
    site: Arc<Mutex<Site>>,
    ledger: Ledger,
}

#[derive(Debug)]
struct Site {
    model: Model,
    /// A master that was replaced, and that some lines still lead to.
    old: Option<Model>,
    weather: NetworkConditions,
    /// Not running: who connects is refused, and who was connected has lost it.
    is_down: bool,
    /// How often it has gone down: what was under way then is lost.
    downs: u64,
    /// How far its clock is from the true time.
    clock_off: i64,
    /// Does it know the scripts? If not, a call takes one more message.
    knows_scripts: bool,
    lines: Vec<Line>,
    commands: u64,
}

/// The line of one node.
#[derive(Clone, Copy, Debug, Default)]
struct Line {
    is_cut: bool,
    /// Does it lead to the master that was replaced?
    to_old: bool,
    /// How often it went to another master: what was under way then is lost.
    moves: u64,
    /// Until when there is no connection, after the server was down.
    down_until: Nanos,
}

/// What is sent.
#[derive(Clone, Debug)]
enum Asked {
    ScriptCall(Box<ScriptCall>),
    Beat { node: u128, alive: bool, within: Nanos },
}

/// What comes back.
#[derive(Clone, Debug)]
enum Told {
    CallAnswer(Box<CallAnswer>),
    Nodes(u32),
}

/// Where an answer is waited for. The first that comes is the answer.
#[derive(Debug, Default)]
struct Slot {
    told: Option<Result<Told, LinkError>>,
    is_over: bool,
    waker: Option<Waker>,
}

/// A message under way.
#[derive(Clone, Debug)]
struct Letter {
    from: usize,
    task: Option<TaskId>,
    sent: Nanos,
    /// Of the server, and of the line.
    downs: u64,
    moves: u64,
    asked: Arc<Asked>,
    slot: Arc<Mutex<Slot>>,
}

impl Network {
    /// A server that keeps nothing yet, and lines of so many nodes to it.
    pub fn new(world: World, nodes: usize, weather: NetworkConditions, ledger: Ledger) -> Network {
        let site = Site {
            model: Model::default(),
            old: None,
            weather,
            is_down: false,
            downs: 0,
            clock_off: 0,
            knows_scripts: false,
            lines: vec![Line::default(); nodes],
            commands: 0,
        };
        Network { world, site: Arc::new(Mutex::new(site)), ledger }
    }

    /// The link of a node, on which an answer may take so long.
    pub fn link(&self, node: usize, deadline: Nanos, has_slots: bool) -> SimLink {
        SimLink { network: self.clone(), node, deadline, has_slots }
    }

    /// How many commands the server was given.
    pub fn commands(&self) -> u64 {
        lock(&self.site).commands
    }

    /// Changes the weather.
    pub fn set_weather(&self, weather: NetworkConditions) {
        lock(&self.site).weather = weather;
    }

    /// Cuts the line of a node, or mends it.
    pub fn cut(&self, node: usize, is_cut: bool) {
        lock(&self.site).lines[node].is_cut = is_cut;
    }

    /// The server goes down; what was under way is lost.
    pub fn go_down(&self) {
        let mut site = lock(&self.site);
        site.is_down = true;
        site.downs += 1;
    }

    /// The server comes up without its scripts, and with what `keep` leaves it. Nodes find it again one by one,
    /// each within the longest pause between two attempts.
    pub fn come_up(&self, keep: impl FnOnce(&mut Model), attempt_pause_millis: u64) {
        let now = self.world.now();
        let mut site = lock(&self.site);
        site.is_down = false;
        site.knows_scripts = false;
        keep(&mut site.model);
        for line in &mut site.lines {
            let pause = self.world.by_chance(|random| random.between(0, attempt_pause_millis));
            line.down_until = now.saturating_add(Nanos::from_millis(pause));
        }
    }

    /// Another becomes the master, and knows what it knows; the old one goes on. Some nodes stay with it.
    pub fn split(&self, replica: Model, stays: impl Fn(usize) -> bool) {
        let mut site = lock(&self.site);
        site.old = Some(std::mem::replace(&mut site.model, replica));
        for (node, line) in site.lines.iter_mut().enumerate() {
            line.to_old = stays(node);
            line.moves += u64::from(!line.to_old);
        }
    }

    /// Whoever stayed with the old master leaves it.
    pub fn leave_the_old_master(&self) {
        let mut site = lock(&self.site);
        site.old = None;
        for line in site.lines.iter_mut().filter(|line| line.to_old) {
            line.to_old = false;
            line.moves += 1;
        }
    }

    /// Does something to what the server keeps.
    pub fn with_model<T>(&self, change: impl FnOnce(&mut Model) -> T) -> T {
        change(&mut lock(&self.site).model)
    }

    /// The server forgets its scripts.
    pub fn forget_scripts(&self) {
        lock(&self.site).knows_scripts = false;
    }

    /// Sets the server's clock forward, or back.
    pub fn step_clock(&self, by: i64) {
        lock(&self.site).clock_off += by;
    }

    fn post(&self, from: usize, asked: Asked, deadline: Nanos) -> Arc<Mutex<Slot>> {
        let slot = Arc::new(Mutex::new(Slot::default()));
        let sent = self.world.now();
        let (is_down, downs, moves, arrives) = {
            let site = lock(&self.site);
            let is_down = site.is_down || site.lines[from].down_until > sent;
            let (weather, moves) = (site.weather, site.lines[from].moves);
            (is_down, site.downs, moves, self.world.by_chance(|random| under_way(&weather, random)))
        };
        self.world.note(Some(from), format_args!("sends {}", CallSummary(&asked)));
        if is_down {
            self.fill(from, &slot, Err(LinkError::Down("connection refused".into())));
            return slot;
        }
        let (network, late) = (self.clone(), Arc::clone(&slot));
        self.world.after(deadline, move || network.fill(from, &late, Err(LinkError::Timeout(deadline))));
        let asked = Arc::new(asked);
        let task = self.world.current();
        let letter = Letter { from, task, sent, downs, moves, asked, slot: Arc::clone(&slot) };
        match arrives {
            Some(delay) => self.carry(delay, letter, Network::arrive),
            None => self.world.note(Some(from), format_args!("its message is lost")),
        }
        slot
    }

    fn carry(&self, delay: Nanos, letter: Letter, then: fn(&Network, Letter)) {
        let network = self.clone();
        self.world.after(delay, move || then(&network, letter));
    }

    /// A message has come to the server.
    fn arrive(&self, letter: Letter) {
        let mut site = lock(&self.site);
        if site.has_lost(&letter) {
            drop(site);
            self.fill(letter.from, &letter.slot, Err(LinkError::Lost("connection reset".into())));
            return;
        }
        if site.lines[letter.from].is_cut {
            return;
        }
        let weather = site.weather;
        if !site.knows_scripts {
            site.knows_scripts = true;
            site.commands += 1;
            drop(site);
            self.world.note(Some(letter.from), format_args!("is told that there is no such script"));
            let there_and_back =
                self.world.by_chance(|random| weather.delay(random).saturating_add(weather.delay(random)));
            self.carry(there_and_back, letter, Network::arrive);
            return;
        }
        drop(site);
        self.carry(Nanos::new(weather.work * 1_000), letter, Network::serve);
    }

    /// The server comes to it.
    fn serve(&self, letter: Letter) {
        let now = self.world.now();
        let mut site = lock(&self.site);
        if site.has_lost(&letter) {
            drop(site);
            self.fill(letter.from, &letter.slot, Err(LinkError::Lost("connection reset".into())));
            return;
        }
        site.commands += 1;
        let at = Nanos::new(now.get().saturating_add_signed(site.clock_off));
        let model = site.master_of(letter.from);
        let told = match &*letter.asked {
            Asked::ScriptCall(call) => model.call(call, at).map(|answer| Told::CallAnswer(Box::new(answer))),
            Asked::Beat { node, alive, within } => model.beat(*node, *alive, *within, at).map(Told::Nodes),
        };
        let weather = site.weather;
        drop(site);
        let told = told.map_err(|error| LinkError::Refused(error.to_string()));
        if let (Asked::ScriptCall(call), Ok(Told::CallAnswer(answer))) = (&*letter.asked, &told) {
            self.world
                .note(Some(letter.from), format_args!("is served: {:?} {:?}", answer.said, answer.leased));
            let caller = CallOrigin { task: letter.task, node: letter.from, sent: letter.sent };
            self.ledger.executed(caller, now, call, answer);
        }
        let back = self.world.by_chance(|random| under_way(&weather, random));
        let Some(delay) = back else {
            self.world.note(Some(letter.from), format_args!("the answer is lost"));
            return;
        };
        if self.world.by_chance(|random| random.chance(weather.doubled)) {
            let (network, letter, told) = (self.clone(), letter.clone(), told.clone());
            self.world
                .after(delay.saturating_add(Nanos::MILLISECOND), move || network.come_back(&letter, told));
        }
        let network = self.clone();
        self.world.after(delay, move || network.come_back(&letter, told));
    }

    fn come_back(&self, letter: &Letter, told: Result<Told, LinkError>) {
        let site = lock(&self.site);
        let (is_lost, is_cut) = (site.has_lost(letter), site.lines[letter.from].is_cut);
        drop(site);
        if is_lost {
            self.fill(letter.from, &letter.slot, Err(LinkError::Lost("connection reset".into())));
        } else if !is_cut {
            self.fill(letter.from, &letter.slot, told);
        }
    }

    fn fill(&self, node: usize, slot: &Mutex<Slot>, told: Result<Told, LinkError>) {
        let mut slot = lock(slot);
        if slot.is_over {
            self.world.note(Some(node), format_args!("hears something that is over"));
            return;
        }
        slot.is_over = true;
        match &told {
            Ok(_) => self.world.note(Some(node), format_args!("hears the answer")),
            Err(error) => self.world.note(Some(node), format_args!("hears: {error}")),
        }
        slot.told = Some(told);
        if let Some(waker) = slot.waker.take() {
            drop(slot);
            waker.wake();
        }
    }
}

impl Site {
    /// Is the connection gone that a message came over?
    fn has_lost(&self, letter: &Letter) -> bool {
        self.downs != letter.downs || self.lines[letter.from].moves != letter.moves
    }

    fn master_of(&mut self, node: usize) -> &mut Model {
        match &mut self.old {
            Some(old) if self.lines[node].to_old => old,
            _ => &mut self.model,
        }
    }
}

/// How long a message takes, if it is not lost.
fn under_way(weather: &NetworkConditions, random: &mut Random) -> Option<Nanos> {
    let delay = weather.delay(random);
    (!random.chance(weather.lost)).then_some(delay)
}
