//! Messages within a stream: a flag, four bytes of length, the message.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use prost::Message;

use super::error::CallError;
use crate::bounds::BODY_BYTES_MAX;

/// What comes before a message.
const PREFIX: usize = 5;

/// The most bytes that one message takes.
pub(crate) const FRAME_MAX: usize = PREFIX + BODY_BYTES_MAX;

/// A message as it is sent.
pub(crate) fn encode(message: &impl Message) -> Bytes {
    let mut frame = begin(message.encoded_len());
    message.encode(&mut frame).expect("there is room for it");
    end(frame)
}

/// A frame whose message is yet to be written after what is in it.
pub(crate) fn begin(capacity: usize) -> BytesMut {
    let mut frame = BytesMut::with_capacity(PREFIX + capacity);
    frame.put_bytes(0, PREFIX);
    frame
}

/// A frame whose message is complete.
pub(crate) fn end(mut frame: BytesMut) -> Bytes {
    let length = u32::try_from(frame.len() - PREFIX).expect("answers are small");
    frame[1..PREFIX].copy_from_slice(&length.to_be_bytes());
    frame.freeze()
}

/// The one message of a body.
pub(crate) fn only(mut body: Bytes) -> Result<Bytes, CallError> {
    let length = length(&body)?.ok_or(CallError::Incomplete)?;
    body.advance(PREFIX);
    if body.len() == length { Ok(body) } else { Err(CallError::Incomplete) }
}

/// The first message of what has come so far, if all of it has.
pub(crate) fn next(come: &mut BytesMut) -> Result<Option<Bytes>, CallError> {
    match length(come)? {
        Some(length) if come.len() >= PREFIX + length => {
            come.advance(PREFIX);
            Ok(Some(come.split_to(length).freeze()))
        }
        _ => Ok(None),
    }
}

/// The length of the message that begins here, if that has come.
fn length(come: &[u8]) -> Result<Option<usize>, CallError> {
    let Some(prefix) = come.first_chunk::<PREFIX>() else { return Ok(None) };
    let [flag, length @ ..] = *prefix;
    let length = u32::from_be_bytes(length) as usize;
    match flag {
        0 if length > BODY_BYTES_MAX => Err(CallError::TooLarge),
        0 => Ok(Some(length)),
        _ => Err(CallError::Compressed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_comes_back() {
        let frame = encode(&"hello".to_owned());
        let message = only(frame.clone()).expect("it is complete");
        assert_eq!(String::decode(message).expect("a text"), "hello");

        let mut come = BytesMut::from(&frame[..]);
        come.extend_from_slice(&frame[..7]);
        assert!(next(&mut come).expect("sound").is_some());
        assert!(next(&mut come).expect("sound").is_none(), "the second has not come");
        assert_eq!(come, frame[..7]);
    }

    #[test]
    fn what_is_no_message_is_refused() {
        let refused =
            |bytes: &'static [u8]| only(Bytes::from_static(bytes)).expect_err("refused").to_string();
        assert_eq!(refused(b""), "the message is not complete");
        assert_eq!(refused(b"\0\0\0\0\x02a"), "the message is not complete");
        assert_eq!(refused(b"\0\0\0\0\x01ab"), "the message is not complete");
        assert_eq!(refused(b"\x01\0\0\0\x01a"), "messages must not be compressed");
        assert_eq!(refused(b"\0\xff\xff\xff\xffa"), "a message may have 65536 bytes");
    }
}
