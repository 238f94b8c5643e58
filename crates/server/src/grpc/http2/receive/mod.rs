//! Handles the frames of the client. [`calls`] has those that are part of a call, [`block`] the header blocks in them,
//! and [`control`] the others. Each answers a violation with the code that RFC 9113 names for it.

pub(super) mod block;
mod calls;
mod control;

use super::error::{Http2Code, Http2Violation};
use super::frame::{self, FrameHead, flag, kind};
use super::session::{Http2Session, SessionPhase};
use crate::bounds::GRPC_IDLE_FRAMES_MAX;

type Handled = Result<(), Http2Violation>;

/// A violation after which the connection cannot go on.
fn broken<T>(code: Http2Code) -> Result<T, Http2Violation> {
    Err(Http2Violation::Connection(code))
}

impl Http2Session {
    /// Handles the complete frames in `bytes`; returns how many bytes they have.
    pub(crate) fn receive(&mut self, bytes: &[u8]) -> usize {
        let mut used = 0;
        while self.phase != SessionPhase::Failed
            && let Some(head) = FrameHead::read(&bytes[used..])
        {
            if head.length > frame::PAYLOAD_MAX {
                self.fail(Http2Code::FrameSize, "");
                break;
            }
            let from = used + frame::HEAD;
            let Some(payload) = bytes.get(from..from + head.length) else { break };
            used = from + head.length;
            match self.handle(head, payload) {
                Ok(()) => {}
                Err(Http2Violation::Stream(id, code)) => self.refuse(id, code),
                Err(Http2Violation::Connection(code)) => self.fail(code, ""),
                Err(Http2Violation::Bound(bound)) => self.calm_down(bound),
            }
        }
        used
    }

    fn handle(&mut self, head: FrameHead, payload: &[u8]) -> Handled {
        if !self.has_settings {
            if head.kind != kind::SETTINGS || head.has(flag::ACK) {
                return broken(Http2Code::Protocol);
            }
            self.has_settings = true;
        }
        if let Some(block) = &self.block
            && (head.kind != kind::CONTINUATION || head.stream != block.stream)
        {
            return broken(Http2Code::Protocol);
        }
        match head.kind {
            kind::DATA => self.data(head, payload),
            kind::HEADERS => self.headers(head, payload),
            kind::CONTINUATION => self.continuation(head, payload),
            kind::RST_STREAM => self.reset_by_client(head, payload),
            kind::WINDOW_UPDATE => self.window_update(head, payload),
            kind::SETTINGS => self.settings(head, payload),
            kind::PING => self.ping_frame(head, payload),
            kind::PRIORITY => self.priority(head, payload),
            kind::GOAWAY => self.go_away_frame(head, payload),
            kind::PUSH_PROMISE => broken(Http2Code::Protocol),
            // Frames that are not known are ignored.
            _ => self.count_idle_frame(),
        }
    }

    /// Ends the connection of a client that passes a bound.
    fn calm_down(&mut self, bound: &'static str) {
        tracing::warn!(bound, "a gRPC client passes a bound of HTTP/2; its connection ends");
        self.fail(Http2Code::EnhanceYourCalm, bound);
    }

    /// Ends a stream that broke a rule. It counts as a reset, because the client has caused it.
    fn refuse(&mut self, id: u32, code: Http2Code) {
        self.reset(id, code);
        if let Err(Http2Violation::Bound(bound)) = self.count_reset() {
            self.calm_down(bound);
        }
    }

    /// Counts a stream that ends unanswered.
    fn count_reset(&mut self) -> Handled {
        self.resets.add().ok_or(Http2Violation::Bound("too_many_resets"))
    }

    /// Counts a frame that is not part of a call.
    fn count_idle_frame(&mut self) -> Handled {
        self.idle_frames += 1;
        if self.idle_frames > GRPC_IDLE_FRAMES_MAX {
            return Err(Http2Violation::Bound("too_many_frames"));
        }
        Ok(())
    }
}
