//! gRPC frames: a compression flag, four bytes of length, the message.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use prost::Message;

use super::error::CallError;
use crate::bounds::BODY_BYTES_MAX;

/// Bytes before a message.
const PREFIX: usize = 5;

/// The most bytes of a frame.
pub(crate) const FRAME_MAX: usize = PREFIX + BODY_BYTES_MAX;

/// Encodes a message as a frame.
pub(crate) fn encode(message: &impl Message) -> Bytes {
    let mut frame = begin(message.encoded_len());
    message.encode(&mut frame).expect("the buffer has the capacity");
    end(frame)
}

/// Starts a frame; the message is to be written after its prefix.
pub(crate) fn begin(capacity: usize) -> BytesMut {
    let mut frame = BytesMut::with_capacity(PREFIX + capacity);
    frame.put_bytes(0, PREFIX);
    frame
}

/// Completes a frame: writes the length of its message into the prefix.
pub(crate) fn end(mut frame: BytesMut) -> Bytes {
    let length = u32::try_from(frame.len() - PREFIX).expect("responses are small");
    frame[1..PREFIX].copy_from_slice(&length.to_be_bytes());
    frame.freeze()
}

/// The message of a body that must have exactly one.
pub(crate) fn single(mut body: Bytes) -> Result<Bytes, CallError> {
    let length = length(&body)?.ok_or(CallError::Incomplete)?;
    body.advance(PREFIX);
    if body.len() == length { Ok(body) } else { Err(CallError::Incomplete) }
}

/// Takes the first message from the received bytes, if it is complete.
pub(crate) fn next(received: &mut BytesMut) -> Result<Option<Bytes>, CallError> {
    match length(received)? {
        Some(length) if received.len() >= PREFIX + length => {
            received.advance(PREFIX);
            Ok(Some(received.split_to(length).freeze()))
        }
        _ => Ok(None),
    }
}

/// The length of the message at the start of the received bytes, if its prefix is complete.
fn length(received: &[u8]) -> Result<Option<usize>, CallError> {
    let Some(prefix) = received.first_chunk::<PREFIX>() else { return Ok(None) };
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
        let message = single(frame.clone()).expect("it is complete");
        assert_eq!(String::decode(message).expect("a text"), "hello");

        let mut received = BytesMut::from(&frame[..]);
        received.extend_from_slice(&frame[..7]);
        assert!(next(&mut received).expect("sound").is_some());
        assert!(next(&mut received).expect("sound").is_none(), "the second has not come");
        assert_eq!(received, frame[..7]);
    }

    #[test]
    fn what_is_no_message_is_refused() {
        let refused =
            |bytes: &'static [u8]| single(Bytes::from_static(bytes)).expect_err("refused").to_string();
        assert_eq!(refused(b""), "the message is incomplete");
        assert_eq!(refused(b"\0\0\0\0\x02a"), "the message is incomplete");
        assert_eq!(refused(b"\0\0\0\0\x01ab"), "the message is incomplete");
        assert_eq!(refused(b"\x01\0\0\0\x01a"), "messages must not be compressed");
        assert_eq!(refused(b"\0\xff\xff\xff\xffa"), "the message is larger than 65536 bytes");
    }
}
