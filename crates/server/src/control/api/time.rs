//! Times in answers.

use jiff::Timestamp;
use tidegate_database::UnixMillis;

/// An instant of the database, as RFC 3339.
pub(crate) fn rfc3339(time: UnixMillis) -> String {
    Timestamp::from_millisecond(time.get()).map(|time| time.to_string()).unwrap_or_default()
}
