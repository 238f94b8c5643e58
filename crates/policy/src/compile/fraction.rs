//! Adds rates over different windows without rounding.

/// A fraction, exact as long as its parts fit in 128 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fraction {
    num: u128,
    den: u128,
}

impl Fraction {
    pub(super) fn new(num: u128, den: u128) -> Fraction {
        let divisor = gcd(num, den).max(1);
        Fraction { num: num / divisor, den: den / divisor }
    }

    pub(super) fn sum(terms: impl Iterator<Item = Fraction>) -> Fraction {
        terms.fold(Fraction::new(0, 1), |a, b| a.plus(b))
    }

    /// If the windows are so odd that the sum does not fit in 128 bits, both terms are rounded up to whole tokens.
    fn plus(self, other: Fraction) -> Fraction {
        let exact = || {
            let num = self.num.checked_mul(other.den)?.checked_add(other.num.checked_mul(self.den)?)?;
            Some(Fraction::new(num, self.den.checked_mul(other.den)?))
        };
        exact().unwrap_or_else(|| Fraction::new(self.ceil().saturating_add(other.ceil()), 1))
    }

    /// The difference; zero if `other` is larger. If it does not fit in 128 bits, `other` is rounded up to whole tokens.
    pub(super) fn minus(self, other: Fraction) -> Fraction {
        let exact = || {
            let num = self.num.checked_mul(other.den)?.saturating_sub(other.num.checked_mul(self.den)?);
            Some(Fraction::new(num, self.den.checked_mul(other.den)?))
        };
        exact().unwrap_or_else(|| Fraction::new(self.floor().saturating_sub(other.ceil()), 1))
    }

    pub(super) fn ceil(self) -> u128 {
        self.num.div_ceil(self.den)
    }

    pub(super) fn floor(self) -> u128 {
        self.num / self.den
    }
}

impl PartialOrd for Fraction {
    fn partial_cmp(&self, other: &Fraction) -> Option<std::cmp::Ordering> {
        let (whole, rest) = (self.floor(), self.num % self.den);
        let (other_whole, other_rest) = (other.floor(), other.num % other.den);
        let parts = || {
            let (mine, theirs) = (rest.checked_mul(other.den)?, other_rest.checked_mul(self.den)?);
            Some(mine.cmp(&theirs))
        };
        match whole.cmp(&other_whole) {
            std::cmp::Ordering::Equal => parts().or(Some(std::cmp::Ordering::Equal)),
            unequal => Some(unequal),
        }
    }
}

fn gcd(a: u128, b: u128) -> u128 {
    if b == 0 { a } else { gcd(b, a % b) }
}
