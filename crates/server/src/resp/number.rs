//! Whole numbers, read from bytes.

/// The number on a line that may not be there yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// The number, and how many bytes the line has with its end.
    Number(i64, usize),
    /// The line has no end yet.
    Partial,
    /// There is no number on it.
    Bad,
}

/// More digits than any length has, and few enough not to overflow.
const DIGITS_MAX: usize = 18;

/// Reads the number on a line that ends with CRLF.
#[inline]
pub(super) fn line(bytes: &[u8]) -> Line {
    let signed = bytes.first() == Some(&b'-');
    let digits = &bytes[usize::from(signed)..];
    let mut value = 0_i64;
    for (place, byte) in digits.iter().enumerate() {
        match byte {
            b'0'..=b'9' if place < DIGITS_MAX => value = value * 10 + i64::from(byte - b'0'),
            b'\r' if place > 0 => {
                let used = usize::from(signed) + place + 2;
                return match digits.get(place + 1) {
                    None => Line::Partial,
                    Some(b'\n') => Line::Number(if signed { -value } else { value }, used),
                    Some(_) => Line::Bad,
                };
            }
            _ => return Line::Bad,
        }
    }
    Line::Partial
}

/// Why an argument is no number that can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoNumber {
    /// It is none.
    Syntax,
    /// It does not fit 64 bits.
    Range,
}

/// Reads an argument that is a whole number.
#[inline]
pub(super) fn integer(bytes: &[u8]) -> Result<i64, NoNumber> {
    let (negative, digits) = match bytes {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(NoNumber::Syntax);
    }
    let mut value = 0_i64;
    for digit in digits {
        // Downwards, for the least number has no positive twin.
        let next = value.checked_mul(10).and_then(|value| value.checked_sub(i64::from(digit - b'0')));
        value = next.ok_or(NoNumber::Range)?;
    }
    if negative { Ok(value) } else { value.checked_neg().ok_or(NoNumber::Range) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_with_both_bytes() {
        for (bytes, read) in [
            (&b"3\r\n$4"[..], Line::Number(3, 3)),
            (b"-1\r\n", Line::Number(-1, 4)),
            (b"007\r\n", Line::Number(7, 5)),
            (b"123456789012345678\r\n", Line::Number(123_456_789_012_345_678, 20)),
            (b"1234567890123456789\r\n", Line::Bad),
            (b"", Line::Partial),
            (b"-", Line::Partial),
            (b"12", Line::Partial),
            (b"12\r", Line::Partial),
            (b"12\n", Line::Bad),
            (b"12\rx", Line::Bad),
            (b"\r\n", Line::Bad),
            (b"-\r\n", Line::Bad),
            (b"1x", Line::Bad),
            (b"+1\r\n", Line::Bad),
        ] {
            assert_eq!(line(bytes), read, "{}", bytes.escape_ascii());
        }
    }

    #[test]
    fn arguments_are_numbers_of_64_bits() {
        for number in [0, 1, -1, 42, i64::MAX, i64::MIN] {
            assert_eq!(integer(number.to_string().as_bytes()), Ok(number));
        }
        assert_eq!(integer(b"+7"), Ok(7));
        for text in ["", "-", "+", "1.0", "1e3", " 1", "1 ", "0x1", "--1", "NaN", "\u{661}"] {
            assert_eq!(integer(text.as_bytes()), Err(NoNumber::Syntax), "{text}");
        }
        for text in ["9223372036854775808", "-9223372036854775809", &"9".repeat(400)] {
            assert_eq!(integer(text.as_bytes()), Err(NoNumber::Range), "{text}");
        }
    }
}
