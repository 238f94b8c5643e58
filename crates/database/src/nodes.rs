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
}

/// Nodes that were not seen for a day are forgotten.
const KEPT_MILLIS: i64 = 24 * 60 * 60 * 1_000;

const PURGE: &str = "DELETE FROM nodes WHERE seen < $1";
const REPORT: &str = "INSERT INTO nodes (id, version, since, seen, error, address) VALUES ($1, $2, $3, $4, $5, $6) \
     ON CONFLICT (id) DO UPDATE SET version = excluded.version, since = excluded.since, seen = excluded.seen, \
     error = excluded.error, address = excluded.address";
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
                &report.address
            ];
            session.execute(REPORT, values).await?;
            session.execute(PURGE, values![report.seen.plus(-KEPT_MILLIS)]).await?;
            session.commit().await
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
    })
}
