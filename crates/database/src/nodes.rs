//! Which node runs which version of the policy, and what nodes decided in the last hour.
//!
//! Only the clock of the database says when a node was seen and what is old: clocks of nodes differ, and one that is wrong
//! must neither hide other nodes nor remove what they have written.

use std::collections::BTreeMap;

use crate::history::page::{PageRequest, Paged};
use crate::session::{SqlRow, SqlSession, values};
use crate::{Database, DatabaseError, UnixMillis};

/// What a node says about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeReport {
    /// Its name.
    pub id: String,
    /// The version that it runs; `None`: one that is not from the database.
    pub version: Option<u64>,
    /// Since when it runs that version.
    pub since: UnixMillis,
    /// When it said so, by the clock of the database, which sets it.
    pub seen: UnixMillis,
    /// Why it cannot run a newer version.
    pub error: Option<String>,
    /// Where its admin listener is.
    pub address: Option<String>,
    /// Its figures of the last second, as the node writes them.
    pub figures: Option<String>,
}

/// What a node decided in one step of the last hour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryRecord {
    /// The name of the node.
    pub node: String,
    /// The number of the step.
    pub step: u64,
    /// The figures, as the node writes them.
    pub figures: String,
}

/// Which steps are kept: those of the last while. Steps are numbered since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptSteps {
    /// How long a step is.
    pub step_millis: u64,
    /// How many before the one that goes on. As many after it are kept too, of nodes whose clock is ahead.
    pub count: u64,
}

impl KeptSteps {
    /// The first and the last one at an instant.
    fn at(self, now: UnixMillis) -> (u64, u64) {
        let number = u64::try_from(now.get()).unwrap_or_default() / self.step_millis.max(1);
        (number.saturating_sub(self.count), number.saturating_add(self.count))
    }
}

/// The most records that are read at once.
pub const HISTORY_RECORDS_MAX: usize = 25_000;

/// Nodes that were not seen for a day are forgotten.
const KEPT_MILLIS: i64 = 24 * 60 * 60 * 1_000;

const PURGE: &str = "DELETE FROM nodes WHERE seen < $1";
const REPORT: &str = "INSERT INTO nodes (id, version, since, seen, error, address, figures) \
     VALUES ($1, $2, $3, $4, $5, $6, $7) \
     ON CONFLICT (id) DO UPDATE SET version = excluded.version, since = excluded.since, seen = excluded.seen, \
     error = excluded.error, address = excluded.address, figures = excluded.figures";
const KEEP: &str = "INSERT INTO node_history (node, step, figures) VALUES ($1, $2, $3) \
     ON CONFLICT (step, node) DO UPDATE SET figures = excluded.figures";
const PURGE_HISTORY: &str = "DELETE FROM node_history WHERE step < $1 OR step > $2";
const COUNT_HISTORY: &str =
    "SELECT step, count(*) AS records FROM node_history WHERE step BETWEEN $1 AND $2 GROUP BY step";
const HISTORY: &str =
    "SELECT * FROM node_history WHERE step BETWEEN $1 AND $2 ORDER BY step DESC, node LIMIT $3";
const PAGE: &str = "SELECT * FROM nodes WHERE seen > $1 AND id > $2 ORDER BY id LIMIT $3";

impl Database {
    /// Writes down what a node says about itself now.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn report(&self, report: &NodeReport) -> Result<(), DatabaseError> {
        self.within_deadline(async {
            let mut session = self.writer().await?;
            let now = now(&mut session).await?;
            let values = values![
                &report.id,
                report.version,
                report.since,
                now,
                &report.error,
                &report.address,
                &report.figures
            ];
            session.execute(REPORT, values).await?;
            session.execute(PURGE, values![now.plus(-KEPT_MILLIS)]).await?;
            session.commit().await
        })
        .await
    }

    /// Writes down what a node decided in a step, and forgets the steps that are not kept any more.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn keep_history(&self, record: &HistoryRecord, kept: KeptSteps) -> Result<(), DatabaseError> {
        self.within_deadline(async {
            let mut session = self.writer().await?;
            session.execute(KEEP, values![&record.node, record.step, &record.figures]).await?;
            let (first, last) = kept.at(now(&mut session).await?);
            session.execute(PURGE_HISTORY, values![first, last]).await?;
            session.commit().await
        })
        .await
    }

    /// How many records there are of each step that is kept; steps without any are left out.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn history_counts(&self, kept: KeptSteps) -> Result<BTreeMap<u64, u64>, DatabaseError> {
        self.within_deadline(async {
            let mut session = self.reader().await?;
            let (first, last) = kept.at(now(&mut session).await?);
            let rows = session.rows(COUNT_HISTORY, values![first, last]).await?;
            session.release();
            rows.iter().map(|row| Ok((row.get("step")?, row.get("records")?))).collect()
        })
        .await
    }

    /// What all nodes decided from one step to another, newest first; at most [`HISTORY_RECORDS_MAX`] records.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn history_between(&self, first: u64, last: u64) -> Result<Vec<HistoryRecord>, DatabaseError> {
        self.within_deadline(async {
            let mut session = self.reader().await?;
            let most = HISTORY_RECORDS_MAX as u64;
            let rows = session.rows(HISTORY, values![first, last, most]).await?;
            session.release();
            rows.iter().map(read_record).collect()
        })
        .await
    }

    /// The nodes that were seen within a time, by name.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn nodes(
        &self,
        within_millis: i64,
        page: &PageRequest,
    ) -> Result<Paged<NodeReport>, DatabaseError> {
        let limit = page.rows();
        let after = page.cursor.as_deref().unwrap_or_default();
        self.within_deadline(async {
            let mut session = self.reader().await?;
            let seen_after = now(&mut session).await?.plus(-within_millis);
            let rows = session.rows(PAGE, values![seen_after, after, limit + 1]).await?;
            session.release();
            let nodes = rows.iter().map(read_node).collect::<Result<Vec<_>, _>>()?;
            Ok(Paged::cut(nodes, limit, |node| node.id.clone()))
        })
        .await
    }
}

/// The time of the database.
async fn now(session: &mut SqlSession) -> Result<UnixMillis, DatabaseError> {
    // In SQLite as texts are stored, see `UnixMillis::to_text`.
    let sql = match session.is_postgres() {
        true => "SELECT clock_timestamp()",
        false => "SELECT strftime('%Y-%m-%dT%H:%M:%fZ', 'now')",
    };
    let now: Option<UnixMillis> = session.value(sql, vec![]).await?;
    now.ok_or_else(|| DatabaseError::Invalid("the database has no time".into()))
}

fn read_node(row: &SqlRow) -> Result<NodeReport, DatabaseError> {
    Ok(NodeReport {
        id: row.get("id")?,
        version: row.get("version")?,
        since: row.get("since")?,
        seen: row.get("seen")?,
        error: row.get("error")?,
        address: row.get("address")?,
        figures: row.get("figures")?,
    })
}

fn read_record(row: &SqlRow) -> Result<HistoryRecord, DatabaseError> {
    Ok(HistoryRecord { node: row.get("node")?, step: row.get("step")?, figures: row.get("figures")? })
}
