//! Follows the carrier: reads what is new, and puts it in force on this node.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tidegate::{Clock, Nanos};
use tidegate_database::{LiveHead, UnixMillis};
use tidegate_redis::WakeTopic;

use super::carrier::{CarrierError, LiveCarrier, LiveNews};
use super::entry::LiveEntry;
use super::known::KnownLive;
use super::{LiveBoard, acting, gates, renumbering};
use crate::control::carried::{Carried, CarriedPage, FollowLog};
use crate::control::startup::unix_millis;
use crate::node::Node;

/// How often the carrier is told to forget what has ended.
const TIDY_INTERVAL: Nanos = Nanos::from_secs(60);

/// How often this node looks whether the kill switch has ended.
const END_PAUSE: Duration = Duration::from_millis(100);

/// Follows the carrier until the runtime ends. While it does not answer, what is known stays in force.
pub(in crate::control) async fn follow(node: Arc<Node>) {
    let Some(control) = node.control() else { return };
    let mut log = FollowLog::new(
        "live entries cannot be read; those that are known stay in force",
        "live entries can be read again",
    );
    let followed = async {
        loop {
            log.note(catch_up(&node).await);
            renumbering::retry(&node, control.live()).await;
            control.live().tell_uses(&node).await;
            control.live().tidy(&node).await;
            control.live().place.wait(control.wake_ups(), WakeTopic::Live).await;
        }
    };
    tokio::join!(followed, end_in_time(&node, control.live()));
}

impl LiveBoard {
    /// Lets the carrier forget what nobody needs to learn of any more, now and then: there may be no other change for long.
    async fn tidy(&self, node: &Node) {
        let now = node.clock().now();
        {
            let mut last = self.tidied.lock().unwrap_or_else(PoisonError::into_inner);
            if last.is_some_and(|tidied| now.saturating_sub(tidied) < TIDY_INTERVAL) {
                return;
            }
            *last = Some(now);
        }
        if let Err(error) = LiveCarrier::of(node).tidy(unix_millis(node.clock().wall())).await {
            tracing::debug!(%error, "live entries that have ended are forgotten later");
        }
    }
}

/// Ends the kill switch at its time, also while a carrier or a store lets this node wait. The engine itself knows when the
/// other entries end.
async fn end_in_time(node: &Node, board: &LiveBoard) {
    loop {
        tokio::time::sleep(END_PAUSE).await;
        let now = unix_millis(node.clock().wall());
        let mut known = board.known();
        if known.summary.is_some_and(|summary| summary.first_end.is_some_and(|end| end <= now)) {
            set_kill_switch(node, board, &mut known, now);
        }
    }
}

/// Puts aside what has ended, and sets the kill switch. The entries are held meanwhile, so that the last to change them sets it.
fn set_kill_switch(node: &Node, board: &LiveBoard, known: &mut KnownLive, now: UnixMillis) {
    let is_killed = known.put_ended_aside(now, node.clock().now()).is_killed;
    node.follow_kill_switch(board.is_kill_switch_forced() || is_killed);
}

/// Puts a change in force that the carrier has, or that no carrier needs to have.
pub(super) async fn apply(node: &Arc<Node>, remove: &[String], add: &[LiveEntry]) {
    let Some(control) = node.control() else { return };
    let board = control.live();
    let _turn = board.place.turn().await;
    {
        let mut known = board.known();
        remove.iter().for_each(|id| known.put(id.clone(), None));
        add.iter().for_each(|entry| known.add(entry.clone()));
    }
    put_in_force(node, board).await;
}

/// Reads what is new, and puts it in force.
///
/// # Errors
/// When the carrier does not answer.
pub(crate) async fn catch_up(node: &Arc<Node>) -> Result<(), CarrierError> {
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

    async fn page(&self, seen: LiveHead, after: u64) -> Result<Option<CarriedPage<LiveNews>>, CarrierError> {
        LiveCarrier::of(self.node).news(seen, after).await
    }

    async fn take(&self, news: Vec<LiveNews>) {
        self.follow_actions(&news).await;
        self.board.known().take(news);
    }

    async fn replace(&self, all: Vec<LiveNews>) {
        // What was done before this node knew any entries is done.
        if !self.board.place.is_loaded() {
            let mut known = self.board.known();
            known.replace(all);
            known.changed_overrides.clear();
            return;
        }
        // Somebody's first change makes an epoch on a Redis that has none, so this too may be what somebody did just now.
        self.follow_actions(&all).await;
        self.board.known().replace(all);
    }
}

impl FollowedLive<'_> {
    /// Does what others have done, as far as it is new.
    async fn follow_actions(&self, news: &[LiveNews]) {
        for action in news.iter().filter_map(|news| news.entry.as_ref()) {
            if !self.board.known().has(&action.id) {
                acting::follow(self.node, self.board, action).await;
            }
        }
    }
}

/// Sets the kill switch, compiles the gates and the overrides if they have changed, and forgets what has ended.
async fn put_in_force(node: &Arc<Node>, board: &LiveBoard) {
    let Some(control) = node.control() else { return };
    let (wall, spelling) = (node.clock().wall(), node.limiter().rules().spelling());
    let (entries, overrides) = {
        let mut known = board.known();
        set_kill_switch(node, board, &mut known, unix_millis(wall));
        let is_right = known.compiled == Some(spelling);
        known.compiled = Some(spelling);
        let gates: Option<Vec<LiveEntry>> =
            (!is_right).then(|| known.entries.values().filter(|entry| entry.is_gate()).cloned().collect());
        (gates, known.overrides_to_compile(node.settings().nodes, spelling))
    };
    if let Some(entries) = entries {
        let compiled = control.run_own(move || gates::compile(&entries, spelling, wall)).await;
        match compiled {
            Some(rules) => node.limiter().set_live_gates(rules),
            None => {
                tracing::error!("the live entries could not be compiled; the previous ones stay in force")
            }
        }
    }
    if let Some((work, changed)) = overrides {
        match control.run_own(move || work.run(wall)).await {
            Some((overrides, compiled)) => {
                board.known().overrides = compiled;
                node.limiter().set_overrides(overrides);
                renumbering::renumber(node, changed).await;
            }
            None => tracing::error!("the overrides could not be compiled; the previous ones stay in force"),
        }
    }
}

#[cfg(test)]
mod tests {

    use tidegate_policy::RuleSet;

    use super::*;
    use crate::control::live::entry::LiveKind;
    use crate::control::live::known::tests::entry;
    use crate::identity::Identity;
    use crate::settings::Settings;

    /// A carrier that lets this node wait has the turn meanwhile.
    #[tokio::test(start_paused = true)]
    async fn the_kill_switch_ends_at_its_time_while_the_carrier_lets_this_node_wait() {
        let settings = Settings { max_keys: 100, ..Settings::default() };
        let identity = Identity::new(&settings).expect("it needs no files");
        let node = Node::new(settings, RuleSet::default(), identity).expect("it is small");
        let (board, now) = (LiveBoard::default(), unix_millis(node.clock().wall()));
        let _turn = board.place.turn().await;
        let until = Some(now.plus(5));
        board.known().put("a".into(), Some(LiveEntry { until, ..entry("a", LiveKind::KillSwitch, 0) }));
        board.known().put("b".into(), Some(entry("b", LiveKind::Block, 0)));
        set_kill_switch(&node, &board, &mut board.known(), now);
        assert!(node.limiter().kill_switch());
        let ended = async {
            while node.limiter().kill_switch() {
                tokio::time::sleep(END_PAUSE).await;
            }
        };
        tokio::select! {
            () = end_in_time(&node, &board) => {}
            () = ended => {}
        }
        assert_eq!(board.known().entries.keys().collect::<Vec<_>>(), ["b"]);
    }
}
