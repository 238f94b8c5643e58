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
        let change = SharedTrustChange { edits: found.into_iter().map(edit).collect(), most, mark: None };
        self.runtime.block_on(self.store.change_trust(&change)).expect("the server answers")
    }

    /// What is new after a head: the new head, and each user with its text.
    fn accounts_after(&self, seen: SharedLiveHead, most: u32) -> (SharedLiveHead, Vec<String>) {
        let page = self
            .runtime
            .block_on(self.store.trust_page(seen, seen.sequence, most))
            .expect("the server answers");
        let shown = |account: SharedAccount| {
            format!("{}={}", account.user, String::from_utf8(account.text).expect("it was text"))
        };
        (page.head, page.accounts.into_iter().map(shown).collect())
    }
}

/// The sequence of a change that was made.
fn sequence(outcome: SharedTrustOutcome) -> u64 {
    let SharedTrustOutcome::Changed(sequence) = outcome else { panic!("{outcome:?}") };
    sequence
}

#[test]
fn a_server_that_has_gone_back_is_noticed() {
    let accounts = Board::new();
    accounts.set(&["a", "b"], "1", None, 10);
    let (kept, dump) = (accounts.accounts_after(SharedLiveHead::default(), 10).0, accounts.dump());
    accounts.set(&["a"], "2", None, 10);
    let (seen, _) = accounts.accounts_after(kept, 10);
    accounts.go_back(&dump);
    for text in ["3", "4"] {
        accounts.set(&["c"], text, None, 10);
    }
    assert_eq!(accounts.accounts_after(seen, 10).1, ["a=1", "b=1", "c=4"]);
    assert_eq!(accounts.accounts_after(kept, 10).1, ["c=4"]);
}

#[test]
fn accounts_are_read_in_the_order_of_their_changes() {
    let accounts = Board::new();
    assert_eq!(accounts.accounts_after(SharedLiveHead::default(), 10), (SharedLiveHead::default(), vec![]));
    let first = sequence(accounts.set(&["a", "ab", "a b"], "1", None, 10));
    let second = sequence(accounts.set(&["a"], "{\"x\":\n2}", None, 10));
    let (head, all) = accounts.accounts_after(SharedLiveHead::default(), 10);
    assert_eq!((head.sequence, all), (second, vec!["ab=1".into(), "a b=1".into(), "a={\"x\":\n2}".into()]));
    let after = accounts.store.trust_page(head, first - 1, 1);
    let page = accounts.runtime.block_on(after).expect("the server answers");
    assert_eq!((page.accounts[0].user.as_str(), page.accounts.len(), page.is_anew), ("a b", 1, false));
    let seen = SharedLiveHead { sequence: first, ..head };
    assert_eq!(accounts.accounts_after(seen, 10).1.len(), 1);
    assert_eq!(accounts.accounts_after(head, 10), (head, vec![]));
    let other = SharedLiveHead { epoch: head.epoch + 1, ..head };
    assert_eq!(accounts.accounts_after(other, 10).1.len(), 3, "another epoch: everything");
    let found = accounts.found(&["ab", "nobody", "a"]);
    let sequences: Vec<u64> = found.iter().map(|account| account.sequence).collect();
    assert_eq!((sequences, found[2].text.as_slice()), (vec![first - 1, 0, second], &b"{\"x\":\n2}"[..]));
}

#[test]
fn a_change_is_made_as_a_whole_and_only_on_what_was_found() {
    let accounts = Board::new();
    accounts.set(&["a", "b"], "1", None, 3);
    let before = accounts.accounts_after(SharedLiveHead::default(), 10);
    assert_eq!(accounts.set(&["a", "c", "d"], "2", None, 3), SharedTrustOutcome::Full);
    let found = accounts.found(&["b", "a"]);
    assert_eq!(accounts.accounts_after(SharedLiveHead::default(), 10), before);
    sequence(accounts.set(&["a"], "3", None, 3));
    assert_eq!(accounts.change_accounts(found, "4", None, 3), SharedTrustOutcome::Stale);
    let late = accounts.found(&["c"]);
    sequence(accounts.set(&["c"], "5", None, 3));
    assert_eq!(accounts.change_accounts(late, "6", None, 3), SharedTrustOutcome::Stale, "it was not there");
    assert_eq!(accounts.accounts_after(SharedLiveHead::default(), 10).1, ["b=1", "a=3", "c=5"]);
}

#[test]
fn what_has_ended_makes_room_after_an_hour() {
    let accounts = Board::new();
    accounts.set(&["a"], "1", Some(0), 4);
    accounts.set(&["b"], "1", None, 4);
    accounts.set(&["c"], "1", Some(60_000), 4);
    sequence(accounts.set(&["b", "nobody"], "", None, 4));
    assert_eq!(
        accounts.accounts_after(SharedLiveHead::default(), 10).1,
        ["a=1", "c=1", "b="],
        "everybody learns of it"
    );
    assert_eq!(accounts.set(&["d", "e", "f"], "1", None, 4), SharedTrustOutcome::Full);
    // As if an hour had passed since then.
    let ends = format!("{}:1:{{trust}}:ends", accounts.prefix);
    let mut connection = accounts.server.connection();
    for user in ["a", "b"] {
        let _: () = connection.zadd(&ends, user, 1).expect("a key");
    }
    sequence(accounts.set(&["d", "e"], "1", None, 4));
    assert_eq!(accounts.accounts_after(SharedLiveHead::default(), 10).1, ["c=1", "d=1", "e=1"]);
    // A text without an end takes the place of one with an end.
    accounts.set(&["c"], "2", None, 4);
    let left: usize = connection.zcard(&ends).expect("a key");
    assert_eq!(left, 0);
}

#[test]
fn what_is_taken_back_makes_room_at_once() {
    let accounts = Board::new();
    sequence(accounts.set(&["a", "b", "c", "d"], "1", None, 4));
    assert_eq!(accounts.set(&["e"], "1", None, 4), SharedTrustOutcome::Full);
    sequence(accounts.set(&["a", "b", "c", "d"], "", None, 4));
    sequence(accounts.set(&["e", "f", "g", "h"], "1", None, 4));
    // Those of which nothing is known any more are bounded too, and come back only if there is room.
    assert_eq!(accounts.set(&["a"], "1", None, 4), SharedTrustOutcome::Full);
    sequence(accounts.set(&["e"], "", None, 4));
    assert_eq!(accounts.set(&["i"], "1", None, 4), SharedTrustOutcome::Full);
    sequence(accounts.set(&["a"], "1", None, 4));
    assert_eq!(accounts.accounts_after(SharedLiveHead::default(), 10).1.len(), 8);
}

/// Also if the answer was lost: whoever repeats it finds out.
#[test]
fn a_change_with_a_mark_is_made_once() {
    let accounts = Board::new();
    let marked = |found: Vec<SharedAccount>, mark: u8, most: usize| {
        let edits = found.into_iter().map(|account| SharedAccountEdit {
            account: SharedAccount { text: [account.text.as_slice(), b"+"].concat(), ..account },
            lasts: None,
        });
        let change = SharedTrustChange { edits: edits.collect(), most, mark: Some([mark; 32]) };
        accounts.runtime.block_on(accounts.store.change_trust(&change)).expect("the server answers")
    };
    let early = accounts.found(&["a", "b"]);
    // What was refused is not made.
    assert_eq!(marked(early.clone(), 1, 1), SharedTrustOutcome::Full);
    accounts.set(&["b"], "x", None, 9);
    assert_eq!(marked(early, 1, 9), SharedTrustOutcome::Stale);
    sequence(marked(accounts.found(&["a", "b"]), 1, 9));
    assert_eq!(marked(accounts.found(&["a", "b"]), 1, 9), SharedTrustOutcome::Repeated);
    sequence(marked(accounts.found(&["a"]), 2, 9));
    assert_eq!(accounts.accounts_after(SharedLiveHead::default(), 10).1, ["b=x+", "a=++"]);
    // A day later it is another change.
    let marks = format!("{}:1:{{trust}}:marks", accounts.prefix);
    let _: () = accounts.server.connection().zadd(&marks, &[1_u8; 32], 1).expect("a key");
    sequence(marked(accounts.found(&["a"]), 1, 9));
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
