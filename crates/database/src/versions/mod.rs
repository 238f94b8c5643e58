//! Versions of the whole policy: the truth about what is in force.

mod publish;
mod rules;
pub(crate) mod text;

pub use publish::{NewVersion, Publication};
pub use rules::RuleRow;

use crate::history::page::{self, PageRequest, Paged};
use crate::session::{SqlRow, values};
use crate::{Database, DatabaseError, UnixMillis};

/// What is known about a version without its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionHead {
    /// Its number: the first is 1, each next one more.
    pub version: u64,
    /// The version that was active before.
    pub parent: Option<u64>,
    /// The SHA-256 of the text.
    pub sha256: [u8; 32],
    /// Who made it.
    pub author: String,
    /// Why.
    pub reason: Option<String>,
    /// When.
    pub time: UnixMillis,
    /// The warnings that the policy had, as a JSON array.
    pub warnings: String,
}

/// What tells a version from all others: after a backup was restored, another text may have the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VersionMark {
    /// Its number.
    pub version: u64,
    /// The SHA-256 of the text.
    pub sha256: [u8; 32],
}

/// A version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyVersion {
    /// Everything but the text.
    pub head: VersionHead,
    /// The document as it was written; `None` when the version is too old to be kept whole.
    pub text: Option<String>,
}

const ACTIVE: &str = "SELECT * FROM policy_versions ORDER BY version DESC LIMIT 1";
const MARK: &str = "SELECT version, sha256 FROM policy_versions ORDER BY version DESC LIMIT 1";
const ONE: &str = "SELECT * FROM policy_versions WHERE version = $1";
const PAGE: &str = "SELECT version, parent, sha256, author, reason, time, warnings FROM policy_versions \
                    WHERE version < $1 ORDER BY version DESC LIMIT $2";

impl Database {
    /// The active version with its text; `None` before the first.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn active_version(&self) -> Result<Option<PolicyVersion>, DatabaseError> {
        self.one_version(ACTIVE, None).await
    }

    /// The number of the active version; `None` before the first. Cheaper than [`Database::active_version`].
    ///
    /// # Errors
    /// When the database fails.
    pub async fn active_number(&self) -> Result<Option<u64>, DatabaseError> {
        self.within_deadline(async {
            let mut session = self.reader().await?;
            let number = session.value("SELECT max(version) FROM policy_versions", vec![]).await?;
            session.release();
            Ok(number)
        })
        .await
    }

    /// The number and the hash of the active version; `None` before the first. As cheap as [`Database::active_number`].
    ///
    /// # Errors
    /// When the database fails.
    pub async fn active_mark(&self) -> Result<Option<VersionMark>, DatabaseError> {
        self.within_deadline(async {
            let mut session = self.reader().await?;
            let row = session.row(MARK, vec![]).await?;
            session.release();
            let Some(row) = row else { return Ok(None) };
            Ok(Some(VersionMark { version: row.get("version")?, sha256: row.get("sha256")? }))
        })
        .await
    }

    /// One version.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn version(&self, version: u64) -> Result<Option<PolicyVersion>, DatabaseError> {
        self.one_version(ONE, Some(version)).await
    }

    async fn one_version(
        &self,
        sql: &'static str,
        version: Option<u64>,
    ) -> Result<Option<PolicyVersion>, DatabaseError> {
        self.within_deadline(async {
            let mut session = self.reader().await?;
            let values = version.map(|version| values![version]).unwrap_or_default();
            let row = session.row(sql, values).await?;
            session.release();
            row.map(|row| read_version(&row)).transpose()
        })
        .await
    }

    /// The versions, newest first.
    ///
    /// # Errors
    /// When the cursor is not one of this list, or the database fails.
    pub async fn versions(&self, page: &PageRequest) -> Result<Paged<VersionHead>, DatabaseError> {
        let before = page::number_cursor(page)?;
        let limit = page.rows();
        self.within_deadline(async {
            let mut session = self.reader().await?;
            let rows = session.rows(PAGE, values![before, limit + 1]).await?;
            session.release();
            let heads = rows.iter().map(read_head).collect::<Result<Vec<_>, _>>()?;
            Ok(Paged::cut(heads, limit, |head| head.version.to_string()))
        })
        .await
    }
}

fn read_version(row: &SqlRow) -> Result<PolicyVersion, DatabaseError> {
    let text: Option<Vec<u8>> = row.get("text")?;
    Ok(PolicyVersion { head: read_head(row)?, text: text.map(|bytes| text::unpack(&bytes)).transpose()? })
}

fn read_head(row: &SqlRow) -> Result<VersionHead, DatabaseError> {
    Ok(VersionHead {
        version: row.get("version")?,
        parent: row.get("parent")?,
        sha256: row.get("sha256")?,
        author: row.get("author")?,
        reason: row.get("reason")?,
        time: row.get("time")?,
        warnings: row.get("warnings")?,
    })
}
