//! How much of unfinished bodies is kept, on all connections together.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::bounds::BODIES_BYTES_MAX;

/// What there is for bodies of which the rest is still to come. Each is bounded by itself; this bounds
/// what many clients that do not go on can take together.
#[derive(Debug)]
pub(crate) struct BodyBudget {
    max: usize,
    taken: AtomicUsize,
}

impl Default for BodyBudget {
    fn default() -> BodyBudget {
        BodyBudget::of(BODIES_BYTES_MAX)
    }
}

impl BodyBudget {
    /// Of so many bytes.
    pub(super) fn of(max: usize) -> BodyBudget {
        BodyBudget { max, taken: AtomicUsize::new(0) }
    }

    /// A share of nothing, which can grow.
    pub(super) fn share(&self) -> Share<'_> {
        Share { budget: self, bytes: 0 }
    }
}

/// What one body takes of it, until this is dropped.
#[derive(Debug)]
pub(super) struct Share<'a> {
    budget: &'a BodyBudget,
    bytes: usize,
}

impl Share<'_> {
    /// Takes so many bytes in all; `false` if there are not as many, and nothing changes.
    pub(super) fn grow_to(&mut self, bytes: usize) -> bool {
        let more = bytes.saturating_sub(self.bytes);
        let grown = |taken: usize| taken.checked_add(more).filter(|taken| *taken <= self.budget.max);
        let there = self.budget.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grown).is_ok();
        if there {
            self.bytes += more;
        }
        there
    }
}

impl Drop for Share<'_> {
    fn drop(&mut self) {
        self.budget.taken.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_comes_back() {
        let budget = BodyBudget::of(10);
        let (mut one, mut other) = (budget.share(), budget.share());
        assert!(one.grow_to(6) && one.grow_to(4) && other.grow_to(4));
        assert!(!other.grow_to(5) && !other.grow_to(usize::MAX));
        drop(one);
        assert!(other.grow_to(10));
        drop(other);
        assert_eq!(budget.taken.into_inner(), 0);
    }
}
