//! Values of statements.

use std::net::IpAddr;

use crate::UnixMillis;

/// A value for a placeholder; `None` is NULL, which PostgreSQL wants to have a type.
#[derive(Clone, Debug)]
pub(crate) enum SqlValue {
    Int(Option<i64>),
    Real(Option<f64>),
    Text(Option<String>),
    Bytes(Option<Vec<u8>>),
    Bool(bool),
    Time(Option<UnixMillis>),
    Ip(Option<IpAddr>),
}

impl From<i64> for SqlValue {
    fn from(value: i64) -> SqlValue {
        SqlValue::Int(Some(value))
    }
}

impl From<u64> for SqlValue {
    fn from(value: u64) -> SqlValue {
        SqlValue::from(Some(value))
    }
}

impl From<Option<u64>> for SqlValue {
    fn from(value: Option<u64>) -> SqlValue {
        SqlValue::Int(value.map(stored_number))
    }
}

impl From<Option<i64>> for SqlValue {
    fn from(value: Option<i64>) -> SqlValue {
        SqlValue::Int(value)
    }
}

impl From<f64> for SqlValue {
    fn from(value: f64) -> SqlValue {
        SqlValue::Real(Some(value))
    }
}

impl From<Option<f64>> for SqlValue {
    fn from(value: Option<f64>) -> SqlValue {
        SqlValue::Real(value)
    }
}

impl From<&str> for SqlValue {
    fn from(value: &str) -> SqlValue {
        SqlValue::Text(Some(stored_text(value)))
    }
}

impl From<&String> for SqlValue {
    fn from(value: &String) -> SqlValue {
        SqlValue::from(value.as_str())
    }
}

impl From<&Option<String>> for SqlValue {
    fn from(value: &Option<String>) -> SqlValue {
        SqlValue::Text(value.as_deref().map(stored_text))
    }
}

impl From<&[u8]> for SqlValue {
    fn from(value: &[u8]) -> SqlValue {
        SqlValue::Bytes(Some(value.into()))
    }
}

impl<const N: usize> From<&[u8; N]> for SqlValue {
    fn from(value: &[u8; N]) -> SqlValue {
        SqlValue::from(value.as_slice())
    }
}

impl From<bool> for SqlValue {
    fn from(value: bool) -> SqlValue {
        SqlValue::Bool(value)
    }
}

impl From<UnixMillis> for SqlValue {
    fn from(value: UnixMillis) -> SqlValue {
        SqlValue::Time(Some(value))
    }
}

impl From<Option<UnixMillis>> for SqlValue {
    fn from(value: Option<UnixMillis>) -> SqlValue {
        SqlValue::Time(value)
    }
}

impl From<Option<IpAddr>> for SqlValue {
    fn from(value: Option<IpAddr>) -> SqlValue {
        SqlValue::Ip(value)
    }
}

/// A number as the tables can hold it.
pub(crate) fn stored_number(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// A text as the tables can hold it: PostgreSQL refuses the character NUL, and one such text from a client must not make
/// a whole batch fail.
pub(crate) fn stored_text(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

/// Statements with their values.
pub(super) mod bind {
    use sqlx::postgres::PgArguments;
    use sqlx::query::Query;
    use sqlx::sqlite::SqliteArguments;
    use sqlx::{Postgres, SqlSafeStr, Sqlite};

    use super::SqlValue;
    use crate::session::row::PgTime;

    pub(in crate::session) fn sqlite<'q>(
        sql: impl SqlSafeStr,
        values: Vec<SqlValue>,
    ) -> Query<'q, Sqlite, SqliteArguments> {
        values.into_iter().fold(sqlx::query(sql), |query, value| match value {
            SqlValue::Int(value) => query.bind(value),
            SqlValue::Real(value) => query.bind(value),
            SqlValue::Text(value) => query.bind(value),
            SqlValue::Bytes(value) => query.bind(value),
            SqlValue::Bool(value) => query.bind(value),
            SqlValue::Time(value) => query.bind(value.map(|time| time.to_text())),
            SqlValue::Ip(value) => query.bind(value.map(|ip| ip.to_string())),
        })
    }

    pub(in crate::session) fn postgres<'q>(
        sql: impl SqlSafeStr,
        values: Vec<SqlValue>,
    ) -> Query<'q, Postgres, PgArguments> {
        values.into_iter().fold(sqlx::query(sql), |query, value| match value {
            SqlValue::Int(value) => query.bind(value),
            SqlValue::Real(value) => query.bind(value),
            SqlValue::Text(value) => query.bind(value),
            SqlValue::Bytes(value) => query.bind(value),
            SqlValue::Bool(value) => query.bind(value),
            SqlValue::Time(value) => query.bind(value.map(PgTime)),
            SqlValue::Ip(value) => query.bind(value),
        })
    }
}
