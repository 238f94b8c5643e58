//! Finds the known name that a typo probably meant.

/// The name in `known` with the smallest edit distance to `seen`, if that is small enough for a typo: a third of the
/// name's length, at least one and at most three.
pub fn nearest<'a>(seen: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    const SEEN_MAX: usize = 64;
    if seen.len() > SEEN_MAX {
        return None;
    }
    let folded = fold(seen);
    let close = known.into_iter().map(|name| (distance(&folded, &fold(name)), name));
    let (distance, name) = close.min_by_key(|(distance, _)| *distance)?;
    let tolerated = (name.chars().count() / 3).clamp(1, 3);
    (distance <= tolerated).then_some(name)
}

/// Ignores case, and treats `-`, a space and `_` as equal.
fn fold(name: &str) -> Vec<char> {
    name.chars().map(|c| if c == '-' || c == ' ' { '_' } else { c.to_ascii_lowercase() }).collect()
}

/// The edit distance: insertions, deletions, replacements and swaps of neighbours.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut two_above = vec![0; b.len() + 1];
    let mut above: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let replaced = above[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            row[j] = replaced.min(above[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(two_above[j - 2] + 1);
            }
        }
        two_above = std::mem::replace(&mut above, row);
    }
    above[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_found_and_strangers_are_not() {
        let known = ["burst", "preset", "sustained", "strategy", "key"];
        assert_eq!(nearest("burts", known), Some("burst"));
        assert_eq!(nearest("Sustained", known), Some("sustained"));
        assert_eq!(nearest("sustaned", known), Some("sustained"));
        assert_eq!(nearest("stratgey", known), Some("strategy"));
        assert_eq!(nearest("keys", known), Some("key"));
        assert_eq!(nearest("colour", known), None);
        assert_eq!(nearest("", known), None);
        assert_eq!(nearest(&"x".repeat(10_000), known), None);
    }

    #[test]
    fn separators_and_case_are_no_difference() {
        assert_eq!(nearest("Token-Bucket", ["token_bucket"]), Some("token_bucket"));
    }
}
