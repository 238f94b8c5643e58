//! Each rule of RFC 9113 that a client can break, and the code that answers it.

use super::*;
use crate::grpc::http2::session::setting;

const PROTOCOL: u32 = 1;
const FLOW_CONTROL: u32 = 3;
const FRAME_SIZE: u32 = 6;
const COMPRESSION: u32 = 9;

/// What ends the connection, after a call on stream 1 that is still open.
#[test]
fn what_breaks_the_connection_ends_it() {
    let data = |flags, stream, payload: &[u8]| framed(kind::DATA, flags, stream, payload);
    for (name, bytes, code) in [
        ("DATA on the connection", data(0, 0, b"x"), PROTOCOL),
        ("DATA on an idle stream", data(0, 3, b"x"), PROTOCOL),
        ("DATA on a stream of the server", data(0, 2, b"x"), PROTOCOL),
        ("DATA with too much padding", data(flag::PADDED, 1, &[1]), PROTOCOL),
        ("DATA that is only a flag of padding", data(flag::PADDED, 1, &[]), PROTOCOL),
        ("HEADERS on the connection", framed(kind::HEADERS, flag::END_HEADERS, 0, &head("/")), PROTOCOL),
        ("HEADERS on an even stream", framed(kind::HEADERS, flag::END_HEADERS, 2, &head("/")), PROTOCOL),
        ("HEADERS with too much padding", framed(kind::HEADERS, 4 | flag::PADDED, 3, &[9, 0x82]), PROTOCOL),
        ("HEADERS with half a priority", framed(kind::HEADERS, 4 | flag::PRIORITY, 3, &[0; 4]), FRAME_SIZE),
        ("a block that is not valid", framed(kind::HEADERS, flag::END_HEADERS, 3, &[0x80]), COMPRESSION),
        ("PRIORITY on the connection", framed(kind::PRIORITY, 0, 0, &[0; 5]), PROTOCOL),
        ("RST_STREAM on the connection", reset(0), PROTOCOL),
        ("RST_STREAM on an idle stream", reset(3), PROTOCOL),
        ("RST_STREAM of 3 bytes", framed(kind::RST_STREAM, 0, 1, &[0; 3]), FRAME_SIZE),
        ("SETTINGS on a stream", framed(kind::SETTINGS, 0, 1, &[]), PROTOCOL),
        ("SETTINGS of 5 bytes", framed(kind::SETTINGS, 0, 0, &[0; 5]), FRAME_SIZE),
        ("an acknowledgement with settings", framed(kind::SETTINGS, flag::ACK, 0, &[0; 6]), FRAME_SIZE),
        ("a push setting of 2", settings(&[(setting::ENABLE_PUSH, 2)]), PROTOCOL),
        ("a window too large", settings(&[(setting::INITIAL_WINDOW_SIZE, 1 << 31)]), FLOW_CONTROL),
        ("frames too small", settings(&[(setting::MAX_FRAME_SIZE, 16_383)]), PROTOCOL),
        ("frames too large", settings(&[(setting::MAX_FRAME_SIZE, 1 << 24)]), PROTOCOL),
        ("PUSH_PROMISE", framed(kind::PUSH_PROMISE, flag::END_HEADERS, 1, &[0, 0, 0, 2, 0x82]), PROTOCOL),
        ("PING on a stream", framed(kind::PING, 0, 1, &[0; 8]), PROTOCOL),
        ("PING of 7 bytes", framed(kind::PING, 0, 0, &[0; 7]), FRAME_SIZE),
        ("GOAWAY on a stream", framed(kind::GOAWAY, 0, 1, &[0; 8]), PROTOCOL),
        ("GOAWAY of 7 bytes", framed(kind::GOAWAY, 0, 0, &[0; 7]), FRAME_SIZE),
        ("WINDOW_UPDATE of 3 bytes", framed(kind::WINDOW_UPDATE, 0, 0, &[0; 3]), FRAME_SIZE),
        ("WINDOW_UPDATE of nothing", window_update(0, 0), PROTOCOL),
        ("WINDOW_UPDATE on an idle stream", window_update(3, 1), PROTOCOL),
        ("WINDOW_UPDATE that overflows", window_update(0, 0x7fff_ffff), FLOW_CONTROL),
        ("CONTINUATION of nothing", framed(kind::CONTINUATION, flag::END_HEADERS, 1, &[]), PROTOCOL),
        ("a frame too large", [0, 0x40, 1, 0, 0, 0, 0, 0, 1].to_vec(), FRAME_SIZE),
    ] {
        let mut session = Session::new();
        session.receive(&opening(1));
        session.receive(&bytes);
        assert_eq!(session.failed(), Some(code), "{name}");
        assert_eq!(session.open_streams(), 0);
        assert_eq!(session.receive(&call(5)), 0, "{name}: nothing more is read");
    }
}

#[test]
fn the_first_frame_has_settings() {
    for first in [framed(kind::PING, 0, 0, &[0; 8]), framed(kind::SETTINGS, flag::ACK, 0, &[]), call(1)] {
        let mut session = Session::fresh();
        session.receive(&first);
        assert_eq!(session.failed(), Some(PROTOCOL));
    }
}

#[test]
fn a_block_is_not_interrupted() {
    let begun = || framed(kind::HEADERS, flag::END_STREAM, 1, &head("/a")[..5]);
    for next in [
        framed(kind::PING, 0, 0, &[0; 8]),
        framed(kind::CONTINUATION, flag::END_HEADERS, 3, &head("/a")[5..]),
        framed(0xee, 0, 1, &[]),
    ] {
        let mut session = Session::new();
        session.receive(&begun());
        session.receive(&next);
        assert_eq!(session.failed(), Some(PROTOCOL));
    }
}

/// What ends only its stream: 1 is open for more, 3 has sent everything, 5 is new.
#[test]
fn what_breaks_a_stream_resets_it() {
    let end = flag::END_HEADERS | flag::END_STREAM;
    let data = |stream| framed(kind::DATA, 0, stream, b"x");
    for (name, stream, bytes, code) in [
        ("DATA after the end", 3, data(3), Http2Code::StreamClosed),
        (
            "HEADERS after the end",
            3,
            framed(kind::HEADERS, end, 3, &block(&[("a", "b")])),
            Http2Code::StreamClosed,
        ),
        (
            "trailers that do not end it",
            1,
            framed(kind::HEADERS, 4, 1, &block(&[("a", "b")])),
            Http2Code::Protocol,
        ),
        (
            "trailers with a path",
            1,
            framed(kind::HEADERS, end, 1, &block(&[(":path", "/")])),
            Http2Code::Protocol,
        ),
        (
            "a head without a path",
            5,
            framed(kind::HEADERS, end, 5, &block(&[(":method", "POST")])),
            Http2Code::Protocol,
        ),
        ("WINDOW_UPDATE of nothing", 1, window_update(1, 0), Http2Code::Protocol),
        ("WINDOW_UPDATE that overflows", 1, window_update(1, 0x7fff_ffff), Http2Code::FlowControl),
        ("PRIORITY of 4 bytes", 1, framed(kind::PRIORITY, 0, 1, &[0; 4]), Http2Code::FrameSize),
    ] {
        let mut session = Session::new();
        session.receive(&[opening(1), call(3)].concat());
        session.receive(&bytes);
        assert_eq!(session.sent(), [Sent::reset(stream, code)], "{name}");
        assert_eq!(session.open_streams(), if stream == 5 { 2 } else { 1 }, "{name}");
        // The client may not know it yet; what it sends meanwhile is ignored.
        let late = [framed(kind::DATA, 1, stream, b"x"), window_update(stream, 1), reset(stream)].concat();
        session.receive(&late);
        assert_eq!(session.sent(), [], "{name}");
        session.receive(&call(7));
        assert_eq!(session.calls.last().map(|(id, _)| *id), Some(7), "{name}: other calls go on");
    }
}

#[test]
fn a_body_has_the_length_that_was_announced() {
    let head = |length: &str| {
        let fields = [(":method", "POST"), (":scheme", "http"), (":path", "/"), ("content-length", length)];
        block(&fields)
    };
    for (length, bodies, is_sound) in [
        ("3", &["abc"][..], true),
        ("3", &["ab", "c"], true),
        ("3", &["ab"], false),
        ("3", &["ab", "cd"], false),
        ("0", &[""], true),
    ] {
        let mut session = Session::new();
        session.receive(&framed(kind::HEADERS, flag::END_HEADERS, 1, &head(length)));
        for (place, body) in bodies.iter().enumerate() {
            let flags = if place + 1 == bodies.len() { flag::END_STREAM } else { 0 };
            session.receive(&framed(kind::DATA, flags, 1, body.as_bytes()));
        }
        let wanted = if is_sound { vec![] } else { vec![Sent::reset(1, Http2Code::Protocol)] };
        assert_eq!(session.sent(), wanted, "{length}: {bodies:?}");
    }
}

#[test]
fn what_is_not_known_is_ignored() {
    let mut session = Session::new();
    session.receive(&framed(0xbe, 0xff, 9, b"anything"));
    session.receive(&settings(&[(0xaaaa, 1), (setting::MAX_CONCURRENT_STREAMS, 0)]));
    session.receive(&framed(kind::PRIORITY, 0, 9, &[0; 5]));
    session.receive(&framed(kind::GOAWAY, 0, 0, &[0; 20]));
    session.receive(&call(1));
    assert_eq!(session.calls.len(), 1);
    assert!(session.sent().iter().all(|frame| frame.kind == kind::SETTINGS));
}

#[test]
fn pings_are_answered() {
    let mut session = Session::new();
    session.receive(&framed(kind::PING, 0, 0, b"12345678"));
    let payload = b"12345678".to_vec();
    assert_eq!(session.sent(), [Sent { kind: kind::PING, flags: flag::ACK, stream: 0, payload }]);
}

/// GOAWAY in two steps, so that no call is lost which the client opened before it knew.
#[test]
fn a_connection_is_left_gracefully() {
    let mut session = Session::new();
    session.receive(&call(1));
    session.shared.lock().leave();
    let [announced, ping] = session.sent().try_into().expect("two frames");
    assert_eq!(
        (announced.kind, &announced.payload[..]),
        (kind::GOAWAY, &[0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0][..])
    );
    session.receive(&call(3));
    session.receive(&framed(kind::PING, flag::ACK, 0, &ping.payload));
    let [last] = session.sent().try_into().expect("one frame");
    assert_eq!((last.kind, &last.payload[..]), (kind::GOAWAY, &[0, 0, 0, 3, 0, 0, 0, 0][..]));
    session.receive(&call(5));
    assert_eq!(session.sent(), [Sent::reset(5, Http2Code::RefusedStream)]);
    assert_eq!(session.calls.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [1, 3]);
    for id in [1, 3] {
        assert!(!session.shared.lock().is_over());
        session.response(id).send_only(&block(&[(":status", "200")]));
    }
    assert!(session.shared.lock().is_over());
}

/// A client that was told which calls are answered may have sent the others elsewhere.
#[test]
fn a_later_goaway_promises_no_more_calls() {
    let mut session = Session::new();
    session.receive(&call(3));
    session.shared.lock().leave();
    let ping = session.sent().pop().expect("a PING");
    session.receive(&framed(kind::PING, flag::ACK, 0, &ping.payload));
    session.receive(&[call(5), framed(kind::PING, 0, 1, &[0; 8])].concat());
    let last = session.sent().pop().expect("a GOAWAY");
    assert_eq!((last.kind, &last.payload[..]), (kind::GOAWAY, &[0, 0, 0, 3, 0, 0, 0, 1][..]));
}
