//! Which node runs which version of the policy.

use crate::history::page::{PageRequest, Paged};
use crate::session::{SqlRow, values};
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
    /// When it said so.
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

/// The most records that are read at once: two hundred nodes and more.
const RECORDS_MAX: i64 = 25_000;

/// Nodes that were not seen for a day are forgotten.
const KEPT_MILLIS: i64 = 24 * 60 * 60 * 1_000;

const PURGE: &str = "DELETE FROM nodes WHERE seen < $1";
const REPORT: &str = "INSERT INTO nodes (id, version, since, seen, error, address, figures) \
     VALUES ($1, $2, $3, $4, $5, $6, $7) \
     ON CONFLICT (id) DO UPDATE SET version = excluded.version, since = excluded.since, seen = excluded.seen, \
     error = excluded.error, address = excluded.address, figures = excluded.figures";
const KEEP: &str = "INSERT INTO node_history (node, step, figures) VALUES ($1, $2, $3) \
     ON CONFLICT (step, node) DO UPDATE SET figures = excluded.figures";
const PURGE_HISTORY: &str = "DELETE FROM node_history WHERE step < $1";
const HISTORY: &str = "SELECT * FROM node_history WHERE step >= $1 ORDER BY step DESC, node LIMIT $2";
const PAGE: &str = "SELECT * FROM nodes WHERE seen > $1 AND id > $2 ORDER BY id LIMIT $3";

impl Database {
    /// Writes down what a node says about itself.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn report(&self, report: &NodeReport) -> Result<(), DatabaseError> {
        self.within_deadline(async {
            let mut session = self.writer().await?;
            let values = values![
                &report.id,
                report.version,
                report.since,
                report.seen,
                &report.error,
                &report.address,
                &report.figures
            ];
            session.execute(REPORT, values).await?;
            session.execute(PURGE, values![report.seen.plus(-KEPT_MILLIS)]).await?;
            session.commit().await
        })
        .await
    }

    /// Writes down what a node decided in a step, and forgets all steps before `oldest`.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn keep_history(&self, record: &HistoryRecord, oldest: u64) -> Result<(), DatabaseError> {
        self.within_deadline(async {
            let mut session = self.writer().await?;
            session.execute(KEEP, values![&record.node, record.step, &record.figures]).await?;
            session.execute(PURGE_HISTORY, values![oldest]).await?;
            session.commit().await
        })
        .await
    }

    /// What all nodes decided since a step, newest first.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn history_since(&self, step: u64) -> Result<Vec<HistoryRecord>, DatabaseError> {
        self.within_deadline(async {
            let mut session = self.reader().await?;
            let rows = session.rows(HISTORY, values![step, RECORDS_MAX]).await?;
            session.release();
            rows.iter().map(read_record).collect()
        })
        .await
    }

    /// The nodes that were seen after an instant, by name.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn nodes(
        &self,
        seen_after: UnixMillis,
        page: &PageRequest,
    ) -> Result<Paged<NodeReport>, DatabaseError> {
        let limit = page.rows();
        let after = page.cursor.as_deref().unwrap_or_default();
        self.within_deadline(async {
            let mut session = self.reader().await?;
            let rows = session.rows(PAGE, values![seen_after, after, limit + 1]).await?;
            session.release();
            let nodes = rows.iter().map(read_node).collect::<Result<Vec<_>, _>>()?;
            Ok(Paged::cut(nodes, limit, |node| node.id.clone()))
        })
        .await
    }
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
