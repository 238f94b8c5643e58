//! The accounts that the program keeps elsewhere, in a database for instance: the book has a copy of all of them. Unlike
//! what a program tells, none of them is ever forgotten to make room, so whoever keeps them bounds their number.

use std::collections::HashMap;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use tidegate_core::Nanos;

use super::user_table::UserHash;
use super::{AccountFacts, TrustAccount, TrustBook};

impl TrustBook {
    /// Sets what is kept about a user, in place of what was; `None` removes it. It counts at once.
    pub fn set_account(&self, user: &str, account: Option<TrustAccount>) {
        let user = self.hashes.of(user);
        let mut accounts = self.accounts.write().unwrap_or_else(PoisonError::into_inner);
        match account {
            Some(account) => _ = accounts.insert(user, account),
            None => _ = accounts.remove(&user),
        }
        drop(accounts);
        self.drop_score(user);
    }

    /// Replaces all accounts.
    pub fn replace_accounts<'u>(&self, accounts: impl IntoIterator<Item = (&'u str, TrustAccount)>) {
        let hashed = accounts.into_iter().map(|(user, account)| (self.hashes.of(user), account));
        let all: HashMap<UserHash, TrustAccount> = hashed.collect();
        *self.accounts.write().unwrap_or_else(PoisonError::into_inner) = all;
        self.listing.fetch_add(1, Ordering::Release);
    }

    /// What is kept about a user.
    pub fn account(&self, user: &str) -> Option<TrustAccount> {
        self.kept_account(self.hashes.of(user))
    }

    /// The number of accounts.
    pub fn accounts(&self) -> usize {
        self.accounts.read().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Removes the accounts that say nothing any more: no facts, and no outcomes of the last seven days.
    pub fn drop_ended_accounts(&self, now: Nanos) {
        let says_something = |account: &TrustAccount| {
            account.facts != AccountFacts::default() || account.outcomes.end().is_some_and(|end| now < end)
        };
        let mut accounts = self.accounts.write().unwrap_or_else(PoisonError::into_inner);
        accounts.retain(|_, account| says_something(account));
    }

    pub(super) fn kept_account(&self, user: UserHash) -> Option<TrustAccount> {
        self.accounts.read().unwrap_or_else(PoisonError::into_inner).get(&user).copied()
    }
}
