//! Header blocks: the head of a call or its trailers, in one frame or more.

use super::super::error::{Http2Code, Http2Violation};
use super::super::frame::{FrameHead, flag};
use super::super::session::Http2Session;
use super::{Handled, broken};
use crate::bounds::{HEAD_FRAMES_MAX, HTTP2_HEAD_BYTES_MAX};

/// The most bytes of a block. It is more than its fields may have, so that a head that is a little too large is refused
/// alone, and a flood ends the connection.
const BLOCK_MAX: usize = 2 * HTTP2_HEAD_BYTES_MAX as usize;

/// A block that is not complete.
#[derive(Debug)]
pub(crate) struct HeaderBlock {
    pub(crate) stream: u32,
    ends_stream: bool,
    bytes: Vec<u8>,
    frames: usize,
}

impl Http2Session {
    /// Takes the first frame of a block.
    pub(super) fn begin_block(&mut self, head: FrameHead, fragment: &[u8]) -> Handled {
        let (stream, ends_stream) = (head.stream, head.has(flag::END_STREAM));
        if head.has(flag::END_HEADERS) {
            return self.end_block(stream, ends_stream, fragment);
        }
        self.block = Some(HeaderBlock { stream, ends_stream, bytes: fragment.to_vec(), frames: 1 });
        Ok(())
    }

    /// Takes a later frame of a block.
    pub(super) fn continuation(&mut self, head: FrameHead, fragment: &[u8]) -> Handled {
        let Some(mut block) = self.block.take() else { return broken(Http2Code::Protocol) };
        block.frames += 1;
        if block.frames > HEAD_FRAMES_MAX || block.bytes.len() + fragment.len() > BLOCK_MAX {
            return Err(Http2Violation::Bound("headers_too_large"));
        }
        block.bytes.extend_from_slice(fragment);
        if head.has(flag::END_HEADERS) {
            return self.end_block(block.stream, block.ends_stream, &block.bytes);
        }
        self.block = Some(block);
        Ok(())
    }
}
