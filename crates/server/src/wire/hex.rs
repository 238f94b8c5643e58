//! Bytes as hexadecimal digits.

/// Two lower-case digits for each byte.
pub(crate) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |value: u8| char::from(DIGITS[usize::from(value)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

#[cfg(test)]
mod tests {
    use super::hex;

    #[test]
    fn each_byte_has_two_digits() {
        assert_eq!(hex(&[0, 10, 255]), "000aff");
    }
}
