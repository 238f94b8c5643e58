//! Splits an inline command, a line as people type it, into words with optional quotes.

use super::decode::{ArgRange, ArgRanges};

/// A quote is not closed, or is followed by something other than a blank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UnbalancedQuotes;

/// Splits a line into words, and removes quotes and escapes.
///
/// Within double quotes `\n`, `\r`, `\t`, `\b`, `\a` and `\xHH` are escapes, and a backslash before any other
/// character is dropped. Within single quotes `\'` is the only escape. A closing quote ends its word.
pub(crate) fn split(line: &[u8], words: &mut Vec<u8>, spans: &mut ArgRanges) -> Result<(), UnbalancedQuotes> {
    let mut rest = line;
    loop {
        let blank = rest.iter().take_while(|byte| is_blank(**byte)).count();
        rest = &rest[blank..];
        if rest.is_empty() {
            return Ok(());
        }
        let start = words.len();
        rest = word(rest, words)?;
        spans.push(ArgRange::new(start, words.len()));
    }
}

/// Reads one word, and returns what follows it.
fn word<'a>(mut rest: &'a [u8], words: &mut Vec<u8>) -> Result<&'a [u8], UnbalancedQuotes> {
    loop {
        match rest {
            [b'"', quoted @ ..] => return closed(double_quoted(quoted, words)?),
            [b'\'', quoted @ ..] => return closed(single_quoted(quoted, words)?),
            [byte, after @ ..] if !is_blank(*byte) => {
                words.push(*byte);
                rest = after;
            }
            _ => return Ok(rest),
        }
    }
}

/// Checks that a closing quote ends the word.
fn closed(rest: &[u8]) -> Result<&[u8], UnbalancedQuotes> {
    match rest.first() {
        Some(byte) if !is_blank(*byte) => Err(UnbalancedQuotes),
        _ => Ok(rest),
    }
}

fn double_quoted<'a>(mut rest: &'a [u8], words: &mut Vec<u8>) -> Result<&'a [u8], UnbalancedQuotes> {
    loop {
        let (byte, after) = match rest {
            [b'"', after @ ..] => return Ok(after),
            [b'\\', b'x', high, low, after @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                (nibble(*high) << 4 | nibble(*low), after)
            }
            [b'\\', escaped, after @ ..] => (unescaped(*escaped), after),
            [byte, after @ ..] => (*byte, after),
            [] => return Err(UnbalancedQuotes),
        };
        words.push(byte);
        rest = after;
    }
}

fn single_quoted<'a>(mut rest: &'a [u8], words: &mut Vec<u8>) -> Result<&'a [u8], UnbalancedQuotes> {
    loop {
        let (byte, after) = match rest {
            [b'\\', b'\'', after @ ..] => (b'\'', after),
            [b'\'', after @ ..] => return Ok(after),
            [byte, after @ ..] => (*byte, after),
            [] => return Err(UnbalancedQuotes),
        };
        words.push(byte);
        rest = after;
    }
}

fn unescaped(byte: u8) -> u8 {
    match byte {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 0x08,
        b'a' => 0x07,
        other => other,
    }
}

/// The value of a hexadecimal digit.
fn nibble(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        _ => (digit | 0x20) - b'a' + 10,
    }
}

fn is_blank(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == 0x0b || byte == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Option<Vec<Vec<u8>>> {
        let (mut words, mut spans) = (Vec::new(), ArgRanges::new());
        split(line.as_bytes(), &mut words, &mut spans).ok()?;
        Some(spans.iter().map(|span| words[span.start as usize..span.end as usize].to_vec()).collect())
    }

    #[test]
    fn lines_are_split_as_a_redis_server_splits_them() {
        for (line, expected) in [
            ("", &[][..]),
            ("  \t ", &[]),
            ("PING", &[&b"PING"[..]]),
            ("  set  key\tvalue ", &[b"set", b"key", b"value"]),
            (r#"echo "a b""#, &[b"echo", b"a b"]),
            (r#"echo "\x00\xfF\n\r\t\b\a\"\\\q""#, &[b"echo", b"\x00\xff\n\r\t\x08\x07\"\\q"]),
            (r#"echo "\xg1""#, &[b"echo", b"xg1"]),
            (r"echo 'a \n \' b'", &[b"echo", b"a \\n ' b"]),
            (r#"echo "" ''"#, &[b"echo", b"", b""]),
            (r#"ab"c d" e"#, &[b"abc d", b"e"]),
        ] {
            let expected: Vec<Vec<u8>> = expected.iter().map(|word| word.to_vec()).collect();
            assert_eq!(words(line), Some(expected), "{line}");
        }
    }

    #[test]
    fn quotes_must_fit_together() {
        for line in [r#"echo "a"#, "echo 'a", r#"echo "a"b"#, "echo 'a'b", r#"echo "a\""#, r"echo 'a\'"] {
            assert_eq!(words(line), None, "{line}");
        }
    }
}
