//! Parses integers.

/// The result of parsing a number on a line that may be incomplete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NumberLine {
    /// The number, and the length of the line including CRLF.
    Number(i64, usize),
    /// The line has no end yet.
    Partial,
    /// The line is not a number.
    Bad,
}

/// More digits than any valid length has, and few enough that `i64` cannot overflow.
const DIGITS_MAX: usize = 18;

/// Parses the number on a line that ends with CRLF.
#[inline]
pub(crate) fn line(bytes: &[u8]) -> NumberLine {
    let signed = bytes.first() == Some(&b'-');
    let digits = &bytes[usize::from(signed)..];
    let mut value = 0_i64;
    for (index, byte) in digits.iter().enumerate() {
        match byte {
            b'0'..=b'9' if index < DIGITS_MAX => value = value * 10 + i64::from(byte - b'0'),
            b'\r' if index > 0 => {
                let used = usize::from(signed) + index + 2;
                return match digits.get(index + 1) {
                    None => NumberLine::Partial,
                    Some(b'\n') => NumberLine::Number(if signed { -value } else { value }, used),
                    Some(_) => NumberLine::Bad,
                };
            }
            _ => return NumberLine::Bad,
        }
    }
    NumberLine::Partial
}

/// Why an argument is not a usable integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NumberError {
    /// It is not an integer.
    Syntax,
    /// It does not fit into 64 bits.
    Range,
}

/// Parses an argument that is an integer.
#[inline]
pub(crate) fn integer(bytes: &[u8]) -> Result<i64, NumberError> {
    let (negative, digits) = match bytes {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(NumberError::Syntax);
    }
    let mut value = 0_i64;
    for digit in digits {
        // Count downwards: `i64::MIN` has no positive counterpart.
        let next = value.checked_mul(10).and_then(|value| value.checked_sub(i64::from(digit - b'0')));
        value = next.ok_or(NumberError::Range)?;
    }
    if negative { Ok(value) } else { value.checked_neg().ok_or(NumberError::Range) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_with_both_bytes() {
        for (bytes, read) in [
            (&b"3\r\n$4"[..], NumberLine::Number(3, 3)),
            (b"-1\r\n", NumberLine::Number(-1, 4)),
            (b"007\r\n", NumberLine::Number(7, 5)),
            (b"123456789012345678\r\n", NumberLine::Number(123_456_789_012_345_678, 20)),
            (b"1234567890123456789\r\n", NumberLine::Bad),
            (b"", NumberLine::Partial),
            (b"-", NumberLine::Partial),
            (b"12", NumberLine::Partial),
            (b"12\r", NumberLine::Partial),
            (b"12\n", NumberLine::Bad),
            (b"12\rx", NumberLine::Bad),
            (b"\r\n", NumberLine::Bad),
            (b"-\r\n", NumberLine::Bad),
            (b"1x", NumberLine::Bad),
            (b"+1\r\n", NumberLine::Bad),
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
            assert_eq!(integer(text.as_bytes()), Err(NumberError::Syntax), "{text}");
        }
        for text in ["9223372036854775808", "-9223372036854775809", &"9".repeat(400)] {
            assert_eq!(integer(text.as_bytes()), Err(NumberError::Range), "{text}");
        }
    }
}
