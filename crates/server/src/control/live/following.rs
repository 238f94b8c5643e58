//! Follows the carrier: reads what is new, and puts it in force on this node.

use std::collections::HashSet;
use std::sync::Arc;

use tidegate::Clock;
use tidegate_database::{LiveHead, UnixMillis};
use tidegate_policy::PathSpelling;
use tidegate_redis::WakeTopic;

use super::carrier::{CarrierError, LiveCarrier, LiveNews};
use super::entry::{LiveEntry, LiveKind};
use super::overrides::OverrideWork;
use super::{EntrySummary, KnownLive, LiveBoard, acting, gates, renumbering};
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
        renumbering::retry(&node, control.live()).await;
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
            if !self.board.known().entries.contains_key(&action.id) {
                acting::follow(self.node, self.board, action).await;
            }
        }
    }
}

impl KnownLive {
    fn take(&mut self, news: Vec<LiveNews>) {
        for LiveNews { id, entry, .. } in news {
            self.put(id, entry);
        }
    }

    /// Puts everything in the place of what is known.
    fn replace(&mut self, all: Vec<LiveNews>) {
        let there: HashSet<&str> = all.iter().map(|news| news.id.as_str()).collect();
        let gone: Vec<String> =
            self.entries.keys().filter(|id| !there.contains(id.as_str())).cloned().collect();
        gone.into_iter().for_each(|id| self.put(id, None));
        self.take(all);
    }

    /// Adds an entry, or removes it.
    pub(super) fn put(&mut self, id: String, entry: Option<LiveEntry>) {
        let added = entry.clone();
        let removed = match entry {
            Some(entry) => self.entries.insert(id, entry),
            None => self.entries.remove(&id),
        };
        if added == removed {
            return;
        }
        self.summary = None;
        for entry in added.into_iter().chain(removed) {
            match entry.kind {
                LiveKind::Override => {
                    self.compiled_overrides = None;
                    self.changed_overrides.push(entry);
                }
                LiveKind::Block | LiveKind::Allow => self.compiled = None,
                LiveKind::KillSwitch | LiveKind::Keys => {}
            }
        }
    }

    /// Drops the entries that have ended: they do nothing, but would be compiled for ever.
    fn drop_ended(&mut self, now: UnixMillis) -> EntrySummary {
        let goes_on = |summary: &EntrySummary| summary.first_end.is_none_or(|end| now < end);
        if let Some(summary) = self.summary.filter(goes_on) {
            return summary;
        }
        let ended: Vec<String> =
            self.entries.values().filter(|entry| !entry.holds(now)).map(|entry| entry.id.clone()).collect();
        ended.into_iter().for_each(|id| self.put(id, None));
        let summary = EntrySummary {
            first_end: self.entries.values().filter_map(|entry| entry.until).min(),
            is_killed: self.entries.values().any(|entry| entry.kind == LiveKind::KillSwitch),
        };
        *self.summary.insert(summary)
    }

    /// The overrides to compile, if they have changed, and those that were added or have ended.
    fn overrides_to_compile(
        &mut self,
        nodes: u32,
        spelling: PathSpelling,
    ) -> Option<(OverrideWork, Vec<LiveEntry>)> {
        if self.compiled_overrides == Some(spelling) {
            return None;
        }
        self.compiled_overrides = Some(spelling);
        let overrides = self.entries.values().filter(|entry| entry.kind == LiveKind::Override);
        let work = self.overrides.work(overrides, nodes, spelling);
        Some((work, std::mem::take(&mut self.changed_overrides)))
    }
}

/// Sets the kill switch, compiles the gates and the overrides if they have changed, and forgets what has ended.
async fn put_in_force(node: &Arc<Node>, board: &LiveBoard) {
    let Some(control) = node.control() else { return };
    let (wall, spelling) = (node.clock().wall(), node.limiter().rules().spelling());
    let (entries, overrides) = {
        let mut known = board.known();
        let is_killed = known.drop_ended(unix_millis(wall)).is_killed;
        let is_right = known.compiled == Some(spelling);
        known.compiled = Some(spelling);
        node.follow_kill_switch(board.is_kill_switch_forced() || is_killed);
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
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::control::live::entry::LiveBody;

    fn entry(id: &str, kind: LiveKind, author: u8) -> LiveEntry {
        LiveEntry {
            id: id.to_owned(),
            kind,
            body: LiveBody::default(),
            until: None,
            created_at: UnixMillis::new(0),
            author: author.to_string(),
            reason: None,
        }
    }

    /// An entry that is added or changed, or its removal.
    fn any_news() -> impl Strategy<Value = LiveNews> {
        let kind = prop_oneof![Just(LiveKind::Override), Just(LiveKind::Block)];
        ("[a-d]", proptest::option::of((kind, 0..2_u8))).prop_map(|(id, now)| LiveNews {
            sequence: 0,
            entry: now.map(|(kind, author)| entry(&id, kind, author)),
            id,
        })
    }

    proptest! {
        /// However a node learns of entries, it knows those that there are, and which overrides have changed.
        #[test]
        fn news_and_everything_anew_tell_the_same_changes(
            steps in proptest::collection::vec((any::<bool>(), proptest::collection::vec(any_news(), 0..6)), 1..8),
        ) {
            let (mut known, mut model) = (KnownLive::default(), BTreeMap::new());
            for (anew, news) in steps {
                let before: BTreeMap<String, LiveEntry> = model.clone();
                if anew {
                    model.clear();
                }
                for LiveNews { id, entry, .. } in news.clone() {
                    let _before = match entry {
                        Some(entry) => model.insert(id, entry),
                        None => model.remove(&id),
                    };
                }
                known.compiled_overrides = Some(PathSpelling::default());
                known.compiled = Some(PathSpelling::default());
                if anew { known.replace(news) } else { known.take(news) }
                prop_assert_eq!(&known.entries, &model);
                let changed = std::mem::take(&mut known.changed_overrides);
                for id in ["a", "b", "c", "d"] {
                    let (was, is) = (before.get(id), model.get(id));
                    if was == is {
                        continue;
                    }
                    for one in was.into_iter().chain(is) {
                        match one.kind {
                            LiveKind::Override => {
                                prop_assert!(changed.contains(one), "{one:?} has changed: {changed:?}");
                                prop_assert_eq!(known.compiled_overrides, None);
                            }
                            _ => prop_assert_eq!(known.compiled, None),
                        }
                    }
                }
            }
        }
    }
}
