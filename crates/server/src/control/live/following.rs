//! Follows the carrier: reads what is new, and puts it in force on this node.

use std::sync::Arc;

use tidegate::Clock;
use tidegate_database::LiveHead;
use tidegate_policy::PathSpelling;
use tidegate_redis::WakeTopic;

use super::carrier::{CarrierError, LiveCarrier, LiveNews};
use super::entry::{LiveEntry, LiveKind};
use super::overrides::OverrideWork;
use super::{KnownLive, LiveBoard, acting, gates};
use crate::control::carried::{Carried, CarriedPage, FollowLog};
use crate::control::startup::unix_millis;
use crate::node::Node;

/// Follows the carrier until the runtime ends. While it does not answer, what is known stays in force.
pub(in crate::control) async fn follow(node: Arc<Node>) {
    let Some(control) = node.control() else { return };
    let mut log = FollowLog::new(
        "live entries cannot be read; those that are known stay in force",
        "live entries can be read again",
    );
    loop {
        log.note(catch_up(&node).await);
        control.live().tell_uses(&node).await;
        control.live().place.wait(control.wake_ups(), WakeTopic::Live).await;
    }
}

/// Puts a change in force that the carrier has, or that no carrier needs to have.
pub(super) async fn apply(node: &Arc<Node>, remove: &[String], add: &[LiveEntry]) {
    let Some(control) = node.control() else { return };
    let board = control.live();
    let _turn = board.place.turn().await;
    {
        let mut known = board.known();
        remove.iter().for_each(|id| known.put(id.clone(), None));
        add.iter().for_each(|entry| known.put(entry.id.clone(), Some(entry.clone())));
    }
    put_in_force(node, board).await;
}

/// Reads what is new, and puts it in force.
pub(in crate::control) async fn catch_up(node: &Arc<Node>) -> Result<(), CarrierError> {
    let Some(control) = node.control() else { return Ok(()) };
    let board = control.live();
    let _turn = board.place.turn().await;
    let read = board.place.read(&FollowedLive { node, board }, node.clock().now()).await;
    put_in_force(node, board).await;
    read?;
    board.place.note_loaded();
    Ok(())
}

/// The entries of the carrier, and those that this node knows.
struct FollowedLive<'n> {
    node: &'n Node,
    board: &'n LiveBoard,
}

impl Carried for FollowedLive<'_> {
    type News = LiveNews;
    type Error = CarrierError;

    fn sequence(news: &LiveNews) -> u64 {
        news.sequence
    }

    async fn page(&self, seen: LiveHead) -> Result<Option<CarriedPage<LiveNews>>, CarrierError> {
        LiveCarrier::of(self.node).news(seen).await
    }

    async fn take(&self, news: Vec<LiveNews>) {
        for action in news.iter().filter_map(|news| news.entry.as_ref()) {
            acting::follow(self.node, self.board, action).await;
        }
        self.board.known().take(news);
    }

    /// What was done before this node knew the entries is done.
    fn replace(&self, all: Vec<LiveNews>) {
        let mut rebuilt = KnownLive::default();
        rebuilt.take(all);
        let mut known = self.board.known();
        rebuilt.overrides = std::mem::take(&mut known.overrides);
        rebuilt.told_uses = std::mem::take(&mut known.told_uses);
        *known = rebuilt;
    }
}

impl KnownLive {
    fn take(&mut self, news: Vec<LiveNews>) {
        for LiveNews { id, entry, .. } in news {
            self.put(id, entry);
        }
    }

    /// Adds an entry, or removes it.
    pub(super) fn put(&mut self, id: String, entry: Option<LiveEntry>) {
        let added = entry.as_ref().map(|entry| entry.kind);
        let removed = match entry {
            Some(entry) => self.entries.insert(id, entry),
            None => self.entries.remove(&id),
        };
        for kind in added.into_iter().chain(removed.map(|entry| entry.kind)) {
            match kind {
                LiveKind::Override => self.compiled_overrides = None,
                LiveKind::Block | LiveKind::Allow => self.compiled = None,
                LiveKind::KillSwitch | LiveKind::Keys => {}
            }
        }
    }

    /// The overrides to compile, if they have changed.
    fn changed_overrides(&mut self, nodes: u32, spelling: PathSpelling) -> Option<OverrideWork> {
        if self.compiled_overrides == Some(spelling) {
            return None;
        }
        self.compiled_overrides = Some(spelling);
        let overrides = self.entries.values().filter(|entry| entry.kind == LiveKind::Override);
        Some(self.overrides.work(overrides, nodes, spelling))
    }
}

/// Sets the kill switch, compiles the gates and the overrides if they have changed, and forgets what has ended.
async fn put_in_force(node: &Arc<Node>, board: &LiveBoard) {
    let Some(control) = node.control() else { return };
    let (wall, spelling) = (node.clock().wall(), node.limiter().rules().spelling());
    let (entries, overrides) = {
        let mut known = board.known();
        let now = unix_millis(wall);
        // An entry that has ended does nothing, but it would be compiled for ever.
        let ended: Vec<String> =
            known.entries.values().filter(|entry| !entry.holds(now)).map(|entry| entry.id.clone()).collect();
        ended.into_iter().for_each(|id| known.put(id, None));
        let is_right = known.compiled == Some(spelling);
        known.compiled = Some(spelling);
        let is_killed = known.entries.values().any(|entry| entry.kind == LiveKind::KillSwitch);
        node.follow_kill_switch(board.is_kill_switch_forced() || is_killed);
        let gates: Option<Vec<LiveEntry>> =
            (!is_right).then(|| known.entries.values().filter(|entry| entry.is_gate()).cloned().collect());
        (gates, known.changed_overrides(node.settings().nodes, spelling))
    };
    if let Some(work) = overrides {
        match control.run_long(move || work.run(wall)).await {
            Some((overrides, compiled)) => {
                board.known().overrides = compiled;
                node.limiter().set_overrides(overrides);
            }
            None => tracing::error!("the overrides could not be compiled; the previous ones stay in force"),
        }
    }
    if let Some(entries) = entries {
        let compiled = control.run_long(move || gates::compile(&entries, spelling, wall)).await;
        match compiled {
            Some(rules) => node.limiter().set_live_gates(rules),
            None => {
                tracing::error!("the live entries could not be compiled; the previous ones stay in force")
            }
        }
    }
}
