//! What is known about users, on a real server.

use redis::Commands;
use tidegate::Nanos;
use tidegate_redis::{
    SharedAccount, SharedAccountEdit, SharedLiveHead, SharedTrustChange, SharedTrustOutcome,
};

use crate::live::Board;

impl Board {
    fn found(&self, users: &[&str]) -> Vec<SharedAccount> {
        let users: Vec<String> = users.iter().map(ToString::to_string).collect();
        self.runtime.block_on(self.store.trust_accounts(&users)).expect("the server answers")
    }

    /// Sets the texts of users, as whoever has just found them.
    fn set(&self, users: &[&str], text: &str, lasts: Option<u64>, most: usize) -> SharedTrustOutcome {
        self.change_accounts(self.found(users), text, lasts, most)
    }

    fn change_accounts(
        &self,
        found: Vec<SharedAccount>,
        text: &str,
        lasts: Option<u64>,
        most: usize,
    ) -> SharedTrustOutcome {
        let edit = |account: SharedAccount| SharedAccountEdit {
            account: SharedAccount { text: text.into(), ..account },
            lasts: lasts.map(Nanos::from_millis),
        };
        let change = SharedTrustChange { edits: found.into_iter().map(edit).collect(), most };
        self.runtime.block_on(self.store.change_trust(&change)).expect("the server answers")
    }

    /// What is new after a head: the new head, and each user with its text.
    fn accounts_after(&self, seen: SharedLiveHead, most: u32) -> (SharedLiveHead, Vec<String>) {
        let page = self.runtime.block_on(self.store.trust_page(seen, most)).expect("the server answers");
        let shown = |account: SharedAccount| {
            format!("{}={}", account.user, String::from_utf8(account.text).expect("it was text"))
        };
        (page.head, page.accounts.into_iter().map(shown).collect())
    }
}

#[test]
fn accounts_are_read_in_the_order_of_their_changes() {
    let accounts = Board::new();
    assert_eq!(accounts.accounts_after(SharedLiveHead::default(), 10), (SharedLiveHead::default(), vec![]));
    assert_eq!(accounts.set(&["a", "ab", "a b"], "1", None, 10), SharedTrustOutcome::Changed(3));
    assert_eq!(accounts.set(&["a"], "{\"x\":\n2}", None, 10), SharedTrustOutcome::Changed(4));
    let (head, all) = accounts.accounts_after(SharedLiveHead::default(), 10);
    assert_eq!((head.sequence, all), (4, vec!["ab=1".into(), "a b=1".into(), "a={\"x\":\n2}".into()]));
    let seen = SharedLiveHead { sequence: 2, ..head };
    assert_eq!(accounts.accounts_after(seen, 1).1, ["a b=1"]);
    assert_eq!(accounts.accounts_after(head, 10), (head, vec![]));
    let other = SharedLiveHead { epoch: head.epoch + 1, ..head };
    assert_eq!(accounts.accounts_after(other, 10).1.len(), 3, "another epoch: everything");
    let found = accounts.found(&["ab", "nobody", "a"]);
    let sequences: Vec<u64> = found.iter().map(|account| account.sequence).collect();
    assert_eq!((sequences, found[2].text.as_slice()), (vec![2, 0, 4], &b"{\"x\":\n2}"[..]));
}

#[test]
fn a_change_is_made_as_a_whole_and_only_on_what_was_found() {
    let accounts = Board::new();
    accounts.set(&["a", "b"], "1", None, 3);
    let before = accounts.accounts_after(SharedLiveHead::default(), 10);
    assert_eq!(accounts.set(&["a", "c", "d"], "2", None, 3), SharedTrustOutcome::Full);
    let found = accounts.found(&["b", "a"]);
    assert_eq!(accounts.accounts_after(SharedLiveHead::default(), 10), before);
    assert_eq!(accounts.set(&["a"], "3", None, 3), SharedTrustOutcome::Changed(3));
    assert_eq!(accounts.change_accounts(found, "4", None, 3), SharedTrustOutcome::Stale);
    let late = accounts.found(&["c"]);
    assert_eq!(accounts.set(&["c"], "5", None, 3), SharedTrustOutcome::Changed(4));
    assert_eq!(accounts.change_accounts(late, "6", None, 3), SharedTrustOutcome::Stale, "it was not there");
    assert_eq!(accounts.accounts_after(SharedLiveHead::default(), 10).1, ["b=1", "a=3", "c=5"]);
}

#[test]
fn what_has_ended_makes_room_after_an_hour() {
    let accounts = Board::new();
    accounts.set(&["a"], "1", Some(0), 4);
    accounts.set(&["b"], "1", None, 4);
    accounts.set(&["c"], "1", Some(60_000), 4);
    assert_eq!(accounts.set(&["b", "nobody"], "", None, 4), SharedTrustOutcome::Changed(4));
    assert_eq!(
        accounts.accounts_after(SharedLiveHead::default(), 10).1,
        ["a=1", "c=1", "b="],
        "everybody learns of it"
    );
    assert_eq!(accounts.set(&["d", "e"], "1", None, 4), SharedTrustOutcome::Full);
    // As if an hour had passed since then.
    let ends = format!("{}:1:{{trust}}:ends", accounts.prefix);
    let mut connection = accounts.server.connection();
    for user in ["a", "b"] {
        let _: () = connection.zadd(&ends, user, 1).expect("a key");
    }
    assert_eq!(accounts.set(&["d", "e"], "1", None, 4), SharedTrustOutcome::Changed(6));
    assert_eq!(accounts.accounts_after(SharedLiveHead::default(), 10).1, ["c=1", "d=1", "e=1"]);
    // A text without an end takes the place of one with an end.
    accounts.set(&["c"], "2", None, 4);
    let left: usize = connection.zcard(&ends).expect("a key");
    assert_eq!(left, 0);
}

#[test]
fn a_server_that_has_lost_its_keys_begins_another_epoch() {
    let accounts = Board::new();
    accounts.set(&["a", "b"], "1", None, 10);
    let (before, _) = accounts.accounts_after(SharedLiveHead::default(), 10);
    let mut connection = accounts.server.connection();
    let _: () = connection.del(format!("{}:1:{{trust}}:head", accounts.prefix)).expect("a key");
    assert_eq!(accounts.accounts_after(before, 10).0, SharedLiveHead::default());
    accounts.set(&["c"], "2", None, 10);
    let (after, all) = accounts.accounts_after(before, 10);
    assert!(after.epoch > before.epoch, "{after:?}");
    assert_eq!(all, ["c=2"]);
}
