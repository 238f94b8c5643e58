//! The tokens that a request takes from a limit.

use core::fmt;
use core::num::TryFromIntError;

/// The number of tokens that one request takes: 0 to 2³²−1. A cost of zero takes nothing and is always
/// admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cost(u32);

impl Cost {
    /// Takes nothing and is always admitted: for reading the state of a limit.
    pub const ZERO: Cost = Cost(0);
    /// The cost of a request unless another is given.
    pub const ONE: Cost = Cost(1);
    /// The largest cost.
    pub const MAX: Cost = Cost(u32::MAX);

    /// A cost of `tokens` tokens.
    pub const fn new(tokens: u32) -> Cost {
        Cost(tokens)
    }

    /// The number of tokens.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The product of both costs, at most [`Cost::MAX`].
    #[must_use]
    pub const fn saturating_mul(self, other: Cost) -> Cost {
        Cost(self.0.saturating_mul(other.0))
    }
}

impl Default for Cost {
    fn default() -> Cost {
        Cost::ONE
    }
}

impl From<u32> for Cost {
    fn from(tokens: u32) -> Cost {
        Cost(tokens)
    }
}

impl TryFrom<u64> for Cost {
    type Error = TryFromIntError;

    fn try_from(tokens: u64) -> Result<Cost, TryFromIntError> {
        u32::try_from(tokens).map(Cost)
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_product_saturates_and_a_large_number_is_refused() {
        assert_eq!(Cost::new(70_000).saturating_mul(Cost::new(70_000)), Cost::MAX);
        assert_eq!(Cost::new(7).saturating_mul(Cost::new(6)).get(), 42);
        assert!(Cost::try_from(1_u64 << 32).is_err());
        assert_eq!(Cost::try_from(u64::from(u32::MAX)), Ok(Cost::MAX));
    }
}
