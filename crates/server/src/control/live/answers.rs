//! The answers to changes with an idempotency key, on a node that has no database.

use std::collections::VecDeque;

use tidegate_database::{ChangeAnswer, UnixMillis};

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

    /// Keeps an answer. False if the key was used before, unless this ends what was begun then.
    pub(super) fn keep(&mut self, answer: ChangeAnswer, now: UnixMillis) -> bool {
        if !answer.ends && self.find(&answer.key_hash, now).is_some() {
            return false;
        }
        self.forget(&answer.key_hash);
        if self.0.len() >= ANSWERS_MAX {
            self.0.pop_front();
        }
        self.0.push_back((now, answer));
        true
    }

    /// Forgets the answer of a key: nothing was done.
    pub(super) fn forget(&mut self, key_hash: &[u8; 32]) {
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
        assert!(book.keep(answer(1, "begun", false), at(5)));
        assert!(!book.keep(answer(1, "again", false), at(6)));
        assert_eq!(found(&book, 7).as_deref(), Some("begun"));
        assert!(book.keep(answer(1, "done", true), at(8)));
        assert_eq!(found(&book, 9).as_deref(), Some("done"));
        assert_eq!(found(&book, 8 + KEPT), None);
        for key in 0..2_000 {
            book.keep(answer(key + 2, "other", false), at(10));
        }
        assert_eq!((book.0.len(), found(&book, 10)), (ANSWERS_MAX, None));
    }
}
