//! Windows and sliding logs admit no more than their limit in a window, and what was put back within it.

use tidegate_core::{Limit, Meter, Nanos};

use super::Allowance;

/// What a window may count beyond its limit, if it contains some moment between these two.
///
/// A limit of *L* has counted *L* at most. So whatever takes counts away takes *L* at most, and a grant no more than its
/// tokens: a window that contains it admits that much more. A window that begins later contains nothing of what was
/// counted before, so it admits no more than any other. While there are two masters, each counts for itself.
#[derive(Clone, Copy, Debug)]
pub struct WindowAllowance {
    from: Nanos,
    until: Nanos,
    tokens: u32,
}

impl WindowAllowance {
    /// What an allowance means for a limit of `most`.
    pub fn of(at: Nanos, allowance: Allowance, most: u32) -> WindowAllowance {
        let (lasts, tokens) = match allowance {
            Allowance::Granted(tokens) => (Nanos::ZERO, tokens.min(most)),
            Allowance::TwoMasters(span) => (span, most),
            Allowance::Capacity | Allowance::Jump(_) => (Nanos::ZERO, most),
        };
        WindowAllowance { from: at, until: at.saturating_add(lasts), tokens }
    }

    /// The tokens beyond the limit in the window from `first` to `last`.
    fn within(allowances: &[WindowAllowance], first: Nanos, last: Nanos) -> u64 {
        let within = allowances.iter().filter(|allowance| allowance.from <= last && first <= allowance.until);
        within.map(|allowance| u64::from(allowance.tokens)).sum()
    }
}

/// A message if more tokens were spent in some window than the limit and the allowances allow. A sliding window estimates
/// the weight of the window before, so only its aligned windows are bounded.
pub fn count_violation(
    limit: &Limit,
    spent: &[(Nanos, u32)],
    allowances: &[WindowAllowance],
) -> Option<String> {
    match limit {
        Limit::Meter(Meter::TokenBucket(_)) => None,
        Limit::Meter(Meter::SlidingWindow(quota) | Meter::FixedWindow(quota)) => {
            in_aligned_windows((quota.limit(), quota.length()), spent, allowances)
        }
        Limit::Log(quota) => in_any_window((quota.limit(), quota.window()), spent, allowances),
    }
}

fn in_aligned_windows(
    (limit, length): (u32, Nanos),
    spent: &[(Nanos, u32)],
    allowances: &[WindowAllowance],
) -> Option<String> {
    let window = |at: Nanos| at.get() / length.get();
    spent.chunk_by(|one, next| window(one.0) == window(next.0)).find_map(|together| {
        let sum: u64 = together.iter().map(|&(_, tokens)| u64::from(tokens)).sum();
        let first = Nanos::new(window(together[0].0) * length.get());
        let last = first.saturating_add(length).saturating_sub(Nanos::new(1));
        let most = u64::from(limit) + WindowAllowance::within(allowances, first, last);
        (sum > most).then(|| format!("{sum} tokens in a window, at most {most} are allowed"))
    })
}

fn in_any_window(
    (limit, window): (u32, Nanos),
    spent: &[(Nanos, u32)],
    allowances: &[WindowAllowance],
) -> Option<String> {
    let (mut oldest, mut sum) = (0, 0_u64);
    for &(at, tokens) in spent {
        sum += u64::from(tokens);
        while spent[oldest].0.saturating_add(window) <= at {
            sum -= u64::from(spent[oldest].1);
            oldest += 1;
        }
        if sum <= u64::from(limit) {
            continue;
        }
        let most = u64::from(limit) + WindowAllowance::within(allowances, spent[oldest].0, at);
        if sum > most {
            return Some(format!("{sum} tokens within {window}, at most {most} are allowed"));
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
        assert_eq!(count_violation(&limit, &[(at(500), 3), (at(1_500), 3)], &[]), None);
        assert!(count_violation(&limit, &[(at(500), 3), (at(1_499), 1)], &[]).is_some());
    }

    #[test]
    fn windows_count_over_their_own() {
        let limit = Limit::fixed_window(WindowQuota::new(3, Nanos::SECOND).expect("in range"));
        assert_eq!(count_violation(&limit, &[(at(999), 3), (at(1_000), 3)], &[]), None);
        assert!(count_violation(&limit, &[(at(1_000), 3), (at(1_999), 1)], &[]).is_some());
    }
    #[test]
    fn what_is_put_back_counts_in_the_windows_that_contain_it() {
        let granted = [WindowAllowance::of(at(1_200), Allowance::Granted(2), 3)];
        let reset = [WindowAllowance::of(at(1_200), Allowance::Capacity, 3)];
        for limit in [
            Limit::fixed_window(WindowQuota::new(3, Nanos::SECOND).expect("in range")),
            Limit::from(LogQuota::new(3, Nanos::SECOND).expect("in range")),
        ] {
            let spent = |more: u32| [(at(1_100), 3), (at(1_300), more)];
            assert_eq!(count_violation(&limit, &spent(2), &granted), None);
            assert!(count_violation(&limit, &spent(3), &granted).is_some(), "one more than was granted");
            assert_eq!(count_violation(&limit, &spent(3), &reset), None);
            assert!(count_violation(&limit, &spent(4), &reset).is_some());
            let later = [(at(2_300), 3), (at(2_400), 1)];
            assert!(count_violation(&limit, &later, &reset).is_some(), "a later window has no more");
        }
        let twice = [WindowAllowance::of(at(1_200), Allowance::Granted(5), 3)];
        let limit = Limit::from(LogQuota::new(3, Nanos::SECOND).expect("in range"));
        assert!(count_violation(&limit, &[(at(1_100), 3), (at(1_300), 4)], &twice).is_some());
    }
}
