//! The answers to changes with an idempotency key, on a node that has no database.

use std::collections::VecDeque;

use tidegate_database::{ChangeAnswer, UnixMillis};

use crate::control::changing::unfinished_body;

/// How long answers are kept, in milliseconds.
const KEPT: i64 = 24 * 60 * 60 * 1_000;

/// The most answers that are kept. When one more comes, the oldest is forgotten.
const ANSWERS_MAX: usize = 1_000;

/// The answers, oldest first. They are gone when the node ends, and other nodes do not know them.
#[derive(Debug, Default)]
pub(crate) struct AnswerBook(VecDeque<(UnixMillis, ChangeAnswer)>);

impl AnswerBook {
    /// The answer of a key.
    pub(crate) fn find(&self, key_hash: &[u8; 32], now: UnixMillis) -> Option<ChangeAnswer> {
        let mut kept = self.0.iter().filter(|(at, _)| *at > now.plus(-KEPT));
        kept.find(|(_, answer)| answer.key_hash == *key_hash).map(|(_, answer)| answer.clone())
    }

    /// Notes that a change is begun. An answer that ends what was begun is kept at once, since that is done, whatever comes
    /// of telling the other nodes. False if the key was used before.
    pub(super) fn begin(&mut self, answer: &ChangeAnswer, now: UnixMillis) -> bool {
        if answer.ends {
            self.end(answer.clone(), now);
            return true;
        }
        if self.find(&answer.key_hash, now).is_some() {
            return false;
        }
        self.end(ChangeAnswer { body: unfinished_body(), ..answer.clone() }, now);
        true
    }

    /// Keeps the answer of a key in place of what was noted before.
    pub(super) fn end(&mut self, answer: ChangeAnswer, now: UnixMillis) {
        self.forget(&answer.key_hash);
        if self.0.len() >= ANSWERS_MAX {
            self.0.pop_front();
        }
        self.0.push_back((now, answer));
    }

    /// Forgets a change that was begun: nothing was done.
    pub(super) fn give_up(&mut self, answer: &ChangeAnswer) {
        if !answer.ends {
            self.forget(&answer.key_hash);
        }
    }

    fn forget(&mut self, key_hash: &[u8; 32]) {
        self.0.retain(|(_, answer)| answer.key_hash != *key_hash);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(key: u32, body: &str, ends: bool) -> ChangeAnswer {
        let mut key_hash = [0; 32];
        key_hash[..4].copy_from_slice(&key.to_le_bytes());
        ChangeAnswer { key_hash, request_hash: [1; 32], body: body.into(), ends }
    }

    #[test]
    fn a_key_is_used_once_a_day_and_the_book_is_bounded() {
        let (mut book, at) = (AnswerBook::default(), UnixMillis::new);
        let found = |book: &AnswerBook, now: i64| {
            book.find(&answer(1, "", false).key_hash, at(now)).map(|answer| answer.body)
        };
        let begun = unfinished_body();
        assert!(book.begin(&answer(1, "done", false), at(5)));
        assert!(!book.begin(&answer(1, "again", false), at(6)));
        assert_eq!(found(&book, 7), Some(begun.clone()), "nobody knows yet whether it is done");
        book.end(answer(1, "done", false), at(7));
        assert_eq!(found(&book, 8).as_deref(), Some("done"));
        book.give_up(&answer(1, "done", false));
        assert_eq!(found(&book, 8), None);
        // What ends a change that was begun stays, whatever comes after it.
        assert!(
            book.begin(&answer(1, "begun", false), at(8)) && book.begin(&answer(1, "ended", true), at(8))
        );
        book.give_up(&answer(1, "ended", true));
        assert_eq!(found(&book, 9).as_deref(), Some("ended"));
        assert_eq!(found(&book, 8 + KEPT), None);
        for key in 0..2_000 {
            book.begin(&answer(key + 2, "other", false), at(10));
        }
        assert_eq!((book.0.len(), found(&book, 10)), (ANSWERS_MAX, None));
    }
}
