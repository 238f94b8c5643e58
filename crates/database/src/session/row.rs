//! Rows of answers.

use std::net::IpAddr;

use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::postgres::types::Oid;
use sqlx::postgres::{PgArgumentBuffer, PgRow, PgTypeInfo, PgValueRef};
use sqlx::sqlite::SqliteRow;
use sqlx::{Decode, Encode, Error, Postgres, Row, Type};

use crate::{DatabaseError, UnixMillis};

/// A row of either database.
pub(crate) enum SqlRow {
    Sqlite(SqliteRow),
    Postgres(PgRow),
}

impl SqlRow {
    /// The value of a column.
    pub(crate) fn get<T: FromSql>(&self, column: &str) -> Result<T, DatabaseError> {
        let index = match self {
            SqlRow::Sqlite(row) => row.try_column(column).map(sqlx::Column::ordinal),
            SqlRow::Postgres(row) => row.try_column(column).map(sqlx::Column::ordinal),
        };
        self.at(index?)
    }

    /// The value of the first column.
    pub(crate) fn first<T: FromSql>(&self) -> Result<T, DatabaseError> {
        self.at(0)
    }

    fn at<T: FromSql>(&self, column: usize) -> Result<T, DatabaseError> {
        Ok(match self {
            SqlRow::Sqlite(row) => T::from_sqlite(row, column)?,
            SqlRow::Postgres(row) => T::from_postgres(row, column)?,
        })
    }
}

/// What a column can be read as.
pub(crate) trait FromSql: Sized {
    fn from_sqlite(row: &SqliteRow, column: usize) -> Result<Self, Error>;
    fn from_postgres(row: &PgRow, column: usize) -> Result<Self, Error>;
}

/// Types that both drivers know.
macro_rules! known_to_both {
    ($($type:ty),*) => {$(
        impl FromSql for $type {
            fn from_sqlite(row: &SqliteRow, column: usize) -> Result<Self, Error> {
                row.try_get(column)
            }
            fn from_postgres(row: &PgRow, column: usize) -> Result<Self, Error> {
                row.try_get(column)
            }
        }
    )*};
}
known_to_both!(i64, bool, String, Vec<u8>, Option<i64>, Option<f64>, Option<String>, Option<Vec<u8>>, f64);

/// Types that are another type of the drivers, converted.
macro_rules! converted {
    ($($type:ty as $stored:ty, $convert:expr);* $(;)?) => {$(
        impl FromSql for $type {
            fn from_sqlite(row: &SqliteRow, column: usize) -> Result<Self, Error> {
                $convert(<$stored>::from_sqlite(row, column)?)
            }
            fn from_postgres(row: &PgRow, column: usize) -> Result<Self, Error> {
                $convert(<$stored>::from_postgres(row, column)?)
            }
        }
    )*};
}
converted! {
    u64 as i64, |number| u64::try_from(number).map_err(unexpected);
    Option<u64> as Option<i64>, |number: Option<i64>| number.map(u64::try_from).transpose().map_err(unexpected);
    [u8; 32] as Vec<u8>, |bytes: Vec<u8>| {
        <[u8; 32]>::try_from(bytes).map_err(|_| unexpected("a hash that does not have 32 bytes"))
    };
    UnixMillis as Option<UnixMillis>, |time: Option<UnixMillis>| time.ok_or_else(|| unexpected("no time"));
}

impl FromSql for Option<UnixMillis> {
    fn from_sqlite(row: &SqliteRow, column: usize) -> Result<Self, Error> {
        let Some(text) = row.try_get::<Option<String>, _>(column)? else { return Ok(None) };
        UnixMillis::from_text(&text).map(Some).ok_or_else(|| unexpected("a time that is not RFC 3339"))
    }

    fn from_postgres(row: &PgRow, column: usize) -> Result<Self, Error> {
        Ok(row.try_get::<Option<PgTime>, _>(column)?.map(|time| time.0))
    }
}

impl FromSql for Option<IpAddr> {
    fn from_sqlite(row: &SqliteRow, column: usize) -> Result<Self, Error> {
        let text: Option<String> = row.try_get(column)?;
        text.map(|text| text.parse()).transpose().map_err(unexpected)
    }

    fn from_postgres(row: &PgRow, column: usize) -> Result<Self, Error> {
        row.try_get(column)
    }
}

fn unexpected(error: impl Into<BoxDynError>) -> Error {
    Error::Decode(error.into())
}

/// An instant as PostgreSQL sends it: microseconds since the year 2000.
#[derive(Debug)]
pub(super) struct PgTime(pub(super) UnixMillis);

const YEAR_2000: i64 = 946_684_800_000;
const TIMESTAMPTZ: Oid = Oid(1184);

impl Type<Postgres> for PgTime {
    fn type_info() -> PgTypeInfo {
        PgTypeInfo::with_oid(TIMESTAMPTZ)
    }
}

impl Encode<'_, Postgres> for PgTime {
    fn encode_by_ref(&self, buffer: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        // Years of four digits do not overflow.
        let micros = (self.0.get() - YEAR_2000) * 1_000;
        <i64 as Encode<'_, Postgres>>::encode(micros, buffer)
    }
}

impl<'r> Decode<'r, Postgres> for PgTime {
    fn decode(value: PgValueRef<'r>) -> Result<PgTime, BoxDynError> {
        let micros = <i64 as Decode<'r, Postgres>>::decode(value)?;
        Ok(PgTime(UnixMillis::new(micros.div_euclid(1_000).saturating_add(YEAR_2000))))
    }
}
