//! Exact division by a constant, done as a multiplication.
//!
//! A decision needs three quotients whose divisors are fixed when the quota is made. Each is computed by
//! multiplying with a 128-bit binary fraction, which is wide enough that the result is the true floor or
//! ceiling for every operand that can occur. The proof is beside each function; the tests compare with plain
//! division at the extremes.

/// `floor(num · 2¹²⁸ / den)`, and whether the result was rounded, for `num < den`.
pub(crate) const fn fraction(num: u64, den: u64) -> (u128, bool) {
    assert!(num < den, "a proper fraction");
    let den = den as u128;
    let shifted = (num as u128) << 64;
    let (high, rest) = (shifted / den, shifted % den);
    let shifted = rest << 64;
    let (low, rest) = (shifted / den, shifted % den);
    (high << 64 | low, rest != 0)
}

/// The upper 64 and the lower 128 bits of the 192-bit product.
#[inline(always)]
const fn mul_wide(x: u64, fraction: u128) -> (u64, u128) {
    let low = (x as u128) * (fraction as u64 as u128);
    let high = (x as u128) * (fraction >> 64) + (low >> 64);
    ((high >> 64) as u64, high << 64 | low as u64 as u128)
}

/// `floor(x · num / den)`, with the fraction rounded up.
///
/// Exact while `x ≤ 2⁶³` and `den < 2⁶⁵`: the result is too large by less than `x · 2⁻¹²⁸`, which is less than
/// `1/den`, and an exact quotient that is not whole is at least `1/den` below the next integer.
#[inline(always)]
pub(crate) const fn scale_floor(x: u64, rounded_up: u128) -> u64 {
    mul_wide(x, rounded_up).0
}

/// `ceil(x · num / den)`, with the fraction rounded down.
///
/// Exact for every `x`: the result is too small by less than `x · 2⁻¹²⁸ < 2⁻⁶⁴`, and an exact quotient that is
/// not whole is at least `1/den > 2⁻⁶⁴` above its floor. The fraction 1 (`num = den`) is written as `2¹²⁸ − 1`,
/// which is too small by no more than that.
#[inline(always)]
pub(crate) const fn scale_ceil(x: u64, rounded_down: u128) -> u64 {
    let (whole, rest) = mul_wide(x, rounded_down);
    whole + (rest != 0) as u64
}

/// `floor((2¹²⁸ − 1) / den)`, for [`div_floor`].
pub(crate) const fn reciprocal(den: u64) -> u128 {
    u128::MAX / den as u128
}

/// `floor(x / den)` by `reciprocal(den)`, for `x < 2⁶⁴ − 1` and any `den ≥ 1`.
///
/// With `2¹²⁸ − 1 = r·den + e`, the product `(x+1)·r / 2¹²⁸` is below `(x+1)/den` by at most
/// `2⁶⁴·den / (den·2¹²⁸) = 2⁻⁶⁴ < 1/den`. So it is never below `floor(x/den)`; and since it is below
/// `(x+1)/den`, it never reaches the next integer.
#[inline(always)]
pub(crate) const fn div_floor(x: u64, reciprocal: u128) -> u64 {
    mul_wide(x + 1, reciprocal).0
}

/// `part / den` for `part ≤ den`, in units of 2⁻⁶⁴; too small by at most two units.
#[inline(always)]
pub(crate) const fn portion(part: u64, reciprocal: u128) -> u64 {
    let low = (part as u128) * (reciprocal as u64 as u128);
    ((part as u128) * (reciprocal >> 64) + (low >> 64)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Numbers near powers of two and at the ends, where rounding goes wrong.
    fn edgy() -> impl Strategy<Value = u64> {
        prop_oneof![
            any::<u64>(),
            (0_u32..64, -3_i64..=3).prop_map(|(bit, off)| (1_u64 << bit).wrapping_add_signed(off)),
            0_u64..1_000,
            (1_u64..2_000_000_000).prop_map(|n| n * 1_000_000_000),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]

        #[test]
        fn div_floor_is_division(x in edgy(), den in edgy()) {
            prop_assume!(x < u64::MAX && den > 0);
            prop_assert_eq!(div_floor(x, reciprocal(den)), x / den);
            // The hardest operands are those next to a multiple.
            let multiple = x / den * den;
            prop_assert_eq!(div_floor(multiple, reciprocal(den)), multiple / den);
            if multiple > 0 {
                prop_assert_eq!(div_floor(multiple - 1, reciprocal(den)), (multiple - 1) / den);
            }
        }

        #[test]
        fn scaling_is_exact(x in edgy(), a in edgy(), b in edgy()) {
            prop_assume!(a != b);
            let (num, den) = (a.min(b), a.max(b));
            let (down, cut) = fraction(num, den);
            let exact = u128::from(x) * u128::from(num);
            prop_assert_eq!(u128::from(scale_ceil(x, down)), exact.div_ceil(u128::from(den)));
            let x = x >> 1;
            let exact = u128::from(x) * u128::from(num);
            let up = down + u128::from(cut);
            prop_assert_eq!(u128::from(scale_floor(x, up)), exact / u128::from(den));
        }

        #[test]
        fn one_whole_changes_nothing(x in edgy()) {
            prop_assert_eq!(scale_ceil(x, u128::MAX), x);
        }
    }
}
