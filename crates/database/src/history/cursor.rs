//! Cursors of lists of what happened. Whoever may see only some rows must not learn from a cursor how many there are, so the
//! number of the row in it is scrambled with a key that only the database has.

use sha2::{Digest, Sha256};

use super::list::{HistoryPlace, HistoryTable};
use crate::session::SqlSession;
use crate::{DatabaseError, UnixMillis};

const KEY: &str = "SELECT value FROM secrets WHERE name = 'cursors'";

/// Rounds of scrambling: with four, what comes out looks random.
const ROUNDS: u8 = 4;

/// Writes and reads cursors.
#[derive(Clone, Debug)]
pub(super) struct HistoryCursors {
    key: [u8; 32],
}

impl HistoryCursors {
    /// Those of a database: every node makes the same.
    pub(super) async fn of(session: &mut SqlSession) -> Result<HistoryCursors, DatabaseError> {
        Ok(HistoryCursors { key: session.value(KEY, vec![]).await? })
    }

    pub(super) fn write(&self, (time, table, id): HistoryPlace) -> String {
        let (letter, id) = (table.letter(), id.cast_unsigned());
        let mut halves = ((id >> 32) as u32, id as u32);
        for round in 0..ROUNDS {
            halves = (halves.1, halves.0 ^ self.mask(round, time, letter, halves.1));
        }
        format!("{}.{letter}.{:08x}{:08x}", time.get(), halves.0, halves.1)
    }

    pub(super) fn read(&self, cursor: &str) -> Result<HistoryPlace, DatabaseError> {
        self.parse(cursor).ok_or(DatabaseError::Cursor)
    }

    fn parse(&self, cursor: &str) -> Option<HistoryPlace> {
        let mut parts = cursor.split('.');
        let (time, letter, scrambled) = (parts.next()?, parts.next()?, parts.next()?);
        let table = HistoryTable::ALL.into_iter().find(|table| letter == table.letter().to_string())?;
        let is_whole = scrambled.len() == 16 && scrambled.bytes().all(|byte| byte.is_ascii_hexdigit());
        if parts.next().is_some() || !is_whole {
            return None;
        }
        let time = UnixMillis::new(time.parse().ok()?);
        let half = |text: &str| u32::from_str_radix(text, 16).ok();
        let mut halves = (half(&scrambled[..8])?, half(&scrambled[8..])?);
        for round in (0..ROUNDS).rev() {
            halves = (halves.1 ^ self.mask(round, time, table.letter(), halves.0), halves.0);
        }
        let id = (u64::from(halves.0) << 32) | u64::from(halves.1);
        Some((time, table, id.cast_signed()))
    }

    fn mask(&self, round: u8, time: UnixMillis, letter: char, half: u32) -> u32 {
        let hash = Sha256::new()
            .chain_update(self.key)
            .chain_update([round, letter as u8])
            .chain_update(time.get().to_le_bytes())
            .chain_update(half.to_le_bytes())
            .finalize();
        u32::from_le_bytes(*hash.first_chunk().expect("a hash has 32 bytes"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_back_and_does_not_tell_the_number() {
        let cursors = HistoryCursors { key: [7; 32] };
        let mut seen = std::collections::BTreeSet::new();
        for id in [0, 1, 2, 41, i64::from(u32::MAX) + 3, i64::MAX] {
            for table in HistoryTable::ALL {
                for time in [5, 1_700_000_000_000] {
                    let place = (UnixMillis::new(time), table, id);
                    let cursor = cursors.write(place);
                    assert_eq!(cursors.read(&cursor).ok(), Some(place), "{cursor}");
                    let scrambled = cursor.rsplit('.').next().map(str::to_owned);
                    assert!(seen.insert(scrambled), "{cursor}: the same number looks different each time");
                }
            }
        }
    }
}
