//! Which entries changed their place among the others.

/// Which of these numbers are out of order: all but a longest increasing subsequence, so that as few as possible count
/// as moved.
pub(super) fn out_of_order(numbers: &[usize]) -> Vec<bool> {
    // `ends[n]` is the index of the smallest number that ends an increasing subsequence of length n + 1.
    let mut ends: Vec<usize> = Vec::new();
    let mut before: Vec<Option<usize>> = Vec::with_capacity(numbers.len());
    for (index, number) in numbers.iter().enumerate() {
        let length = ends.partition_point(|end| numbers[*end] < *number);
        before.push(length.checked_sub(1).map(|shorter| ends[shorter]));
        match ends.get_mut(length) {
            Some(end) => *end = index,
            None => ends.push(index),
        }
    }
    let mut moved = vec![true; numbers.len()];
    let mut kept = ends.last().copied();
    while let Some(index) = kept {
        moved[index] = false;
        kept = before[index];
    }
    moved
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_few_as_possible_are_out_of_order() {
        for (numbers, moved) in [
            (vec![], vec![]),
            (vec![0, 1, 2], vec![false, false, false]),
            (vec![2, 0, 1], vec![true, false, false]),
            (vec![1, 2, 0], vec![false, false, true]),
            (vec![0, 3, 1, 2, 4], vec![false, true, false, false, false]),
        ] {
            assert_eq!(out_of_order(&numbers), moved, "{numbers:?}");
        }
    }
}
