//! Verifying the chain.

use std::fmt;

use super::append::{ChainHead, read_head};
use super::entry::{COLUMNS, PersonalData, read_entry, read_link};
use super::hash;
use crate::session::{SqlRow, values};
use crate::{Database, DatabaseError, UnixMillis};

/// What a verification found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainReport {
    /// How many entries were verified.
    pub entries: u64,
    /// Of how many of them the personal data were erased.
    pub erased: u64,
    /// The first entry that is kept; those before it were removed because of their age or the size of the table.
    pub first_kept: u64,
    /// The last entry.
    pub last: u64,
    /// The hash of the last entry that is intact. Whoever writes it down elsewhere can prove later what the chain was.
    pub hash: [u8; 32],
    /// Where the chain is broken; `None`: nowhere.
    pub broken: Option<BrokenChain>,
}

/// The first entry that is not as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokenChain {
    /// The number of the entry.
    pub seq: u64,
    /// What is wrong with it.
    pub why: &'static str,
}

impl fmt::Display for BrokenChain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the audit entry {} {}", self.seq, self.why)
    }
}

const MISSING: &str = "is missing: it was removed";
const CHANGED: &str = "was changed, or the one before it was replaced";
const PERSONAL_CHANGED: &str = "was changed in what is personal";
const ERASED_CHANGED: &str = "has personal data although they were erased";
const UNREADABLE: &str = "was changed: a column has a value that this program does not write";
const BEYOND: &str = "is beyond the end of the chain: it was inserted";
const HEAD_CHANGED: &str = "is the last one, but its hash is not that of the table audit_head";

/// Rows that are read at once.
const PAGE: u64 = 1_000;

impl Database {
    /// Recomputes the hash of every entry, from the first that is kept to the last, and names the first that was changed,
    /// removed or inserted. `progress` gets the number of entries done and of all, after each thousand.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn verify(
        &self,
        mut progress: impl FnMut(u64, u64) + Send,
    ) -> Result<ChainReport, DatabaseError> {
        loop {
            let head = self.chain_head().await?;
            let report = self.verify_between(&head, &mut progress).await?;
            // Entries that were removed by retention meanwhile are not missing.
            if report.broken.is_none() || self.chain_head().await?.anchor_seq == head.anchor_seq {
                return Ok(report);
            }
        }
    }

    async fn chain_head(&self) -> Result<ChainHead, DatabaseError> {
        self.within_deadline(async {
            let mut session = self.reader().await?;
            let head = read_head(&mut session).await?;
            session.release();
            Ok(head)
        })
        .await
    }

    async fn verify_between(
        &self,
        head: &ChainHead,
        progress: &mut (impl FnMut(u64, u64) + Send),
    ) -> Result<ChainReport, DatabaseError> {
        let all = head.seq.saturating_sub(head.anchor_seq);
        let mut check = ChainCheck::new(head);
        while check.report.broken.is_none() && check.next_seq() <= head.seq {
            let rows = self.rows_from(check.next_seq(), head.seq).await?;
            if rows.is_empty() {
                check.broken(check.next_seq(), MISSING);
            }
            for row in &rows {
                check.row(row);
            }
            progress(check.report.entries, all);
        }
        check.end(head);
        if check.report.broken.is_none()
            && let Some(seq) = self.beyond_end().await?
        {
            check.broken(seq, BEYOND);
        }
        Ok(check.report)
    }

    async fn rows_from(&self, first: u64, last: u64) -> Result<Vec<SqlRow>, DatabaseError> {
        let sql = format!(
            "SELECT {COLUMNS}, erased_at FROM audit_entries WHERE seq >= $1 AND seq <= $2 ORDER BY seq LIMIT $3"
        );
        self.within_deadline(async {
            let mut session = self.reader().await?;
            let rows = session.rows(sqlx::AssertSqlSafe(sql), values![first, last, PAGE]).await?;
            session.release();
            Ok(rows)
        })
        .await
    }

    /// A row outside of the two ends of the chain. One statement sees the rows and the ends as of one instant.
    async fn beyond_end(&self) -> Result<Option<u64>, DatabaseError> {
        const SQL: &str = "SELECT min(seq) FROM audit_entries WHERE seq > (SELECT seq FROM audit_head) \
                           OR seq <= (SELECT anchor_seq FROM audit_head)";
        self.within_deadline(async {
            let mut session = self.reader().await?;
            let seq: Option<i64> = session.value(SQL, vec![]).await?;
            session.release();
            Ok(seq.map(i64::unsigned_abs))
        })
        .await
    }
}

/// How far the verification has come.
struct ChainCheck {
    report: ChainReport,
    previous: Vec<u8>,
}

impl ChainCheck {
    fn new(head: &ChainHead) -> ChainCheck {
        let report = ChainReport {
            entries: 0,
            erased: 0,
            first_kept: head.anchor_seq + 1,
            last: head.anchor_seq,
            hash: <[u8; 32]>::try_from(head.anchor_hash.as_slice()).unwrap_or_default(),
            broken: None,
        };
        ChainCheck { report, previous: head.anchor_hash.clone() }
    }

    fn next_seq(&self) -> u64 {
        self.report.last + 1
    }

    fn broken(&mut self, seq: u64, why: &'static str) {
        self.report.broken.get_or_insert(BrokenChain { seq, why });
    }

    /// Verifies the next row; does nothing after the first that is broken.
    fn row(&mut self, row: &SqlRow) {
        if self.report.broken.is_some() {
            return;
        }
        let expected = self.next_seq();
        match self.examine(row, expected) {
            Ok(()) => {}
            Err(why) => self.broken(expected, why),
        }
    }

    fn examine(&mut self, row: &SqlRow, expected: u64) -> Result<(), &'static str> {
        let link = read_link(row).map_err(|_| UNREADABLE)?;
        if link.seq != expected {
            return Err(MISSING);
        }
        let entry = read_entry(row).map_err(|_| UNREADABLE)?;
        let erased_at: Option<UnixMillis> = row.get("erased_at").map_err(|_| UNREADABLE)?;
        let hash = hash::entry_hash(&self.previous, link.seq, link.bytes, &entry, &link.person_hash);
        if link.hash != hash {
            return Err(CHANGED);
        }
        match (&link.person_salt, erased_at) {
            (Some(salt), None) if link.person_hash == hash::person_hash(salt, &entry.personal) => {}
            (None, Some(_)) if entry.personal == PersonalData::default() => self.report.erased += 1,
            (None, Some(_)) => return Err(ERASED_CHANGED),
            _ => return Err(PERSONAL_CHANGED),
        }
        self.report.entries += 1;
        self.report.last = link.seq;
        self.report.hash = hash;
        self.previous = hash.into();
        Ok(())
    }

    /// The last row must be the one that the head names.
    fn end(&mut self, head: &ChainHead) {
        if self.previous != head.hash || self.report.last != head.seq {
            self.broken(self.report.last, HEAD_CHANGED);
        }
    }
}
