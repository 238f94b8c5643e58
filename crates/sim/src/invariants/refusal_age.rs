//! No refusal relies on an answer that is older than nodes may remember answers.

use std::collections::BTreeMap;

use tidegate_core::Nanos;

/// Did the server answer this node about a bucket within `age` before the refusal?
pub fn has_recent_answer(
    answered: &BTreeMap<usize, Vec<Nanos>>,
    node: usize,
    refused: Nanos,
    age: Nanos,
) -> bool {
    let sent = answered.get(&node).map_or(&[][..], |sent| sent);
    // The last call before the refusal.
    let after = sent.partition_point(|&sent| sent <= refused);
    after.checked_sub(1).is_some_and(|last| refused.saturating_sub(sent[last]) < age)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_asked_lately_by_the_same_node_counts() {
        let at = Nanos::from_secs;
        let answered = BTreeMap::from([(1, vec![at(2), at(10)])]);
        assert!(has_recent_answer(&answered, 1, at(6), at(5)));
        assert!(!has_recent_answer(&answered, 1, at(7), at(5)), "what is asked later is no excuse");
        assert!(
            has_recent_answer(&answered, 1, at(14), at(5)) && !has_recent_answer(&answered, 1, at(15), at(5))
        );
        assert!(
            !has_recent_answer(&answered, 0, at(10), at(5)) && !has_recent_answer(&answered, 1, at(1), at(5))
        );
    }
}
