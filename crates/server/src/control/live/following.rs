//! Follows the carrier: reads what is new, and puts it in force on this node.

use std::sync::Arc;
use std::time::Duration;

use tidegate::{Clock, Nanos};
use tidegate_database::LiveHead;
use tidegate_policy::PathSpelling;
use tidegate_redis::WakeTopic;

use super::carrier::{CarrierError, LiveCarrier, LiveNews};
use super::entry::{LiveEntry, LiveKind};
use super::overrides::OverrideWork;
use super::{KnownLive, LiveBoard, acting, gates};
use crate::control::startup::unix_millis;
use crate::node::Node;

/// How often the carrier is asked for its last sequence: one small read.
const POLL_PAUSE: Duration = Duration::from_millis(200);

/// The pause after a wake-up, so that many of them do not become as many questions.
const WAKE_PAUSE: Duration = Duration::from_millis(10);

/// What was removed is kept by carriers for an hour; a node that heard nothing for this long reads everything anew.
const TOO_LONG: Nanos = Nanos::from_secs(30 * 60);

/// Follows the carrier until the runtime ends. While it does not answer, what is known stays in force.
pub(in crate::control) async fn follow(node: Arc<Node>) {
    let mut is_failing = false;
    loop {
        let caught_up = catch_up(&node).await;
        match (&caught_up, is_failing) {
            (Err(error), false) => {
                tracing::warn!(%error, "live entries cannot be read; those that are known stay in force");
            }
            (Ok(()), true) => tracing::info!("live entries can be read again"),
            _ => {}
        }
        is_failing = caught_up.is_err();
        if let Some(control) = node.control() {
            control.live().tell_uses(&node).await;
        }
        wait(&node).await;
    }
}

/// Waits until there may be news: the database or another node tells so, or some time has passed.
async fn wait(node: &Node) {
    let Some(control) = node.control() else { return };
    let woken = async {
        match control.wake_ups() {
            Some(wake_ups) => wake_ups.woken(WakeTopic::Live).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = tokio::time::sleep(POLL_PAUSE) => {}
        // Many wake-ups are one question to the carrier.
        () = control.live().woken.notified() => tokio::time::sleep(WAKE_PAUSE).await,
        () = woken => tokio::time::sleep(WAKE_PAUSE).await,
    }
}

/// Puts a change in force that the carrier has, or that no carrier needs to have.
pub(super) async fn apply(node: &Arc<Node>, remove: &[String], add: &[LiveEntry]) {
    let Some(control) = node.control() else { return };
    let board = control.live();
    let _turn = board.catching_up.lock().await;
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
    let _turn = board.catching_up.lock().await;
    let read = read_news(node, board).await;
    put_in_force(node, board).await;
    read?;
    board.loaded.send_replace(true);
    Ok(())
}

async fn read_news(node: &Node, board: &LiveBoard) -> Result<(), CarrierError> {
    let carrier = LiveCarrier::of(node);
    let mut seen = {
        let mut known = board.known();
        let now = node.clock().now();
        if known.answered.is_some_and(|answered| now.saturating_sub(answered) > TOO_LONG) {
            known.head = LiveHead::default();
        }
        known.head
    };
    // Filled anew if the epoch changes; put in place as a whole.
    let mut rebuilt: Option<KnownLive> = None;
    loop {
        let Some(page) = carrier.news(seen).await? else { return Ok(()) };
        if page.head.epoch != seen.epoch {
            rebuilt = Some(KnownLive::default());
            seen = LiveHead { epoch: page.head.epoch, sequence: 0 };
        }
        seen.sequence = page.news.last().map_or(seen.sequence, |news| news.sequence);
        if page.is_last {
            seen.sequence = seen.sequence.max(page.head.sequence);
        }
        // What was done before this node knew the entries is done.
        if rebuilt.is_none() {
            for action in page.news.iter().filter_map(|news| news.entry.as_ref()) {
                acting::follow(node, board, action).await;
            }
        }
        let mut known = board.known();
        match &mut rebuilt {
            Some(rebuilt) => rebuilt.take(page.news),
            None => known.take(page.news),
        }
        if page.is_last {
            if let Some(rebuilt) = rebuilt {
                let overrides = std::mem::take(&mut known.overrides);
                let told_uses = std::mem::take(&mut known.told_uses);
                *known = KnownLive { overrides, told_uses, ..rebuilt };
            }
            (known.head, known.answered) = (seen, Some(node.clock().now()));
            return Ok(());
        }
        if rebuilt.is_none() {
            known.head = seen;
        }
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
