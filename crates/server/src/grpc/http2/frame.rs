//! The bytes of frames: the nine that begin each, and the frames that the server sends.

use super::error::Http2Code;

/// The most bytes of the payload of a frame that a client may send: what every HTTP/2 server accepts, and no more.
pub(super) const PAYLOAD_MAX: usize = 16_384;
/// Bytes before a payload.
pub(super) const HEAD: usize = 9;

/// The kinds of frames.
pub(super) mod kind {
    pub(crate) const DATA: u8 = 0;
    pub(crate) const HEADERS: u8 = 1;
    pub(crate) const PRIORITY: u8 = 2;
    pub(crate) const RST_STREAM: u8 = 3;
    pub(crate) const SETTINGS: u8 = 4;
    pub(crate) const PUSH_PROMISE: u8 = 5;
    pub(crate) const PING: u8 = 6;
    pub(crate) const GOAWAY: u8 = 7;
    pub(crate) const WINDOW_UPDATE: u8 = 8;
    pub(crate) const CONTINUATION: u8 = 9;
}

/// The flags of frames.
pub(super) mod flag {
    pub(crate) const ACK: u8 = 1;
    pub(crate) const END_STREAM: u8 = 1;
    pub(crate) const END_HEADERS: u8 = 4;
    pub(crate) const PADDED: u8 = 8;
    pub(crate) const PRIORITY: u8 = 32;
}

/// What the nine bytes before a payload say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FrameHead {
    pub(super) length: usize,
    pub(super) kind: u8,
    pub(super) flags: u8,
    pub(super) stream: u32,
}

impl FrameHead {
    /// Reads a head; `None` if it is not complete.
    pub(super) fn read(bytes: &[u8]) -> Option<FrameHead> {
        let [a, b, c, kind, flags, stream @ ..] = *bytes.first_chunk::<HEAD>()?;
        let length = u32::from_be_bytes([0, a, b, c]) as usize;
        Some(FrameHead { length, kind, flags, stream: number31(stream) })
    }

    pub(super) fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// A number of 31 bits; the highest bit is reserved.
pub(super) fn number31(bytes: [u8; 4]) -> u32 {
    u32::from_be_bytes(bytes) & 0x7fff_ffff
}

/// The payload without its padding; `None` if the padding is longer than the payload.
pub(super) fn unpadded<'p>(head: &FrameHead, payload: &'p [u8]) -> Option<&'p [u8]> {
    if !head.has(flag::PADDED) {
        return Some(payload);
    }
    let (&padding, rest) = payload.split_first()?;
    rest.get(..rest.len().checked_sub(padding.into())?)
}

/// Writes a frame. The payload is at most [`PAYLOAD_MAX`] bytes.
pub(super) fn write(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    let [_, a, b, c] = (payload.len() as u32).to_be_bytes();
    let [d, e, f, g] = stream.to_be_bytes();
    out.extend_from_slice(&[a, b, c, kind, flags, d, e, f, g]);
    out.extend_from_slice(payload);
}

/// Writes the settings of the server.
pub(super) fn write_settings(out: &mut Vec<u8>, settings: &[(u16, u32)]) {
    let mut payload = Vec::with_capacity(6 * settings.len());
    for (name, value) in settings {
        payload.extend_from_slice(&name.to_be_bytes());
        payload.extend_from_slice(&value.to_be_bytes());
    }
    write(out, kind::SETTINGS, 0, 0, &payload);
}

pub(super) fn write_window_update(out: &mut Vec<u8>, stream: u32, increment: u32) {
    write(out, kind::WINDOW_UPDATE, 0, stream, &increment.to_be_bytes());
}

pub(super) fn write_reset(out: &mut Vec<u8>, stream: u32, code: Http2Code) {
    write(out, kind::RST_STREAM, 0, stream, &(code as u32).to_be_bytes());
}

/// Writes GOAWAY. `why` is for people who debug the client.
pub(super) fn write_go_away(out: &mut Vec<u8>, last_stream: u32, code: Http2Code, why: &str) {
    let [a, b, c, d] = last_stream.to_be_bytes();
    let [e, f, g, h] = (code as u32).to_be_bytes();
    write(out, kind::GOAWAY, 0, 0, &[&[a, b, c, d, e, f, g, h], why.as_bytes()].concat());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_comes_back() {
        let mut out = Vec::new();
        write(&mut out, kind::DATA, flag::END_STREAM, 0x7fff_fffe, &[7; 300]);
        let head = FrameHead::read(&out).expect("it is complete");
        let wanted =
            FrameHead { length: 300, kind: kind::DATA, flags: flag::END_STREAM, stream: 0x7fff_fffe };
        assert_eq!((head, out.len()), (wanted, HEAD + 300));
        out[5] |= 0x80;
        assert_eq!(FrameHead::read(&out).expect("complete").stream, 0x7fff_fffe, "one bit is reserved");
        assert_eq!(FrameHead::read(&out[..8]), None);
    }

    #[test]
    fn padding_is_within_the_payload() {
        let head = FrameHead { length: 0, kind: kind::DATA, flags: flag::PADDED, stream: 1 };
        assert_eq!(unpadded(&head, &[2, b'a', 0, 0]), Some(&b"a"[..]));
        assert_eq!(unpadded(&head, &[2, 0, 0]), Some(&b""[..]));
        assert_eq!(unpadded(&head, &[3, 0, 0]), None);
        assert_eq!(unpadded(&head, &[]), None);
    }
}
