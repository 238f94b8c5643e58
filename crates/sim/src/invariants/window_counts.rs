//! Windows and sliding logs admit no more than their limit in a window.

use tidegate_core::{Limit, Meter, Nanos};

/// A message if more tokens were spent in some window than the limit allows. A sliding window estimates the weight of
/// the window before, so only its aligned windows are bounded.
pub fn count_violation(limit: &Limit, spent: &[(Nanos, u32)]) -> Option<String> {
    match limit {
        Limit::Meter(Meter::TokenBucket(_)) => None,
        Limit::Meter(Meter::SlidingWindow(quota) | Meter::FixedWindow(quota)) => {
            in_aligned_windows(quota.limit(), quota.length(), spent)
        }
        Limit::Log(quota) => in_any_window(quota.limit(), quota.window(), spent),
    }
}

fn in_aligned_windows(limit: u32, length: Nanos, spent: &[(Nanos, u32)]) -> Option<String> {
    let window = |at: Nanos| at.get() / length.get();
    spent.chunk_by(|one, next| window(one.0) == window(next.0)).find_map(|together| {
        let sum: u64 = together.iter().map(|&(_, tokens)| u64::from(tokens)).sum();
        (sum > u64::from(limit)).then(|| format!("{sum} tokens in a window, the limit is {limit}"))
    })
}

fn in_any_window(limit: u32, window: Nanos, spent: &[(Nanos, u32)]) -> Option<String> {
    let (mut oldest, mut sum) = (0, 0_u64);
    for &(at, tokens) in spent {
        sum += u64::from(tokens);
        while spent[oldest].0.saturating_add(window) <= at {
            sum -= u64::from(spent[oldest].1);
            oldest += 1;
        }
        if sum > u64::from(limit) {
            return Some(format!("{sum} tokens within {window}, the limit is {limit}"));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_core::{LogQuota, WindowQuota};

    fn at(millis: u64) -> Nanos {
        Nanos::from_millis(millis)
    }

    #[test]
    fn a_log_counts_over_any_window() {
        let limit = Limit::from(LogQuota::new(3, Nanos::SECOND).expect("in range"));
        assert_eq!(count_violation(&limit, &[(at(500), 3), (at(1_500), 3)]), None);
        assert!(count_violation(&limit, &[(at(500), 3), (at(1_499), 1)]).is_some());
    }

    #[test]
    fn windows_count_over_their_own() {
        let limit = Limit::fixed_window(WindowQuota::new(3, Nanos::SECOND).expect("in range"));
        assert_eq!(count_violation(&limit, &[(at(999), 3), (at(1_000), 3)]), None);
        assert!(count_violation(&limit, &[(at(1_000), 3), (at(1_999), 1)]).is_some());
    }
}
