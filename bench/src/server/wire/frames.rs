//! The part of HTTP/2 that a client of small requests needs: frames, and a head that HPACK reduces to one
//! byte per header after the first request, as in proxies.

/// The connection preface.
pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
pub(super) const RST_STREAM: u8 = 3;
pub(super) const SETTINGS: u8 = 4;
pub(super) const PING: u8 = 6;
pub(super) const GOAWAY: u8 = 7;
pub(super) const WINDOW_UPDATE: u8 = 8;

pub(super) const END_STREAM: u8 = 0x1;
pub(super) const END_HEADERS: u8 = 0x4;
pub(super) const PADDED: u8 = 0x8;
/// For SETTINGS and PING.
pub(super) const ACK: u8 = 0x1;

const HEAD_BYTES: usize = 9;

/// A frame that was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Frame<'a> {
    pub(super) kind: u8,
    pub(super) flags: u8,
    pub(super) stream: u32,
    pub(super) payload: &'a [u8],
}

impl<'a> Frame<'a> {
    /// The first frame, and its length in bytes; `None` while it is incomplete.
    pub(super) fn read(received: &'a [u8]) -> Option<(Frame<'a>, usize)> {
        let &[a, b, c, kind, flags, d, e, f, g] = received.first_chunk::<HEAD_BYTES>()?;
        let end = HEAD_BYTES + u32::from_be_bytes([0, a, b, c]) as usize;
        let payload = received.get(HEAD_BYTES..end)?;
        let stream = u32::from_be_bytes([d, e, f, g]) & 0x7fff_ffff;
        Some((Frame { kind, flags, stream, payload }, end))
    }

    /// Appends the frame.
    pub(super) fn write(self, out: &mut Vec<u8>) {
        let length = u32::try_from(self.payload.len()).expect("requests are small").to_be_bytes();
        out.extend_from_slice(&length[1..]);
        out.extend_from_slice(&[self.kind, self.flags]);
        out.extend_from_slice(&self.stream.to_be_bytes());
        out.extend_from_slice(self.payload);
    }

    /// The increment of a WINDOW_UPDATE.
    pub(super) fn increment(&self) -> Option<u32> {
        self.payload.first_chunk().map(|&bytes| u32::from_be_bytes(bytes) & 0x7fff_ffff)
    }
}

/// The head of every request, compressed by HPACK: the first request adds the headers to the dynamic table,
/// later ones refer to it.
#[derive(Clone, Debug)]
pub(super) struct CompressedHead {
    pub(super) first: Vec<u8>,
    pub(super) later: Vec<u8>,
}

/// The first index of the dynamic table; the header added last comes first.
const DYNAMIC: usize = 62;

impl CompressedHead {
    /// A POST with these headers.
    pub(super) fn post(headers: &[(&str, &str)]) -> CompressedHead {
        // `:method: POST` and `:scheme: http` are in the static table.
        let (mut first, mut later) = (vec![0x83, 0x86], vec![0x83, 0x86]);
        for (place, (name, value)) in headers.iter().enumerate() {
            first.push(0x40);
            for text in [name, value] {
                first.push(u8::try_from(text.len()).ok().filter(|&length| length < 127).expect("short"));
                first.extend_from_slice(text.as_bytes());
            }
            let number = DYNAMIC + headers.len() - 1 - place;
            later.push(0x80 | u8::try_from(number).ok().filter(|&number| number < 127).expect("few"));
        }
        CompressedHead { first, later }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_out_as_they_went_in() {
        let frame = Frame { kind: DATA, flags: END_STREAM, stream: 77, payload: b"hello" };
        let mut bytes = Vec::new();
        frame.write(&mut bytes);
        assert_eq!(bytes, b"\0\0\x05\0\x01\0\0\0\x4dhello");
        assert_eq!(Frame::read(&bytes), Some((frame, bytes.len())));
        for end in 0..bytes.len() {
            assert_eq!(Frame::read(&bytes[..end]), None, "at {end}");
        }
    }

    #[test]
    fn a_head_is_told_once() {
        let head = CompressedHead::post(&[(":path", "/a"), ("te", "trailers")]);
        assert_eq!(head.first, b"\x83\x86\x40\x05:path\x02/a\x40\x02te\x08trailers");
        assert_eq!(head.later, [0x83, 0x86, 0x80 | 63, 0x80 | 62]);
    }
}
