//! The head of a request: which fields are valid, and the few that gRPC needs.

use smallvec::SmallVec;

use super::hpack::FIELD_OVERHEAD;
use crate::bounds::HTTP2_HEAD_BYTES_MAX;

/// The fields that are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeptField {
    Path,
    ContentType,
    GrpcEncoding,
    GrpcTimeout,
    Traceparent,
}

/// The most bytes that are kept of a value.
const VALUE_KEPT_BYTES: usize = 256;

/// The head of a call.
#[derive(Debug, Default)]
pub(crate) struct CallHead {
    pub(crate) is_post: bool,
    pub(crate) content_length: Option<u64>,
    /// The kept values one after the other: usually they fit without an allocation.
    text: SmallVec<[u8; 128]>,
    /// Where each is.
    kept: [Option<(u16, u16)>; 5],
}

impl CallHead {
    /// The first value of a field.
    pub(crate) fn get(&self, field: KeptField) -> Option<&[u8]> {
        let (from, to) = self.kept[field as usize]?;
        self.text.get(usize::from(from)..usize::from(to))
    }

    /// The path without its query.
    pub(crate) fn path(&self) -> &[u8] {
        let path = self.get(KeptField::Path).unwrap_or_default();
        path.split(|byte| *byte == b'?').next().unwrap_or_default()
    }

    /// Keeps the first value of a field. What is longer than any value that gRPC knows is cut: it is then unknown too.
    fn keep(&mut self, field: KeptField, value: &[u8]) {
        let value = &value[..value.len().min(VALUE_KEPT_BYTES)];
        let kept = &mut self.kept[field as usize];
        if kept.is_none()
            && let (Ok(from), Ok(to)) =
                (u16::try_from(self.text.len()), u16::try_from(self.text.len() + value.len()))
        {
            *kept = Some((from, to));
            self.text.extend_from_slice(value);
        }
    }

    #[cfg(test)]
    pub(crate) fn with(field: KeptField, value: &str) -> CallHead {
        let mut head = CallHead::default();
        head.keep(field, value.as_bytes());
        head
    }
}

/// What a decoded header block is.
#[derive(Debug)]
pub(super) enum ReadHead {
    Sound(CallHead),
    /// Its fields are more than [`HTTP2_HEAD_BYTES_MAX`].
    TooLarge,
    /// It breaks a rule of RFC 9113, section 8.
    Malformed,
}

/// Takes the fields of a header block one by one.
#[derive(Debug, Default)]
pub(super) struct HeadReader {
    head: CallHead,
    size: usize,
    is_malformed: bool,
    /// A field that is not a pseudo-header has come.
    is_past_pseudo: bool,
    is_connect: bool,
    has_method: bool,
    has_scheme: bool,
    has_authority: bool,
}

impl HeadReader {
    pub(super) fn field(&mut self, name: &[u8], value: &[u8]) {
        self.size += name.len() + value.len() + FIELD_OVERHEAD;
        if self.is_too_large() || self.is_malformed {
            return;
        }
        let is_sound = match name {
            [b':', ..] => self.pseudo_header(name, value),
            _ => self.header(name, value),
        };
        self.is_malformed = !is_sound;
    }

    /// Ends the head of a request.
    pub(super) fn end(self) -> ReadHead {
        if self.is_too_large() {
            return ReadHead::TooLarge;
        }
        let has_path = self.head.get(KeptField::Path).is_some();
        let is_complete = match self.is_connect {
            true => self.has_authority && !self.has_scheme && !has_path,
            false => self.has_method && self.has_scheme && has_path,
        };
        if self.is_malformed || !is_complete { ReadHead::Malformed } else { ReadHead::Sound(self.head) }
    }

    /// Ends trailers, which have no pseudo-headers. Are they valid?
    pub(super) fn end_trailers(self) -> bool {
        let has_pseudo = self.has_method
            || self.has_scheme
            || self.has_authority
            || self.head.get(KeptField::Path).is_some();
        !self.is_too_large() && !self.is_malformed && !has_pseudo
    }

    fn is_too_large(&self) -> bool {
        self.size > HTTP2_HEAD_BYTES_MAX as usize
    }

    fn pseudo_header(&mut self, name: &[u8], value: &[u8]) -> bool {
        if self.is_past_pseudo || !is_value(value) {
            return false;
        }
        let repeated = match name {
            b":method" => {
                self.head.is_post = value == b"POST";
                self.is_connect = value == b"CONNECT";
                std::mem::replace(&mut self.has_method, true) || value.is_empty()
            }
            b":scheme" => std::mem::replace(&mut self.has_scheme, true),
            b":authority" => std::mem::replace(&mut self.has_authority, true),
            b":path" => {
                let has_path = self.head.get(KeptField::Path).is_some();
                self.head.keep(KeptField::Path, value);
                has_path || value.is_empty() || !value.iter().all(u8::is_ascii_graphic)
            }
            _ => true,
        };
        !repeated
    }

    fn header(&mut self, name: &[u8], value: &[u8]) -> bool {
        self.is_past_pseudo = true;
        if !is_name(name) || !is_value(value) {
            return false;
        }
        match name {
            b"content-type" => self.head.keep(KeptField::ContentType, value),
            b"grpc-encoding" => self.head.keep(KeptField::GrpcEncoding, value),
            b"grpc-timeout" => self.head.keep(KeptField::GrpcTimeout, value),
            b"traceparent" => self.head.keep(KeptField::Traceparent, value),
            b"content-length" => {
                let Some(length) = content_length(value) else { return false };
                return self.head.content_length.replace(length).is_none_or(|other| other == length);
            }
            b"te" => return value == b"trailers",
            // They belong to HTTP/1.1.
            b"connection" | b"proxy-connection" | b"keep-alive" | b"transfer-encoding" | b"upgrade" => {
                return false;
            }
            _ => {}
        }
        true
    }
}

fn content_length(value: &[u8]) -> Option<u64> {
    let digits = value.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(value).ok().filter(|_| digits)?.parse().ok()
}

/// A name is of lower case and has no space, no control characters and no colon.
fn is_name(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|byte| matches!(byte, 0x21..=0x39 | 0x3b..=0x40 | 0x5b..=0x7e))
}

/// A value has no line break and no NUL, and neither starts nor ends with a space.
fn is_value(value: &[u8]) -> bool {
    let is_space = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    !is_space(value.first())
        && !is_space(value.last())
        && !value.iter().any(|byte| matches!(byte, b'\0' | b'\r' | b'\n'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOUND: [(&str, &str); 4] =
        [(":method", "POST"), (":scheme", "http"), (":path", "/a?b"), ("te", "trailers")];

    fn read(fields: &[(&str, &str)]) -> ReadHead {
        let mut reader = HeadReader::default();
        fields.iter().for_each(|(name, value)| reader.field(name.as_bytes(), value.as_bytes()));
        reader.end()
    }

    #[test]
    fn what_grpc_needs_is_kept() {
        let more = [("content-type", "application/grpc"), ("content-type", "else"), ("content-length", "7")];
        let ReadHead::Sound(head) = read(&[&SOUND[..], &more].concat()) else { panic!("it is sound") };
        assert!(head.is_post && head.content_length == Some(7));
        assert_eq!(head.path(), b"/a");
        assert_eq!(head.get(KeptField::ContentType), Some(&b"application/grpc"[..]), "the first counts");
        assert_eq!(head.get(KeptField::GrpcTimeout), None);
        let connect = read(&[(":method", "CONNECT"), (":authority", "a:1")]);
        assert!(matches!(connect, ReadHead::Sound(head) if !head.is_post));
    }

    #[test]
    fn what_breaks_a_rule_is_malformed() {
        for more in [
            (":path", "/late"),
            ("Upper", "case"),
            ("", "no name"),
            ("a b", "a space"),
            ("a:b", "a colon"),
            ("a\u{e9}", "not ASCII"),
            ("a", "line\nbreak"),
            ("a", "nul\0"),
            ("a", " space"),
            ("a", "space\t"),
            ("connection", "close"),
            ("transfer-encoding", "chunked"),
            ("te", "gzip"),
            ("content-length", "+1"),
            ("content-length", "1, 2"),
        ] {
            let read = read(&[&SOUND[..], &[more]].concat());
            assert!(matches!(read, ReadHead::Malformed), "{more:?}: {read:?}");
        }
        for first in
            [(":path", "/b"), (":method", "POST"), (":protocol", "x"), (":status", "200"), (":x", "")]
        {
            let read = read(&[&[first], &SOUND[..]].concat());
            assert!(matches!(read, ReadHead::Malformed), "{first:?}: {read:?}");
        }
        for missing in 0..3 {
            let mut fields = SOUND.to_vec();
            fields.remove(missing);
            assert!(matches!(read(&fields), ReadHead::Malformed), "{fields:?}");
        }
        assert!(matches!(
            read(&[(":method", "POST"), (":scheme", "http"), (":path", "")]),
            ReadHead::Malformed
        ));
    }

    #[test]
    fn the_size_of_all_fields_is_bounded() {
        let value = "x".repeat(1_000);
        let mut fields = SOUND.to_vec();
        fields.resize(SOUND.len() + 15, ("a", value.as_str()));
        assert!(matches!(read(&fields), ReadHead::Sound(_)));
        fields.push(("a", value.as_str()));
        assert!(matches!(read(&fields), ReadHead::TooLarge));
    }

    #[test]
    fn long_values_are_cut_and_stay_unknown() {
        let (encoding, path) = ("identity".repeat(100), format!("/a{}", "b".repeat(5_000)));
        let fields =
            [(":method", "POST"), (":scheme", "http"), (":path", &path), ("grpc-encoding", &encoding)];
        let ReadHead::Sound(head) = read(&fields) else { panic!("it is sound") };
        assert_eq!(head.path(), &path.as_bytes()[..256]);
        assert_eq!(head.get(KeptField::GrpcEncoding), Some(&encoding.as_bytes()[..256]));
    }

    #[test]
    fn trailers_have_no_pseudo_headers() {
        let is_sound = |name: &str| {
            let mut reader = HeadReader::default();
            reader.field(name.as_bytes(), b"x");
            reader.end_trailers()
        };
        assert!(is_sound("checksum") && !is_sound(":path") && !is_sound(":method") && !is_sound(":unknown"));
    }
}
