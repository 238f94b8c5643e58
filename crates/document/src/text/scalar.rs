//! The type of a plain scalar, by the core schema of YAML 1.2.

use crate::node::ValueKind;

/// Null, a boolean, a number, or text.
pub(super) fn resolve(plain: &str) -> ValueKind {
    match plain {
        "" | "~" | "null" | "Null" | "NULL" => ValueKind::Null,
        "true" | "True" | "TRUE" => ValueKind::Bool(true),
        "false" | "False" | "FALSE" => ValueKind::Bool(false),
        number if is_number(number) => ValueKind::Number(number.to_owned()),
        text => ValueKind::Text(text.to_owned()),
    }
}

/// Is this plain scalar text, and not a number, a boolean or null?
pub(crate) fn is_plain_text(plain: &str) -> bool {
    matches!(resolve(plain), ValueKind::Text(_))
}

fn is_number(text: &str) -> bool {
    if let Some(digits) = text.strip_prefix("0x") {
        return !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_hexdigit());
    }
    if let Some(digits) = text.strip_prefix("0o") {
        return !digits.is_empty() && digits.bytes().all(|b| matches!(b, b'0'..=b'7'));
    }
    if matches!(text, ".nan" | ".NaN" | ".NAN") {
        return true;
    }
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    matches!(unsigned, ".inf" | ".Inf" | ".INF") || is_decimal(unsigned)
}

/// `12`, `12.`, `.5`, `1.5e-3`.
fn is_decimal(text: &str) -> bool {
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (text, None),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    let mantissa_fits = digits(whole) && digits(fraction) && !(whole.is_empty() && fraction.is_empty());
    let exponent_fits = exponent.is_none_or(|exponent| {
        let unsigned = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
        !unsigned.is_empty() && digits(unsigned)
    });
    mantissa_fits && exponent_fits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_scalars_follow_the_core_schema() {
        for null in ["", "~", "null", "NULL"] {
            assert_eq!(resolve(null), ValueKind::Null, "{null:?}");
        }
        assert_eq!(resolve("True"), ValueKind::Bool(true));
        assert_eq!(resolve("false"), ValueKind::Bool(false));
        for number in ["0", "-1", "+12", "1.5", ".5", "5.", "1e3", "1.5E-3", "0x1F", "0o17", ".inf", "-.Inf"]
        {
            assert_eq!(resolve(number), ValueKind::Number(number.to_owned()), "{number:?}");
        }
        let texts =
            ["yes", "on", "nUll", "tRue", ".", "-", "+", "1_000", "1e", "e3", "10s", "1.2.3", "0x", "0b1"];
        for text in texts {
            assert_eq!(resolve(text), ValueKind::Text(text.to_owned()), "{text:?}");
        }
    }
}
