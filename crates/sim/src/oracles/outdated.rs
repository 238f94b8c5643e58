//! No refusal stands on an answer that is older than nodes remember what they were told.

use std::collections::BTreeMap;

use tidegate_core::Nanos;

/// Has a node asked about a bucket, and was it answered, within `age` before it refused?
pub fn is_backed(answered: &BTreeMap<usize, Vec<Nanos>>, node: usize, refused: Nanos, age: Nanos) -> bool {
    let sent = answered.get(&node).map_or(&[][..], |sent| sent);
    // The last one before.
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
        assert!(is_backed(&answered, 1, at(6), at(5)));
        assert!(!is_backed(&answered, 1, at(7), at(5)), "what is asked later is no excuse");
        assert!(is_backed(&answered, 1, at(14), at(5)) && !is_backed(&answered, 1, at(15), at(5)));
        assert!(!is_backed(&answered, 0, at(10), at(5)) && !is_backed(&answered, 1, at(1), at(5)));
    }
}
