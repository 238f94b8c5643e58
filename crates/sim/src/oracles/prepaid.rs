//! Nothing is spent that was not paid for before, and, where there are no leases, nothing is paid for in vain.

use tidegate_core::Nanos;

use crate::ledger::BucketAccount;

/// The first instant at which more had been spent than the server had given, and how much more.
pub fn spent_unpaid(account: &BucketAccount) -> Option<(Nanos, i64)> {
    let mut given = account.given.iter().copied().peekable();
    let mut balance = 0;
    for &(at, tokens) in &account.spent {
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

/// What the server gave and nobody spent.
pub fn never_spent(account: &BucketAccount) -> i64 {
    let given: i64 = account.given.iter().map(|&(_, tokens)| tokens).sum();
    let spent: i64 = account.spent.iter().map(|&(_, tokens)| i64::from(tokens)).sum();
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
        let mut account = BucketAccount {
            spent: vec![(at(1), 3), (at(5), 7)],
            given: vec![(at(1), 3), (at(4), 8)],
            ..BucketAccount::default()
        };
        assert_eq!(spent_unpaid(&account), None);
        assert_eq!(never_spent(&account), 1);
        account.given[1] = (at(6), 8);
        assert_eq!(spent_unpaid(&account), Some((at(5), 7)));
    }

    #[test]
    fn what_is_handed_back_is_not_there_to_spend() {
        let given = vec![(at(1), 10), (at(2), -6)];
        let account =
            BucketAccount { spent: vec![(at(1), 4), (at(3), 1)], given, ..BucketAccount::default() };
        assert_eq!(spent_unpaid(&account), Some((at(3), 1)));
    }
}
