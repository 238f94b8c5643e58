//! A session without a socket, whose calls all get the same answer. For the fuzzer.

use bytes::Bytes;

use super::call_stream::ResponseStream;
use super::hpack::encoder::{GRPC_HEAD, STATUS_OK};
use super::session::{Http2Session, SharedSession};
use crate::bounds::budget::ByteBudget;
use crate::serve::ResponseBacklog;

/// An HTTP/2 session in memory.
#[derive(Debug)]
pub struct Http2Trial {
    session: SharedSession,
    /// Bytes of a frame that is not complete.
    held: Vec<u8>,
    calls: Vec<u32>,
}

impl Default for Http2Trial {
    fn default() -> Http2Trial {
        let account = ByteBudget::of(1 << 20).account([127, 0, 0, 1].into(), false);
        let session = SharedSession::new(Http2Session::new(ResponseBacklog::new(&account), false));
        Http2Trial { session, held: Vec::new(), calls: Vec::new() }
    }
}

impl Http2Trial {
    /// Handles bytes of the client, which follow its preface.
    pub fn receive(&mut self, bytes: &[u8]) {
        self.held.extend_from_slice(bytes);
        let (mut session, mut opened) = (self.session.lock(), Vec::new());
        let used = session.receive(&self.held);
        session.take_opened(&mut opened);
        self.calls.extend(opened.into_iter().map(|(id, _)| id));
        self.held.drain(..used);
    }

    /// How many streams are open.
    pub fn open_streams(&self) -> usize {
        self.session.lock().streams.len()
    }

    /// Answers all calls, and returns what the server has sent.
    pub fn answer(&mut self, message: &'static [u8]) -> Vec<u8> {
        for id in self.calls.drain(..) {
            let stream = ResponseStream::new(&self.session, id);
            stream.send_whole(GRPC_HEAD, Bytes::from_static(message), STATUS_OK);
        }
        let (mut all, mut out) = (Vec::new(), Vec::new());
        loop {
            self.session.lock().take_output(&mut out);
            if out.is_empty() {
                return all;
            }
            all.append(&mut out);
        }
    }
}
