//! Lists of what happened, newest first. The order is by time, then by table, then by number; a cursor is a place in this
//! order, so pages stay what they are while rows are added.

use sqlx::AssertSqlSafe;

use super::cursor::HistoryCursors;
use super::filter::{HistoryFilter, KindMatch};
use super::page::{PageRequest, Paged};
use super::violations::{ViolationRow, read_violation};
use crate::audit::{self, AuditRow};
use crate::session::{SqlSession, SqlValue};
use crate::{Database, DatabaseError, UnixMillis};

/// A row of one of the two tables.
#[derive(Clone, Debug, PartialEq)]
pub enum HistoryRow {
    /// A change or a security event.
    Audit(AuditRow),
    /// A denial.
    Violation(ViolationRow),
}

/// The tables, in their order within one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum HistoryTable {
    Violations,
    Audit,
}

impl HistoryTable {
    pub(super) const ALL: [HistoryTable; 2] = [HistoryTable::Violations, HistoryTable::Audit];

    /// Its letter in cursors.
    pub(super) fn letter(self) -> char {
        match self {
            HistoryTable::Violations => 'v',
            HistoryTable::Audit => 'a',
        }
    }

    /// The columns for the order.
    fn order(self) -> (&'static str, &'static str) {
        match self {
            HistoryTable::Violations => ("requested_at", "violation_id"),
            HistoryTable::Audit => ("time", "seq"),
        }
    }
}

/// The place of a row in the order.
pub(super) type HistoryPlace = (UnixMillis, HistoryTable, i64);

impl HistoryRow {
    fn place(&self) -> HistoryPlace {
        let signed = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        match self {
            HistoryRow::Audit(row) => (row.entry.time, HistoryTable::Audit, signed(row.seq)),
            HistoryRow::Violation(row) => {
                (row.violation.requested_at, HistoryTable::Violations, signed(row.violation_id))
            }
        }
    }
}

impl Database {
    /// Denials, changes and security events.
    ///
    /// # Errors
    /// When the cursor is not one of this list, or the database fails.
    pub async fn events(
        &self,
        filter: &HistoryFilter,
        page: &PageRequest,
    ) -> Result<Paged<HistoryRow>, DatabaseError> {
        self.history(&HistoryTable::ALL, filter, page).await
    }

    /// Changes and security events.
    ///
    /// # Errors
    /// When the cursor is not one of this list, or the database fails.
    pub async fn audit(
        &self,
        filter: &HistoryFilter,
        page: &PageRequest,
    ) -> Result<Paged<AuditRow>, DatabaseError> {
        let rows = self.history(&[HistoryTable::Audit], filter, page).await?;
        Ok(rows.map(|row| match row {
            HistoryRow::Audit(row) => row,
            HistoryRow::Violation(_) => unreachable!("only the table of the audit was read"),
        }))
    }

    /// Denials.
    ///
    /// # Errors
    /// When the cursor is not one of this list, or the database fails.
    pub async fn violations(
        &self,
        filter: &HistoryFilter,
        page: &PageRequest,
    ) -> Result<Paged<ViolationRow>, DatabaseError> {
        let rows = self.history(&[HistoryTable::Violations], filter, page).await?;
        Ok(rows.map(|row| match row {
            HistoryRow::Violation(row) => row,
            HistoryRow::Audit(_) => unreachable!("only the table of violations was read"),
        }))
    }

    async fn history(
        &self,
        tables: &[HistoryTable],
        filter: &HistoryFilter,
        page: &PageRequest,
    ) -> Result<Paged<HistoryRow>, DatabaseError> {
        let limit = page.rows();
        let read = async {
            let mut session = self.reader().await?;
            let cursors = HistoryCursors::of(&mut session).await?;
            let after = match page.cursor.as_deref().map(|cursor| cursors.read(cursor)).transpose() {
                Ok(after) => after,
                Err(error) => {
                    session.release();
                    return Err(error);
                }
            };
            if filter.text.is_some() {
                session.stop_when_dropped(self.options.search_time).await?;
            }
            let mut rows = Vec::new();
            for table in tables {
                for kind in filter.kinds() {
                    rows.extend(rows_of(&mut session, (*table, *kind), filter, after, limit + 1).await?);
                }
            }
            if filter.text.is_some() {
                session.stop_no_more().await?;
            }
            session.release();
            Ok((rows, cursors))
        };
        let (mut rows, cursors) = match &filter.text {
            None => self.within_deadline(read).await?,
            Some(_) => self.within_search_time(read).await?,
        };
        rows.sort_by_key(|row| std::cmp::Reverse(row.place()));
        Ok(Paged::cut(rows, limit, |row| cursors.write(row.place())))
    }

    /// What a search returns, or an error when it takes too long.
    async fn within_search_time<T>(
        &self,
        search: impl Future<Output = Result<T, DatabaseError>>,
    ) -> Result<T, DatabaseError> {
        let most = self.options.search_time;
        match tokio::time::timeout(most, self.within_deadline(search)).await {
            Ok(found) => found,
            Err(_) => Err(DatabaseError::SearchTooLong(most)),
        }
    }
}

async fn rows_of(
    session: &mut SqlSession,
    (table, kind): (HistoryTable, KindMatch),
    filter: &HistoryFilter,
    after: Option<HistoryPlace>,
    limit: i64,
) -> Result<Vec<HistoryRow>, DatabaseError> {
    let (time, id) = table.order();
    let mut conditions = match table {
        HistoryTable::Violations if filter.actor.is_some() => return Ok(Vec::new()),
        HistoryTable::Violations => {
            filter.conditions(session, kind, time, ("ip_address", SqlValue::Ip(filter.ip)))
        }
        HistoryTable::Audit => {
            let ip = filter.ip.map(|ip| ip.to_string());
            let mut conditions = filter.conditions(session, kind, time, ("ip", SqlValue::Text(ip)));
            if filter.actor.is_some() {
                conditions.add("actor = ?", &filter.actor);
            }
            conditions
        }
    };
    let place = after.unwrap_or((UnixMillis::new(i64::MAX), table, i64::MAX));
    let before = (conditions.placeholder(place.0), conditions.placeholder(id_bound(table, place)));
    conditions.add_text(format!("({time}, {id}) < ({}, {})", before.0, before.1));
    let limit = conditions.placeholder(limit);
    let (condition, values) = conditions.finish();
    let from = match table {
        HistoryTable::Violations => "* FROM rate_limit_violations".to_owned(),
        HistoryTable::Audit => format!("{}, erased_at FROM audit_entries", audit::COLUMNS),
    };
    let sql = format!("SELECT {from} WHERE {condition} ORDER BY {time} DESC, {id} DESC LIMIT {limit}");
    let rows = session.rows(AssertSqlSafe(sql), values).await?;
    let read = |row| {
        Ok(match table {
            HistoryTable::Violations => HistoryRow::Violation(read_violation(row)?),
            HistoryTable::Audit => HistoryRow::Audit(audit::read_row(row)?),
        })
    };
    rows.iter().map(read).collect()
}

/// Of the rows of `table` with the same time as `place`, those with a smaller number than this come after it.
fn id_bound(table: HistoryTable, place: HistoryPlace) -> i64 {
    match table.cmp(&place.1) {
        std::cmp::Ordering::Less => i64::MAX,
        std::cmp::Ordering::Equal => place.2,
        std::cmp::Ordering::Greater => i64::MIN,
    }
}
