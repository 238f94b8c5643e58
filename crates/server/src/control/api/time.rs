//! Times in answers.

use tidegate_database::UnixMillis;

/// An instant of the database, as RFC 3339 with milliseconds.
pub(crate) fn rfc3339(time: UnixMillis) -> String {
    time.to_text()
}
