//! Follows the carrier: reads what is new, and puts it in force on this node.

use std::sync::Arc;
use std::time::Duration;

use tidegate::{Clock, Nanos};
use tidegate_database::LiveHead;
use tidegate_redis::WakeTopic;

use super::carrier::{CarrierError, LiveCarrier, LiveNews};
use super::entry::{LiveEntry, LiveKind};
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
        if !remove.is_empty() || add.iter().any(LiveEntry::is_gate) {
            known.compiled = None;
        }
        for id in remove {
            known.entries.remove(id);
        }
        known.entries.extend(add.iter().map(|entry| (entry.id.clone(), entry.clone())));
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
                *known = rebuilt;
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
            if entry.as_ref().is_none_or(LiveEntry::is_gate) {
                self.compiled = None;
            }
            match entry {
                Some(entry) => _ = self.entries.insert(id, entry),
                None => _ = self.entries.remove(&id),
            }
        }
    }
}

/// Sets the kill switch, compiles the gates if they have changed, and forgets what has ended.
async fn put_in_force(node: &Arc<Node>, board: &LiveBoard) {
    let Some(control) = node.control() else { return };
    let (wall, spelling) = (node.clock().wall(), node.limiter().rules().spelling());
    let entries: Option<Vec<LiveEntry>> = {
        let mut known = board.known();
        let now = unix_millis(wall);
        // A gate that has ended does nothing, but it would be compiled for ever.
        let mut has_ended = false;
        known.entries.retain(|_, entry| {
            has_ended |= !entry.holds(now) && entry.is_gate();
            entry.holds(now)
        });
        let is_right = !has_ended && known.compiled == Some(spelling);
        known.compiled = Some(spelling);
        let is_killed = known.entries.values().any(|entry| entry.kind == LiveKind::KillSwitch);
        node.follow_kill_switch(board.is_kill_switch_forced() || is_killed);
        (!is_right).then(|| known.entries.values().filter(|entry| entry.is_gate()).cloned().collect())
    };
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
