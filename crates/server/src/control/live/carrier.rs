//! Who carries live entries from node to node, and keeps them: the database, else the Redis that nodes share, else the
//! memory of this node.

use std::collections::HashMap;
use std::sync::Arc;

use tidegate::Nanos;
use tidegate_database::{
    AuditEntry, ChangeAnswer, Database, DatabaseError, LiveChange, LiveChangeOutcome, LiveHead, UnixMillis,
};
use tidegate_redis::{
    LinkError, NewLiveEntry, SharedLiveChange, SharedLiveEntry, SharedLiveHead, SharedLiveOutcome, StoreError,
};

use super::entry::{LiveEntry, LiveKind};
use crate::bounds::{LIVE_ENTRIES_MAX, LIVE_SHARED_MAX};
use crate::control::carried::CarriedPage;
use crate::node::Node;
use crate::node::store::SharedRedisStore;

/// How many entries are read at once: few enough for the deadline of a call to Redis.
const PAGE: u32 = 250;

/// How many more entries there may be on Redis of those that must not be refused.
const URGENT_ENTRIES: usize = 1_000;

/// The carrier of a node.
pub(super) enum LiveCarrier<'n> {
    Database(&'n Database),
    Redis(&'n Arc<SharedRedisStore>),
    /// Nobody: the entries are gone when the node ends.
    Memory,
}

/// When these entries of a kind were last used on any node, as far as the carrier was told. A Redis that does not answer has
/// told nothing: the entries are shown all the same.
///
/// # Errors
/// When the database fails.
pub(crate) async fn told_uses(
    node: &Node,
    kind: LiveKind,
    ids: &[String],
) -> Result<HashMap<String, UnixMillis>, DatabaseError> {
    match LiveCarrier::of(node).uses(kind, ids).await {
        Ok(uses) => Ok(uses),
        Err(CarrierError::Database(error)) => Err(error),
        Err(CarrierError::Redis(error)) => {
            tracing::debug!(%error, "when live entries were used on other nodes cannot be read");
            Ok(HashMap::new())
        }
    }
}

/// Why a carrier does not answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CarrierError {
    #[error(transparent)]
    Database(#[from] DatabaseError),
    #[error("the store does not answer: {0}")]
    Redis(#[from] StoreError),
}

impl CarrierError {
    /// Was nothing done for certain? There was no connection.
    pub(super) fn is_undone(&self) -> bool {
        matches!(self, CarrierError::Redis(StoreError::Link(LinkError::Down(_)) | StoreError::BreakerOpen))
    }
}

/// An entry that was added or removed.
#[derive(Clone, Debug)]
pub(super) struct LiveNews {
    pub(super) id: String,
    pub(super) sequence: u64,
    /// `None` if it was removed.
    pub(super) entry: Option<LiveEntry>,
}

impl<'n> LiveCarrier<'n> {
    pub(super) fn of(node: &'n Node) -> LiveCarrier<'n> {
        let database = node.control().and_then(|control| control.database());
        match (database, node.shared()) {
            (Some(database), _) => LiveCarrier::Database(database),
            (None, Some(shared)) => LiveCarrier::Redis(shared),
            (None, None) => LiveCarrier::Memory,
        }
    }

    /// What comes after a sequence, for whoever has seen a head; `None` if nobody carries anything.
    pub(super) async fn news(
        &self,
        seen: LiveHead,
        after: u64,
    ) -> Result<Option<CarriedPage<LiveNews>>, CarrierError> {
        let (head, news, is_anew): (LiveHead, Vec<LiveNews>, bool) = match self {
            LiveCarrier::Memory => return Ok(None),
            LiveCarrier::Database(database) => {
                let page = database.live_page(seen, after, PAGE).await?;
                let news = page.entries.into_iter().map(|row| LiveNews {
                    id: row.id.clone(),
                    sequence: row.sequence,
                    entry: if row.removed_at.is_some() { None } else { LiveEntry::of_row(row) },
                });
                (page.head, news.collect(), page.is_anew)
            }
            LiveCarrier::Redis(shared) => {
                let seen = SharedLiveHead { epoch: seen.epoch, sequence: seen.sequence };
                let page = shared.store.live_page(seen, after, PAGE).await?;
                let news = |entry: SharedLiveEntry| LiveNews {
                    entry: if entry.is_removed { None } else { LiveEntry::of_text(&entry) },
                    id: entry.id,
                    sequence: entry.sequence,
                };
                let head = LiveHead { epoch: page.head.epoch, sequence: page.head.sequence };
                (head, page.entries.into_iter().map(news).collect(), page.is_anew)
            }
        };
        let is_last = news.len() < PAGE as usize;
        Ok(Some(CarriedPage { head, news, is_anew, is_last }))
    }

    /// Forgets what nobody needs to learn of any more: what resets and grants were about.
    pub(super) async fn tidy(&self, now: UnixMillis) -> Result<(), CarrierError> {
        match self {
            LiveCarrier::Memory => Ok(()),
            LiveCarrier::Database(database) => Ok(database.purge_live(now, LiveKind::Keys.as_str()).await?),
            LiveCarrier::Redis(shared) => Ok(shared.store.tidy_live().await?),
        }
    }

    /// Tells the other nodes when entries were used. In memory each node knows its own.
    pub(super) async fn tell_uses(&self, uses: &[(String, UnixMillis)]) -> Result<(), CarrierError> {
        match self {
            LiveCarrier::Memory => Ok(()),
            LiveCarrier::Database(database) => Ok(database.note_live_uses(uses).await?),
            LiveCarrier::Redis(shared) => {
                let millis = |time: &UnixMillis| u64::try_from(time.get()).unwrap_or_default();
                let uses: Vec<(String, u64)> =
                    uses.iter().map(|(id, time)| (id.clone(), millis(time))).collect();
                Ok(shared.store.tell_live_uses(&uses).await?)
            }
        }
    }

    /// When these entries of a kind were last used on any node, as far as it was told.
    async fn uses(
        &self,
        kind: LiveKind,
        ids: &[String],
    ) -> Result<HashMap<String, UnixMillis>, CarrierError> {
        match self {
            LiveCarrier::Memory => Ok(HashMap::new()),
            LiveCarrier::Database(database) => {
                Ok(database.live_uses(kind.as_str()).await?.into_iter().collect())
            }
            LiveCarrier::Redis(shared) => {
                let times = shared.store.live_uses(ids).await?;
                let told = ids
                    .iter()
                    .zip(times)
                    .filter_map(|(id, time)| Some((id.clone(), UnixMillis::new(i64::try_from(time?).ok()?))));
                Ok(told.collect())
            }
        }
    }

    /// Makes a change, all of it or nothing; in memory there is nothing to do. Only a database has an audit, and remembers
    /// answers.
    pub(super) async fn change(
        &self,
        remove: &[String],
        add: &[LiveEntry],
        (audit, answer): (Vec<AuditEntry>, Option<ChangeAnswer>),
        now: UnixMillis,
    ) -> Result<LiveChangeOutcome, CarrierError> {
        // However many other entries there are, all limits can be switched off.
        let is_urgent = add.iter().any(|entry| entry.kind == LiveKind::KillSwitch);
        match self {
            LiveCarrier::Memory => Ok(LiveChangeOutcome::Changed(0)),
            // It has no audit.
            LiveCarrier::Redis(_) if remove.is_empty() && add.is_empty() => Ok(LiveChangeOutcome::Changed(0)),
            LiveCarrier::Database(database) => {
                let change = LiveChange {
                    remove: remove.to_vec(),
                    add: add.iter().map(LiveEntry::to_row).collect(),
                    most: LIVE_ENTRIES_MAX as u64,
                    now,
                    audit,
                    answer,
                    brief_kind: LiveKind::Keys.as_str(),
                    is_urgent,
                };
                Ok(database.change_live(change).await?)
            }
            LiveCarrier::Redis(shared) => {
                let lasts = |until: UnixMillis| {
                    Nanos::from_millis(u64::try_from(until.get() - now.get()).unwrap_or_default())
                };
                let entry = |entry: &LiveEntry| NewLiveEntry {
                    id: entry.id.clone(),
                    lasts: entry.until.map(lasts),
                    text: entry.to_text(),
                };
                let change = SharedLiveChange {
                    remove: remove.to_vec(),
                    add: add.iter().map(entry).collect(),
                    most: if is_urgent { LIVE_SHARED_MAX + URGENT_ENTRIES } else { LIVE_SHARED_MAX },
                    is_brief: remove.is_empty() && add.iter().all(|entry| entry.kind == LiveKind::Keys),
                };
                Ok(match shared.store.change_live(&change).await? {
                    SharedLiveOutcome::Changed(sequence) => LiveChangeOutcome::Changed(sequence),
                    SharedLiveOutcome::Full => LiveChangeOutcome::Full,
                    SharedLiveOutcome::Unknown => LiveChangeOutcome::Unknown,
                })
            }
        }
    }
}
