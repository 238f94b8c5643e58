//! Lists that nodes follow by sequences: live entries, and what is known about users.
//!
//! A sequence is at least the time in microseconds, so that a database that goes back, because a replica without its last
//! changes has taken over or a backup was restored, gives none of their sequences again. The heads of the past are kept:
//! whoever has seen a head that is neither the present one nor one of these has seen what is lost, and reads everything anew.

use crate::session::{SqlSession, values};
use crate::{DatabaseError, UnixMillis};

/// How far a list is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LiveHead {
    /// Another number means that everything has to be read anew.
    pub epoch: u64,
    /// The last sequence.
    pub sequence: u64,
}

/// A list.
pub(crate) struct FollowedList {
    name: &'static str,
    head: &'static str,
    move_head: &'static str,
}

pub(crate) const LIVE: FollowedList = FollowedList {
    name: "live",
    head: "SELECT epoch, sequence FROM live_head WHERE id = 1",
    move_head: "UPDATE live_head SET sequence = $1 WHERE id = 1",
};
pub(crate) const TRUST: FollowedList = FollowedList {
    name: "trust",
    head: "SELECT epoch, sequence FROM trust_head WHERE id = 1",
    move_head: "UPDATE trust_head SET sequence = $1 WHERE id = 1",
};

/// How many heads of the past are kept. Whoever has seen an older one reads everything anew, which is as right.
const PAST_HEADS_MAX: u64 = 1_000;

const IS_PAST: &str = "SELECT count(*) FROM past_heads WHERE list = $1 AND sequence = $2";
const ADD_PAST: &str =
    "INSERT INTO past_heads (list, sequence) VALUES ($1, $2) ON CONFLICT (list, sequence) DO NOTHING";
const TRIM_PAST: &str = "DELETE FROM past_heads WHERE list = $1 AND sequence <= (SELECT sequence FROM past_heads \
     WHERE list = $1 ORDER BY sequence DESC LIMIT 1 OFFSET $2)";

impl FollowedList {
    pub(crate) async fn head(&self, session: &mut SqlSession) -> Result<LiveHead, DatabaseError> {
        let row = session.row(self.head, vec![]).await?;
        let row = row.ok_or_else(|| {
            let name = self.name;
            DatabaseError::Invalid(format!(
                "the table {name}_head is empty: somebody changed it; restore a backup"
            ))
        })?;
        Ok(LiveHead { epoch: row.get("epoch")?, sequence: row.get("sequence")? })
    }

    /// Is `seen` the present head, or one of the past?
    pub(crate) async fn knows(
        &self,
        session: &mut SqlSession,
        seen: LiveHead,
        head: LiveHead,
    ) -> Result<bool, DatabaseError> {
        if seen.epoch != head.epoch {
            return Ok(false);
        }
        if seen.sequence == head.sequence || seen.sequence == 0 {
            return Ok(true);
        }
        Ok(session.value::<u64>(IS_PAST, values![self.name, seen.sequence]).await? > 0)
    }

    /// Writes the sequence of the last change, and keeps the one of before.
    pub(crate) async fn move_head(
        &self,
        session: &mut SqlSession,
        before: u64,
        sequence: u64,
    ) -> Result<(), DatabaseError> {
        if sequence == before {
            return Ok(());
        }
        session.execute(ADD_PAST, values![self.name, before]).await?;
        session.execute(TRIM_PAST, values![self.name, PAST_HEADS_MAX]).await?;
        session.execute(self.move_head, values![sequence]).await?;
        Ok(())
    }
}

/// The sequence after `last`.
pub(crate) fn next_sequence(last: u64, now: UnixMillis) -> u64 {
    let micros = u64::try_from(now.get()).unwrap_or_default().saturating_mul(1_000);
    micros.max(last + 1)
}
