//! The live entries that a node knows: those that hold, those that have ended, and what has changed since they were put in
//! force.

use std::collections::{BTreeMap, HashSet};

use tidegate::Nanos;
use tidegate_database::UnixMillis;
use tidegate_policy::PathSpelling;

use super::carrier::LiveNews;
use super::entry::{LiveEntry, LiveKind};
use super::overrides::{CompiledOverrides, OverrideWork, ToldUses};
use crate::bounds::LIVE_ENTRIES_MAX;

/// How long entries that have ended are kept, should the wall clock step back: as long as carriers keep them.
const ENDED_KEPT: Nanos = Nanos::from_secs(60 * 60);

/// Entries, and what has to be done about those that have changed.
#[derive(Debug, Default)]
pub(super) struct KnownLive {
    pub(super) entries: BTreeMap<String, LiveEntry>,
    /// The entries that have ended by the wall clock, and when that was noticed by the monotonic clock. The carrier does not
    /// tell of them again, so they are kept for a while: the wall clock may have been ahead, and step back.
    pub(super) ended: BTreeMap<String, (LiveEntry, Nanos)>,
    /// The highest sequence of an entry that was added on this node and that nobody carries.
    pub(super) own_sequence: u64,
    /// What has to be known of all entries each time; `None` if they have changed since. There may be very many, and they are
    /// looked at five times a second.
    pub(super) summary: Option<EntrySummary>,
    /// The spelling of paths that the gates are compiled with; `None` if they are not those of the entries.
    pub(super) compiled: Option<PathSpelling>,
    /// The same for overrides.
    pub(super) compiled_overrides: Option<PathSpelling>,
    pub(super) overrides: CompiledOverrides,
    /// The overrides that were added or have ended since overrides were last compiled.
    pub(super) changed_overrides: Vec<LiveEntry>,
    /// Those of them whose buckets the store has not written in their new numbers, because it did not answer.
    pub(super) unwritten_overrides: Vec<LiveEntry>,
    pub(super) told_uses: ToldUses,
}

/// What has to be known of all entries each time.
#[derive(Clone, Copy, Debug)]
pub(super) struct EntrySummary {
    /// When the first of them ends, if one does.
    pub(super) first_end: Option<UnixMillis>,
    /// When the last of those that have ended did so.
    pub(super) last_ended: Option<UnixMillis>,
    /// Is one of them the kill switch?
    pub(super) is_killed: bool,
}

impl KnownLive {
    /// Is this entry known, though it may have ended?
    pub(super) fn has(&self, id: &str) -> bool {
        self.entries.contains_key(id) || self.ended.contains_key(id)
    }

    pub(super) fn take(&mut self, news: Vec<LiveNews>) {
        for LiveNews { id, entry, .. } in news {
            self.put(id, entry);
        }
    }

    /// Puts everything in the place of what is known.
    pub(super) fn replace(&mut self, all: Vec<LiveNews>) {
        self.ended.clear();
        self.summary = None;
        let there: HashSet<&str> = all.iter().map(|news| news.id.as_str()).collect();
        let gone: Vec<String> =
            self.entries.keys().filter(|id| !there.contains(id.as_str())).cloned().collect();
        gone.into_iter().for_each(|id| self.put(id, None));
        self.take(all);
    }

    /// Adds an entry of this node. If nobody carries it, the node itself says which is the newest.
    pub(super) fn add(&mut self, mut entry: LiveEntry) {
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
    pub(super) fn put_ended_aside(&mut self, now: UnixMillis, at: Nanos) -> EntrySummary {
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
    pub(super) fn overrides_to_compile(
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

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::control::live::entry::LiveBody;

    pub(in crate::control::live) fn entry(id: &str, kind: LiveKind, author: u8) -> LiveEntry {
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
