//! Numbers of YAML as numbers of JSON.

/// A number as JSON writes it: no plus, no base but ten, digits on both sides of the point. `None` if JSON has no such
/// number.
pub(crate) fn json_number(text: &str) -> Option<String> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", text.strip_prefix('+').unwrap_or(text)),
    };
    for (prefix, base) in [("0x", 16), ("0o", 8)] {
        if let Some(digits) = digits.strip_prefix(prefix) {
            return u128::from_str_radix(digits, base).ok().map(|number| format!("{sign}{number}"));
        }
    }
    let (mantissa, exponent) = match digits.find(['e', 'E']) {
        Some(index) => digits.split_at(index),
        None => (digits, ""),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if !(whole.bytes().chain(fraction.bytes())).all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let whole = match whole.trim_start_matches('0') {
        "" => "0",
        whole => whole,
    };
    let point = if fraction.is_empty() { "" } else { "." };
    Some(format!("{sign}{whole}{point}{fraction}{exponent}"))
}

/// Are these the same number? `1`, `1.0` and `+1` are; so are any two spellings without an exponent.
pub(crate) fn same_number(a: &str, b: &str) -> bool {
    let plain = |text: &str| {
        let number = json_number(text)?;
        let trimmed = match number.contains('.') && !number.contains(['e', 'E']) {
            true => number.trim_end_matches('0').trim_end_matches('.').to_owned(),
            false => number,
        };
        Some(if trimmed == "-0" { "0".to_owned() } else { trimmed })
    };
    match (plain(a), plain(b)) {
        (Some(a), Some(b)) => a == b,
        _ => a == b,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_become_json_numbers() {
        for (yaml, json) in [
            ("12", "12"),
            ("+12", "12"),
            ("-0x1F", "-31"),
            ("0o17", "15"),
            ("007", "7"),
            ("5.", "5"),
            (".5", "0.5"),
            ("1.50", "1.50"),
            ("1.5e-3", "1.5e-3"),
            ("123456789012345678901234567890", "123456789012345678901234567890"),
        ] {
            assert_eq!(json_number(yaml).as_deref(), Some(json), "{yaml}");
        }
        assert_eq!(json_number(".inf"), None);
        assert_eq!(json_number(".nan"), None);
    }

    #[test]
    fn spellings_of_one_number_are_equal() {
        for (a, b, same) in [
            ("1", "1.0", true),
            ("0x10", "16", true),
            ("-0", "0", true),
            ("1", "2", false),
            ("10", "1", false),
        ] {
            assert_eq!(same_number(a, b), same, "{a} {b}");
        }
    }
}
