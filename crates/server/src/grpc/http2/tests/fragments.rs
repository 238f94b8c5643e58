//! However a client cuts its frames, the calls are the same; and no bytes break the session.

use proptest::prelude::*;

use super::*;
use crate::bounds::STREAMS_MAX;

#[derive(Clone, Debug)]
struct Request {
    path: String,
    body: Vec<u8>,
    /// Bytes of each frame of the head and of the body.
    head_piece: usize,
    body_piece: usize,
    padding: Option<u8>,
    has_priority: bool,
    has_trailers: bool,
}

prop_compose! {
    fn request()(
        path in "/[a-z]{0,40}",
        body in prop::collection::vec(any::<u8>(), 0..300),
        head_piece in 5_usize..200,
        body_piece in 1_usize..400,
        padding in prop::option::of(any::<u8>()),
        has_priority in any::<bool>(),
        has_trailers in any::<bool>(),
    ) -> Request {
        Request { path, body, head_piece, body_piece, padding, has_priority, has_trailers }
    }
}

fn padded(padding: Option<u8>, payload: &[u8]) -> (u8, Vec<u8>) {
    match padding {
        None => (0, payload.to_vec()),
        Some(padding) => (flag::PADDED, [&[padding], payload, &vec![0; padding.into()]].concat()),
    }
}

impl Request {
    fn write(&self, id: u32, out: &mut Vec<u8>) {
        let head = head(&self.path);
        let mut pieces = head.chunks(self.head_piece);
        let first = pieces.next().expect("a head has bytes");
        let (priority, first) = match self.has_priority {
            true => (flag::PRIORITY, [&[0, 0, 0, 0, 7], first].concat()),
            false => (0, first.to_vec()),
        };
        let (pad, first) = padded(self.padding, &first);
        let ended = |left: usize| if left == 0 { flag::END_HEADERS } else { 0 };
        frame::write(out, kind::HEADERS, pad | priority | ended(pieces.len()), id, &first);
        while let Some(piece) = pieces.next() {
            frame::write(out, kind::CONTINUATION, ended(pieces.len()), id, piece);
        }
        for piece in self.body.chunks(self.body_piece) {
            let (pad, piece) = padded(self.padding, piece);
            frame::write(out, kind::DATA, pad, id, &piece);
        }
        match self.has_trailers {
            true => frame::write(out, kind::HEADERS, 5, id, &block(&[("checksum", "1")])),
            false => frame::write(out, kind::DATA, flag::END_STREAM, id, &[]),
        }
    }
}

/// Receives bytes in pieces, as a socket would.
fn receive_in_pieces(session: &mut Session, bytes: &[u8], sizes: &[usize]) {
    let (mut held, mut rest, mut sizes) = (Vec::new(), bytes, sizes.iter().cycle());
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(rest.len().min(*sizes.next().expect("endless")));
        held.extend_from_slice(piece);
        let used = session.receive(&held);
        held.drain(..used);
        rest = after;
    }
    assert!(held.is_empty(), "all was handled");
}

proptest! {
    #[test]
    fn the_calls_are_the_same(
        requests in prop::collection::vec(request(), 1..20),
        sizes in prop::collection::vec(1_usize..2_000, 1..10),
    ) {
        let mut bytes = Vec::new();
        requests.iter().zip(0..).for_each(|(request, n)| request.write(2 * n + 1, &mut bytes));
        let mut session = Session::new();
        receive_in_pieces(&mut session, &bytes, &sizes);
        prop_assert_eq!(session.calls.len(), requests.len());
        for ((id, head), request) in session.calls.iter().zip(&requests) {
            prop_assert_eq!(head.path(), request.path.as_bytes());
            prop_assert_eq!(session.body(*id), (request.body.clone(), true));
        }
    }

    /// Valid frames with random bytes changed, and random bytes alone.
    #[test]
    fn any_bytes_are_survived(
        requests in prop::collection::vec(request(), 0..6),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..20),
        more in prop::collection::vec(any::<u8>(), 0..200),
        answered in any::<bool>(),
    ) {
        let mut bytes = Vec::new();
        requests.iter().zip(0..).for_each(|(request, n)| request.write(2 * n + 1, &mut bytes));
        bytes.extend_from_slice(&more);
        for (place, byte) in changes {
            if !bytes.is_empty() {
                let place = place.index(bytes.len());
                bytes[place] = byte;
            }
        }
        let mut session = Session::new();
        let used = session.receive(&bytes);
        prop_assert!(used <= bytes.len());
        prop_assert!(session.open_streams() <= STREAMS_MAX as usize);
        for (id, _) in std::mem::take(&mut session.calls) {
            let _body = session.body(id);
            match answered {
                true => session.response(id).send_whole(b"\x88", bytes::Bytes::from_static(b"answer"), b"\x88"),
                false => drop(session.response(id)),
            }
        }
        // Whole frames are sent, and no more than comes of what was received.
        let sent: usize = session.sent().iter().map(|frame| frame.payload.len() + frame::HEAD).sum();
        prop_assert!(sent <= 10 * (bytes.len() + 100), "{} for {}", sent, bytes.len());
    }
}
