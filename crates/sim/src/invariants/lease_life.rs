//! No token of a lease is used after the lease's life, which begins before its call is sent.

use std::collections::VecDeque;

use tidegate_core::Nanos;

/// When a node first used more tokens than its live leases held, and how many more. Both lists are in the order of
/// time. The lease that expires first is used first, which is the most favourable order.
pub fn used_after_expiry(
    leased: &[(Nanos, u32)],
    used: &[(Nanos, u32)],
    life: Nanos,
) -> Option<(Nanos, u32)> {
    let mut to_come = leased.iter().copied().peekable();
    let mut alive: VecDeque<(Nanos, u32)> = VecDeque::new();
    for &(at, tokens) in used {
        while let Some((sent, granted)) = to_come.next_if(|&(sent, _)| sent <= at) {
            alive.push_back((sent.saturating_add(life), granted));
        }
        while alive.front().is_some_and(|&(dies, _)| dies <= at) {
            alive.pop_front();
        }
        let mut missing = tokens;
        while let Some((_, left)) = alive.front_mut().filter(|_| missing > 0) {
            let drawn = missing.min(*left);
            missing -= drawn;
            *left -= drawn;
            if *left == 0 {
                alive.pop_front();
            }
        }
        if missing > 0 {
            return Some((at, missing));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Nanos {
        Nanos::from_millis(millis)
    }

    #[test]
    fn a_lease_is_used_while_it_lives() {
        let leased = [(at(0), 5), (at(50), 5)];
        assert_eq!(used_after_expiry(&leased, &[(at(10), 3), (at(99), 2), (at(149), 5)], at(100)), None);
        assert_eq!(used_after_expiry(&leased, &[(at(10), 3), (at(100), 6)], at(100)), Some((at(100), 1)));
        assert_eq!(used_after_expiry(&leased, &[(at(150), 1)], at(100)), Some((at(150), 1)));
        assert_eq!(
            used_after_expiry(&leased, &[(at(20), 6)], at(100)),
            Some((at(20), 1)),
            "not before it is asked for"
        );
    }
}
