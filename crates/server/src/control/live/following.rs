//! Follows the carrier: reads what is new, and puts it in force on this node.

use std::collections::HashSet;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tidegate::{Clock, Nanos};
use tidegate_database::{LiveHead, UnixMillis};
use tidegate_policy::PathSpelling;
use tidegate_redis::WakeTopic;

use super::carrier::{CarrierError, LiveCarrier, LiveNews};
use super::entry::{LiveEntry, LiveKind};
use super::overrides::OverrideWork;
use super::{EntrySummary, KnownLive, LiveBoard, acting, gates, renumbering};
use crate::bounds::LIVE_ENTRIES_MAX;
use crate::control::carried::{Carried, CarriedPage, FollowLog};
use crate::control::startup::unix_millis;
use crate::node::Node;

/// How often the carrier is told to forget what has ended.
const TIDY_INTERVAL: Nanos = Nanos::from_secs(60);

/// How often this node looks whether the kill switch has ended.
const END_PAUSE: Duration = Duration::from_millis(100);

/// How long entries that have ended are kept, should the wall clock step back: as long as carriers keep them.
const ENDED_KEPT: Nanos = Nanos::from_secs(60 * 60);

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

impl KnownLive {
    /// Is this entry known, though it may have ended?
    fn has(&self, id: &str) -> bool {
        self.entries.contains_key(id) || self.ended.contains_key(id)
    }

    fn take(&mut self, news: Vec<LiveNews>) {
        for LiveNews { id, entry, .. } in news {
            self.put(id, entry);
        }
    }

    /// Puts everything in the place of what is known.
    fn replace(&mut self, all: Vec<LiveNews>) {
        self.ended.clear();
        self.summary = None;
        let there: HashSet<&str> = all.iter().map(|news| news.id.as_str()).collect();
        let gone: Vec<String> =
            self.entries.keys().filter(|id| !there.contains(id.as_str())).cloned().collect();
        gone.into_iter().for_each(|id| self.put(id, None));
        self.take(all);
    }

    /// Adds an entry of this node. If nobody carries it, the node itself says which is the newest.
    fn add(&mut self, mut entry: LiveEntry) {
        if entry.sequence == 0 {
            self.own_sequence += 1;
            entry.sequence = self.own_sequence;
        }
        self.put(entry.id.clone(), Some(entry));
    }

    /// Adds an entry, or removes it.
    pub(super) fn put(&mut self, id: String, entry: Option<LiveEntry>) {
        if self.ended.remove(&id).is_some() {
            self.summary = None;
        }
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

    /// Puts the entries aside that have ended: they do nothing, but would be compiled for ever. Those that have not ended after
    /// all, because the wall clock stepped back, hold again.
    fn put_ended_aside(&mut self, now: UnixMillis, at: Nanos) -> EntrySummary {
        let goes_on = |summary: &EntrySummary| {
            summary.first_end.is_none_or(|end| now < end) && summary.last_ended.is_none_or(|end| end <= now)
        };
        if let Some(summary) = self.summary.filter(goes_on) {
            return summary;
        }
        self.ended.retain(|_, (_, since)| at.saturating_sub(*since) < ENDED_KEPT);
        let held = self.ended.values().filter(|(entry, _)| entry.holds(now)).map(|(entry, _)| entry.clone());
        for entry in held.collect::<Vec<LiveEntry>>() {
            self.put(entry.id.clone(), Some(entry));
        }
        let ended = self.entries.values().filter(|entry| !entry.holds(now)).cloned();
        for entry in ended.collect::<Vec<LiveEntry>>() {
            self.put(entry.id.clone(), None);
            if self.ended.len() < LIVE_ENTRIES_MAX {
                self.ended.insert(entry.id.clone(), (entry, at));
            }
        }
        let summary = EntrySummary {
            first_end: self.entries.values().filter_map(|entry| entry.until).min(),
            last_ended: self.ended.values().filter_map(|(entry, _)| entry.until).max(),
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
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use tidegate_policy::RuleSet;

    use super::*;
    use crate::control::live::entry::LiveBody;
    use crate::identity::Identity;
    use crate::settings::Settings;

    fn entry(id: &str, kind: LiveKind, author: u8) -> LiveEntry {
        LiveEntry {
            id: id.to_owned(),
            kind,
            sequence: 0,
            body: LiveBody::default(),
            until: None,
            created_at: UnixMillis::new(0),
            author: author.to_string(),
            reason: None,
        }
    }

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

    /// An entry that is added or changed, or its removal.
    fn any_news() -> impl Strategy<Value = LiveNews> {
        let kind = prop_oneof![Just(LiveKind::Override), Just(LiveKind::Block)];
        ("[a-d]", proptest::option::of((kind, 0..2_u8))).prop_map(|(id, now)| LiveNews {
            sequence: 0,
            entry: now.map(|(kind, author)| entry(&id, kind, author)),
            id,
        })
    }

    /// A node whose wall clock jumps ahead and back is told nothing by the carrier.
    #[test]
    fn an_entry_that_has_ended_too_early_holds_again() {
        let (mut known, millis) = (KnownLive::default(), UnixMillis::new);
        let ends = LiveEntry { until: Some(millis(100)), ..entry("a", LiveKind::Override, 0) };
        let block = LiveEntry { until: Some(millis(50)), ..entry("b", LiveKind::Block, 0) };
        let lasts = entry("c", LiveKind::Block, 0);
        known.take(
            [&ends, &block, &lasts]
                .map(|entry| LiveNews { sequence: 1, id: entry.id.clone(), entry: Some(entry.clone()) })
                .into(),
        );
        let look = |known: &mut KnownLive, wall, secs| {
            known.compiled_overrides = Some(PathSpelling::default());
            known.put_ended_aside(millis(wall), Nanos::from_secs(secs));
            known.entries.keys().cloned().collect::<String>()
        };
        assert_eq!(look(&mut known, 40, 1), "abc");
        assert_eq!((look(&mut known, 9_999, 2), known.compiled_overrides), ("c".to_owned(), None));
        assert_eq!(
            (look(&mut known, 60, 3), known.compiled_overrides),
            ("ac".to_owned(), None),
            "`b` has ended"
        );
        assert_eq!(look(&mut known, 9_999, 4), "c");
        // What the carrier says of it goes before.
        known.put("a".to_owned(), None);
        assert_eq!(look(&mut known, 40, 5), "bc");
        assert_eq!(look(&mut known, 9_999, 6), "c");
        assert_eq!(look(&mut known, 40, 6 + ENDED_KEPT.get() / 1_000_000_000), "c", "forgotten in the end");
        assert!(known.ended.is_empty());
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
