//! Frames about the connection and its windows.

use super::super::error::{Http2Code, Http2Violation};
use super::super::frame::{self, FrameHead, flag, kind, number31};
use super::super::session::{Http2Session, setting};
use super::super::window::WINDOW_MAX;
use super::{Handled, broken};
use crate::bounds::GRPC_SETTINGS_MAX;

impl Http2Session {
    pub(super) fn settings(&mut self, head: FrameHead, payload: &[u8]) -> Handled {
        if head.stream != 0 {
            return broken(Http2Code::Protocol);
        }
        if !payload.len().is_multiple_of(6) || (head.has(flag::ACK) && !payload.is_empty()) {
            return broken(Http2Code::FrameSize);
        }
        if payload.len() > 6 * GRPC_SETTINGS_MAX {
            return Err(Http2Violation::Bound("too_many_settings"));
        }
        if !head.has(flag::ACK) {
            for &[a, b, c, d, e, f] in payload.as_chunks().0 {
                self.apply_setting(u16::from_be_bytes([a, b]), u32::from_be_bytes([c, d, e, f]))?;
            }
            frame::write(&mut self.out, kind::SETTINGS, flag::ACK, 0, &[]);
        }
        self.count_idle_frame()
    }

    fn apply_setting(&mut self, name: u16, value: u32) -> Handled {
        match name {
            // The server's encoder uses no table, but a client that makes its own smaller must be told so.
            setting::HEADER_TABLE_SIZE => {
                self.owes_table_size = true;
                Ok(())
            }
            setting::ENABLE_PUSH if value > 1 => broken(Http2Code::Protocol),
            setting::INITIAL_WINDOW_SIZE => {
                let window = i64::from(value);
                if window > WINDOW_MAX {
                    return broken(Http2Code::FlowControl);
                }
                let change = window - self.stream_window;
                self.stream_window = window;
                let mut fits = true;
                for stream in self.streams.iter_mut() {
                    fits &= stream.send_window.change(change).is_some();
                }
                if fits { Ok(()) } else { broken(Http2Code::FlowControl) }
            }
            // Every client accepts frames of the size that the server sends, so the setting only has to be valid.
            setting::MAX_FRAME_SIZE if !(16_384..=0xff_ffff).contains(&value) => broken(Http2Code::Protocol),
            // The others concern only clients.
            _ => Ok(()),
        }
    }

    pub(super) fn window_update(&mut self, head: FrameHead, payload: &[u8]) -> Handled {
        let Ok(increment) = <[u8; 4]>::try_from(payload) else { return broken(Http2Code::FrameSize) };
        let (id, increment) = (head.stream, i64::from(number31(increment)));
        if id == 0 {
            match increment {
                0 => broken(Http2Code::Protocol),
                _ if self.send_window.change(increment).is_none() => broken(Http2Code::FlowControl),
                _ => self.count_window_update(),
            }
        } else if self.is_idle(id) {
            broken(Http2Code::Protocol)
        } else {
            let Some(stream) = self.streams.get(id) else { return self.count_idle_frame() };
            match increment {
                0 => Err(Http2Violation::Stream(id, Http2Code::Protocol)),
                _ if stream.send_window.change(increment).is_none() => {
                    Err(Http2Violation::Stream(id, Http2Code::FlowControl))
                }
                _ => self.count_window_update(),
            }
        }
    }

    /// A WINDOW_UPDATE counts as a frame without a call only if no response waits for it.
    fn count_window_update(&mut self) -> Handled {
        if self.streams.queued > 0 { Ok(()) } else { self.count_idle_frame() }
    }

    pub(super) fn ping_frame(&mut self, head: FrameHead, payload: &[u8]) -> Handled {
        if head.stream != 0 {
            return broken(Http2Code::Protocol);
        }
        if payload.len() != 8 {
            return broken(Http2Code::FrameSize);
        }
        if head.has(flag::ACK) {
            self.pong(payload);
        } else {
            frame::write(&mut self.out, kind::PING, flag::ACK, 0, payload);
        }
        self.count_idle_frame()
    }

    /// Priorities are advice, which the server does not need.
    pub(super) fn priority(&mut self, head: FrameHead, payload: &[u8]) -> Handled {
        if head.stream == 0 {
            return broken(Http2Code::Protocol);
        }
        if payload.len() != 5 {
            // Resetting a stream that is not open is an error of its own.
            return match self.streams.get(head.stream) {
                Some(_) => Err(Http2Violation::Stream(head.stream, Http2Code::FrameSize)),
                None => broken(Http2Code::FrameSize),
            };
        }
        self.count_idle_frame()
    }

    /// The client will open no more streams, or has given up. It ends the connection itself.
    pub(super) fn go_away_frame(&mut self, head: FrameHead, payload: &[u8]) -> Handled {
        if head.stream != 0 {
            return broken(Http2Code::Protocol);
        }
        if payload.len() < 8 { broken(Http2Code::FrameSize) } else { self.count_idle_frame() }
    }
}
