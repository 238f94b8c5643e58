//! Writes replies in RESP2 and RESP3.

use std::fmt::{self, Write};

/// The version of the protocol that a client has chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum RespVersion {
    /// RESP2, the default.
    #[default]
    Two = 2,
    /// RESP3, which has maps, verbatim strings and its own null.
    Three = 3,
}

/// Writes replies in a client's protocol version.
#[derive(Debug)]
pub(crate) struct ReplyWriter<'o> {
    pub(crate) out: &'o mut Vec<u8>,
    pub(crate) version: RespVersion,
}

impl ReplyWriter<'_> {
    /// A simple string, such as `OK`.
    pub(crate) fn word(&mut self, word: &str) {
        self.out.push(b'+');
        self.out.extend_from_slice(word.as_bytes());
        self.end();
    }

    /// An error. The message begins with its kind, such as `ERR`; line breaks in it become spaces.
    pub(crate) fn error(&mut self, message: fmt::Arguments<'_>) {
        self.out.push(b'-');
        OneLine(self.out).write_fmt(message).expect("writing to memory does not fail");
        self.end();
    }

    /// An integer.
    #[inline]
    pub(crate) fn integer(&mut self, value: i64) {
        self.head(b':', value);
    }

    /// A bulk string.
    pub(crate) fn bulk(&mut self, bytes: &[u8]) {
        self.head(b'$', bytes.len() as i64);
        self.out.extend_from_slice(bytes);
        self.end();
    }

    /// Text for people: a verbatim string in RESP3.
    pub(crate) fn text(&mut self, text: &str) {
        match self.version {
            RespVersion::Two => self.bulk(text.as_bytes()),
            RespVersion::Three => {
                self.head(b'=', text.len() as i64 + 4);
                self.out.extend_from_slice(b"txt:");
                self.out.extend_from_slice(text.as_bytes());
                self.end();
            }
        }
    }

    /// Null.
    pub(crate) fn null(&mut self) {
        let null: &[u8] = match self.version {
            RespVersion::Two => b"$-1\r\n",
            RespVersion::Three => b"_\r\n",
        };
        self.out.extend_from_slice(null);
    }

    /// The head of an array: `len` elements must follow.
    #[inline]
    pub(crate) fn array(&mut self, len: usize) {
        self.head(b'*', len as i64);
    }

    /// The head of a map: `len` names must follow, each with its value.
    pub(crate) fn map(&mut self, len: usize) {
        match self.version {
            RespVersion::Two => self.array(len * 2),
            RespVersion::Three => self.head(b'%', len as i64),
        }
    }

    #[inline]
    fn head(&mut self, kind: u8, number: i64) {
        self.out.push(kind);
        self.out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
        self.end();
    }

    #[inline]
    fn end(&mut self) {
        self.out.extend_from_slice(b"\r\n");
    }
}

/// Replaces line breaks, which would end an error too early, with spaces.
struct OneLine<'o>(&'o mut Vec<u8>);

impl Write for OneLine<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.extend(text.bytes().map(|byte| if byte == b'\r' || byte == b'\n' { b' ' } else { byte }));
        Ok(())
    }
}

/// Bytes of a client in a message: escaped and truncated.
pub(crate) struct EscapedBytes<'a>(pub(crate) &'a [u8]);

/// How many bytes of an argument are shown.
const SHOWN_MAX: usize = 64;

impl fmt::Display for EscapedBytes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = &self.0[..self.0.len().min(SHOWN_MAX)];
        write!(f, "{}", shown.escape_ascii())?;
        f.write_str(if shown.len() < self.0.len() { "..." } else { "" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(version: RespVersion, write: impl FnOnce(&mut ReplyWriter<'_>)) -> String {
        let mut out = Vec::new();
        write(&mut ReplyWriter { out: &mut out, version });
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn every_kind_of_answer_in_both_versions() {
        let both = |write: &dyn Fn(&mut ReplyWriter<'_>)| {
            (written(RespVersion::Two, write), written(RespVersion::Three, write))
        };
        let same = |text: &str| (text.to_owned(), text.to_owned());
        assert_eq!(both(&|reply| reply.word("OK")), same("+OK\r\n"));
        for number in [0, 7, 10, 99, 100, -1, -10, 4_294_967_295, i64::MAX, i64::MIN] {
            assert_eq!(both(&|reply| reply.integer(number)), same(&format!(":{number}\r\n")));
        }
        assert_eq!(both(&|reply| reply.bulk(b"a\r\nb")), same("$4\r\na\r\nb\r\n"));
        assert_eq!(both(&|reply| reply.bulk(b"")), same("$0\r\n\r\n"));
        assert_eq!(both(&|reply| reply.array(5)), same("*5\r\n"));
        assert_eq!(both(&|reply| reply.null()), ("$-1\r\n".to_owned(), "_\r\n".to_owned()));
        assert_eq!(both(&|reply| reply.map(2)), ("*4\r\n".to_owned(), "%2\r\n".to_owned()));
        assert_eq!(
            both(&|reply| reply.text("hi")),
            ("$2\r\nhi\r\n".to_owned(), "=6\r\ntxt:hi\r\n".to_owned())
        );
    }

    #[test]
    fn an_error_stays_on_its_line() {
        let said = written(RespVersion::Two, |reply| reply.error(format_args!("ERR {}", "a\r\n+OK\nb")));
        assert_eq!(said, "-ERR a  +OK b\r\n");
        let long = [b'\x1b'; 100];
        assert_eq!(EscapedBytes(&long).to_string(), format!("{}...", "\\x1b".repeat(64)));
        assert_eq!(EscapedBytes("é'".as_bytes()).to_string(), "\\xc3\\xa9\\'");
    }
}
