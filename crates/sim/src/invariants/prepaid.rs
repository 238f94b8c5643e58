//! No token is spent before the server gave it; and, without leases, no token that the server gave is lost.

use tidegate_core::Nanos;

use crate::invariants::token_record::BucketRecord;

/// The first instant at which more tokens were spent than the server had given, and how many more.
pub fn spent_unpaid(record: &BucketRecord) -> Option<(Nanos, i64)> {
    let mut given = record.given.iter().copied().peekable();
    let mut balance = 0;
    for &(at, tokens) in &record.spent {
        while let Some((_, tokens)) = given.next_if(|&(when, tokens)| when < at || (when == at && tokens > 0))
        {
            balance += tokens;
        }
        balance -= i64::from(tokens);
        if balance < 0 {
            return Some((at, -balance));
        }
    }
    None
}

/// The tokens that the server gave and that were never spent.
pub fn never_spent(record: &BucketRecord) -> i64 {
    let given: i64 = record.given.iter().map(|&(_, tokens)| tokens).sum();
    let spent: i64 = record.spent.iter().map(|&(_, tokens)| i64::from(tokens)).sum();
    given - spent
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Nanos {
        Nanos::from_millis(millis)
    }

    #[test]
    fn what_is_spent_was_given_before() {
        let mut record = BucketRecord {
            spent: vec![(at(1), 3), (at(5), 7)],
            given: vec![(at(1), 3), (at(4), 8)],
            ..BucketRecord::default()
        };
        assert_eq!(spent_unpaid(&record), None);
        assert_eq!(never_spent(&record), 1);
        record.given[1] = (at(6), 8);
        assert_eq!(spent_unpaid(&record), Some((at(5), 7)));
    }

    #[test]
    fn what_is_handed_back_is_not_there_to_spend() {
        let given = vec![(at(1), 10), (at(2), -6)];
        let record = BucketRecord { spent: vec![(at(1), 4), (at(3), 1)], given, ..BucketRecord::default() };
        assert_eq!(spent_unpaid(&record), Some((at(3), 1)));
    }
}
