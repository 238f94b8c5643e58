//! The network between the nodes and the server: delays, losses, partitions, and a server that crashes and restarts.

mod executing;
mod joined;
mod message;
mod sabotaged;
mod sim_link;

use std::sync::{Arc, Mutex};

use tidegate_core::Nanos;
use tidegate_redis::LinkError;

use crate::invariants::burst_record::BurstRecord;
use crate::invariants::token_record::TokenRecord;
use crate::scenario::sabotage::Sabotage;
use crate::world::{World, lock};
use crate::{Model, Random};
use executing::refused;
use message::{CallSummary, Message, NetworkReply, NetworkRequest, SimReplySlot};

pub use sim_link::SimLink;

/// The conditions of the network and the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetworkConditions {
    /// The shortest delay of a message, in microseconds.
    pub delay_min: u64,
    /// How much longer it may be, in microseconds.
    pub delay_more: u64,
    /// How many messages of a thousand are lost.
    pub lost: u64,
    /// How many answers of a thousand are duplicated.
    pub doubled: u64,
    /// How long the server takes for a call, in microseconds.
    pub work: u64,
}

impl NetworkConditions {
    /// A healthy network in one data centre.
    pub const FAIR: NetworkConditions =
        NetworkConditions { delay_min: 100, delay_more: 400, lost: 0, doubled: 0, work: 20 };

    fn delay(&self, random: &mut Random) -> Nanos {
        Nanos::new((self.delay_min + random.between(0, self.delay_more)) * 1_000)
    }
}

/// The server and the nodes' connections to it. Clones are the same network.
#[derive(Clone, Debug)]
pub struct Network {
    world: World,
    server: Arc<Mutex<ServerSide>>,
    record: TokenRecord,
    bursts: BurstRecord,
    sabotage: Option<Sabotage>,
    refuses_candidate: bool,
}

#[derive(Debug)]
struct ServerSide {
    model: Model,
    /// A master that was replaced, and that some nodes are still connected to.
    old: Option<Model>,
    conditions: NetworkConditions,
    /// It does not run: connections are refused or lost.
    is_down: bool,
    /// How often it has crashed. Messages under way then are lost.
    downs: u64,
    /// How far its clock is from the true time.
    clock_off: i64,
    /// Does it know the scripts? If not, a call takes another round trip.
    knows_scripts: bool,
    connections: Vec<NodeConnection>,
    commands: u64,
}

/// The connection of one node.
#[derive(Clone, Copy, Debug, Default)]
struct NodeConnection {
    is_cut: bool,
    /// Is it to the master that was replaced?
    to_old: bool,
    /// How often it moved to another master. Messages under way then are lost.
    moves: u64,
    /// Until when the node is not connected after a crash of the server.
    down_until: Nanos,
}

impl Network {
    /// A server without any state, and the connections of `nodes` nodes.
    pub fn new(world: World, nodes: usize, conditions: NetworkConditions, record: TokenRecord) -> Network {
        let server = ServerSide {
            model: Model::default(),
            old: None,
            conditions,
            is_down: false,
            downs: 0,
            clock_off: 0,
            knows_scripts: false,
            connections: vec![NodeConnection::default(); nodes],
            commands: 0,
        };
        let server = Arc::new(Mutex::new(server));
        Network {
            world,
            server,
            record,
            bursts: BurstRecord::default(),
            sabotage: None,
            refuses_candidate: false,
        }
    }

    /// The same with a deliberate mistake.
    pub fn with_sabotage(self, sabotage: Option<Sabotage>) -> Network {
        Network { sabotage, ..self }
    }

    /// The same with a server that refuses what a policy that is tried out asks for, but for the first call for each bucket.
    pub fn refusing_candidate(self, refuses_candidate: bool) -> Network {
        Network { refuses_candidate, ..self }
    }

    /// What burst detectors counted and answered.
    pub fn bursts(&self) -> &BurstRecord {
        &self.bursts
    }

    /// The link of a node, with a deadline for answers.
    pub fn link(&self, node: usize, deadline: Nanos, has_slots: bool) -> SimLink {
        SimLink { network: self.clone(), node, deadline, has_slots, gathering: Arc::default() }
    }

    /// How many commands the server has received.
    pub fn commands(&self) -> u64 {
        lock(&self.server).commands
    }

    /// Changes the conditions.
    pub fn set_conditions(&self, conditions: NetworkConditions) {
        lock(&self.server).conditions = conditions;
    }

    /// Cuts a node off, or reconnects it.
    pub fn cut(&self, node: usize, is_cut: bool) {
        lock(&self.server).connections[node].is_cut = is_cut;
    }

    /// The server crashes; messages under way are lost.
    pub fn crash(&self) {
        let mut server = lock(&self.server);
        server.is_down = true;
        server.downs += 1;
    }

    /// The server restarts without its scripts, and with the state that `keep` leaves. Each node reconnects at a random
    /// time within the longest pause between two attempts.
    pub fn restart(&self, keep: impl FnOnce(&mut Model), attempt_pause_millis: u64) {
        let now = self.world.now();
        let mut server = lock(&self.server);
        server.is_down = false;
        server.knows_scripts = false;
        keep(&mut server.model);
        if self.sabotage == Some(Sabotage::ForgetsOnRestart) {
            server.model.forget_bursts();
        }
        for connection in &mut server.connections {
            let pause = self.world.random(|random| random.between(0, attempt_pause_millis));
            connection.down_until = now.saturating_add(Nanos::from_millis(pause));
        }
    }

    /// A replica becomes the master, with its own state, and the old master keeps running. Some nodes stay with the old
    /// one.
    pub fn split(&self, replica: Model, stays: impl Fn(usize) -> bool) {
        let mut server = lock(&self.server);
        server.old = Some(std::mem::replace(&mut server.model, replica));
        for (node, connection) in server.connections.iter_mut().enumerate() {
            connection.to_old = stays(node);
            connection.moves += u64::from(!connection.to_old);
        }
    }

    /// All nodes leave the old master.
    pub fn retire_old_master(&self) {
        let mut server = lock(&self.server);
        server.old = None;
        for connection in server.connections.iter_mut().filter(|connection| connection.to_old) {
            connection.to_old = false;
            connection.moves += 1;
        }
    }

    /// Applies a change to the server's state.
    pub fn with_model<T>(&self, change: impl FnOnce(&mut Model) -> T) -> T {
        change(&mut lock(&self.server).model)
    }

    /// The server forgets its scripts.
    pub fn forget_scripts(&self) {
        lock(&self.server).knows_scripts = false;
    }

    /// Sets the server's clock forward, or back.
    pub fn step_clock(&self, by: i64) {
        lock(&self.server).clock_off += by;
    }

    fn send(&self, from: usize, request: NetworkRequest, deadline: Nanos) -> Arc<Mutex<SimReplySlot>> {
        let slot = Arc::default();
        self.send_for(from, request, deadline, &slot);
        slot
    }

    /// Sends a request whose reply is put there.
    fn send_for(
        &self,
        from: usize,
        request: NetworkRequest,
        deadline: Nanos,
        slot: &Arc<Mutex<SimReplySlot>>,
    ) {
        let sent = self.world.now();
        let (is_down, downs, moves, arrives) = {
            let server = lock(&self.server);
            let is_down = server.is_down || server.connections[from].down_until > sent;
            let (conditions, moves) = (server.conditions, server.connections[from].moves);
            (is_down, server.downs, moves, self.world.random(|random| transit_time(&conditions, random)))
        };
        self.world.note(Some(from), format_args!("sends {}", CallSummary(&request)));
        if is_down {
            self.complete(from, slot, Err(LinkError::Down("connection refused".into())));
            return;
        }
        let (network, late) = (self.clone(), Arc::clone(slot));
        self.world.after(deadline, move || network.complete(from, &late, Err(LinkError::Timeout(deadline))));
        let request = Arc::new(request);
        let task = self.world.current();
        let message = Message { from, task, sent, downs, moves, request, slot: Arc::clone(slot) };
        match arrives {
            Some(delay) => self.deliver_after(delay, message, Network::arrive),
            None => self.world.note(Some(from), format_args!("its message is lost")),
        }
    }

    fn deliver_after(&self, delay: Nanos, message: Message, then: fn(&Network, Message)) {
        let network = self.clone();
        self.world.after(delay, move || then(&network, message));
    }

    /// A message arrives at the server.
    fn arrive(&self, message: Message) {
        let mut server = lock(&self.server);
        if server.has_lost(&message) {
            drop(server);
            self.complete(message.from, &message.slot, Err(LinkError::Lost("connection reset".into())));
            return;
        }
        if server.connections[message.from].is_cut {
            return;
        }
        let conditions = server.conditions;
        if !server.knows_scripts {
            server.knows_scripts = true;
            server.commands += 1;
            drop(server);
            self.world.note(Some(message.from), format_args!("is answered NOSCRIPT"));
            let there_and_back =
                self.world.random(|random| conditions.delay(random).saturating_add(conditions.delay(random)));
            self.deliver_after(there_and_back, message, Network::arrive);
            return;
        }
        drop(server);
        self.deliver_after(Nanos::new(conditions.work * 1_000), message, Network::serve);
    }

    /// The server executes a message.
    fn serve(&self, message: Message) {
        let now = self.world.now();
        let mut server = lock(&self.server);
        if server.has_lost(&message) {
            drop(server);
            self.complete(message.from, &message.slot, Err(LinkError::Lost("connection reset".into())));
            return;
        }
        server.commands += 1;
        let at = Nanos::new(now.get().saturating_add_signed(server.clock_off));
        let to_old = server.connections[message.from].to_old;
        let model = server.master_of(message.from);
        let reply = match &*message.request {
            NetworkRequest::ScriptCall(call) => {
                self.execute(model, call, at).map(|answer| NetworkReply::CallAnswer(Box::new(answer)))
            }
            NetworkRequest::Joined(calls) => {
                Ok(NetworkReply::Joined(calls.iter().map(|call| self.execute(model, call, at)).collect()))
            }
            NetworkRequest::Heartbeat(heartbeat) => {
                model.heartbeat(heartbeat, at).map(NetworkReply::Nodes).map_err(refused)
            }
            NetworkRequest::Bursts(call) => {
                let answers = sabotaged::count_bursts(self.sabotage, model, call, at);
                if let Ok(answers) = &answers {
                    self.bursts.counted((message.from, message.task), (now, at), call, answers);
                }
                answers.map(NetworkReply::Bursts).map_err(refused)
            }
            NetworkRequest::Penalties(call) => {
                model.list_penalties(call, at).map(NetworkReply::Penalties).map_err(refused)
            }
        };
        let conditions = server.conditions;
        drop(server);
        match (&*message.request, &reply) {
            (NetworkRequest::ScriptCall(call), Ok(NetworkReply::CallAnswer(answer))) => {
                self.note_served(&message, to_old, call, answer);
            }
            (NetworkRequest::Joined(calls), Ok(NetworkReply::Joined(answers))) => {
                let served = calls
                    .iter()
                    .zip(answers)
                    .filter_map(|(call, answer)| Some((call, answer.as_ref().ok()?)));
                served.for_each(|(call, answer)| self.note_served(&message, to_old, call, answer));
            }
            _ => {}
        }
        let back = self.world.random(|random| transit_time(&conditions, random));
        let Some(delay) = back else {
            self.world.note(Some(message.from), format_args!("the answer is lost"));
            return;
        };
        if self.world.random(|random| random.chance(conditions.doubled)) {
            let (network, message, reply) = (self.clone(), message.clone(), reply.clone());
            self.world.after(delay.saturating_add(Nanos::MILLISECOND), move || {
                network.deliver_reply(&message, reply)
            });
        }
        let network = self.clone();
        self.world.after(delay, move || network.deliver_reply(&message, reply));
    }

    fn deliver_reply(&self, message: &Message, reply: Result<NetworkReply, LinkError>) {
        let server = lock(&self.server);
        let (is_lost, is_cut) = (server.has_lost(message), server.connections[message.from].is_cut);
        drop(server);
        if is_lost {
            self.complete(message.from, &message.slot, Err(LinkError::Lost("connection reset".into())));
        } else if !is_cut {
            self.complete(message.from, &message.slot, reply);
        }
    }

    fn complete(&self, node: usize, slot: &Mutex<SimReplySlot>, reply: Result<NetworkReply, LinkError>) {
        let mut slot = lock(slot);
        if slot.is_over {
            self.world.note(Some(node), format_args!("receives an answer too late"));
            return;
        }
        slot.is_over = true;
        match &reply {
            Ok(_) => self.world.note(Some(node), format_args!("receives the answer")),
            Err(error) => self.world.note(Some(node), format_args!("receives an error: {error}")),
        }
        if !slot.joined.is_empty() {
            let joined = std::mem::take(&mut slot.joined);
            drop(slot);
            let replies = joined::replies(reply, joined.len());
            joined.iter().zip(replies).for_each(|(slot, reply)| self.complete(node, slot, reply));
            return;
        }
        slot.reply = Some(reply);
        if let Some(waker) = slot.waker.take() {
            drop(slot);
            waker.wake();
        }
    }
}

impl ServerSide {
    /// Has the connection of a message ended since it was sent?
    fn has_lost(&self, message: &Message) -> bool {
        self.downs != message.downs || self.connections[message.from].moves != message.moves
    }

    fn master_of(&mut self, node: usize) -> &mut Model {
        match &mut self.old {
            Some(old) if self.connections[node].to_old => old,
            _ => &mut self.model,
        }
    }
}

/// The delay of a message; `None` if it is lost.
fn transit_time(conditions: &NetworkConditions, random: &mut Random) -> Option<Nanos> {
    let delay = conditions.delay(random);
    (!random.chance(conditions.lost)).then_some(delay)
}
