//! What a client cannot make the server hold or do.

use super::*;
use crate::bounds::{
    GRPC_IDLE_FRAMES_MAX, GRPC_PROXY_RESETS_MAX, GRPC_RESETS_MAX, GRPC_SETTINGS_MAX, HEAD_FRAMES_MAX,
    HTTP2_HEAD_BYTES_MAX, STREAMS_MAX,
};
use crate::grpc::http2::hpack::encoder::NO_TABLE;

const FLOW_CONTROL: u32 = 3;
const CALM: u32 = 11;

fn ids() -> impl Iterator<Item = u32> {
    (0..).map(|n| 2 * n + 1)
}

#[test]
fn streams_that_are_reset_are_bounded() {
    let mut session = Session::new();
    let mut resets = 0;
    for id in ids() {
        session.receive(&[call(id), reset(id)].concat());
        resets += 1;
        if session.failed() == Some(CALM) {
            break;
        }
    }
    assert_eq!(resets, GRPC_RESETS_MAX + 1);
}

/// Streams that are reset before the server has looked at them cost nothing but their count.
#[test]
fn calls_that_are_reset_at_once_are_not_handed_out() {
    let burst =
        |resets| ids().take(resets).flat_map(|id| [call(id), reset(id)].concat()).collect::<Vec<u8>>();
    let mut session = Session::new();
    session.receive(&[burst(GRPC_RESETS_MAX), call(9_999)].concat());
    assert_eq!(session.failed(), None);
    assert_eq!(session.calls.iter().map(|(id, _)| *id).collect::<Vec<u32>>(), [9_999]);
    let mut session = Session::new();
    session.receive(&burst(GRPC_RESETS_MAX + 1));
    assert_eq!(session.failed(), Some(CALM));

    let mut session = Session::new();
    session.receive(&[call(1), window_update(1, 0), call(3)].concat());
    assert_eq!(session.calls.len(), 1, "the server has reset the other");
}

#[test]
fn resets_are_forgiven_as_time_passes() {
    let mut session = Session::new();
    let mut ids = ids();
    let mut cancel = |session: &mut Session, calls: usize| {
        for id in ids.by_ref().take(calls) {
            session.receive(&[call(id), reset(id)].concat());
        }
        session.failed()
    };
    let mut cx = Context::from_waker(Waker::noop());
    assert!(session.shared.lock().poll_forgivable(&mut cx).is_pending(), "without resets no timer runs");
    assert_eq!(cancel(&mut session, GRPC_RESETS_MAX), None);
    for _ in 0..30 {
        assert!(session.shared.lock().poll_forgivable(&mut cx).is_ready());
        session.shared.lock().forgive_resets();
        assert_eq!(cancel(&mut session, GRPC_RESETS_MAX / 10), None);
    }
    assert_eq!(cancel(&mut session, 1), Some(CALM));
}

#[test]
fn a_proxy_may_cancel_the_calls_of_many_users() {
    let mut session = Session::of_proxy();
    for id in ids().take(GRPC_PROXY_RESETS_MAX) {
        session.receive(&[call(id), reset(id)].concat());
    }
    assert_eq!(session.failed(), None);
    session.receive(&[call(99_999), reset(99_999)].concat());
    assert_eq!(session.failed(), Some(CALM));
}

#[test]
fn settings_are_bounded() {
    let mut session = Session::new();
    session.receive(&settings(&[(0xff, 1); GRPC_SETTINGS_MAX]));
    assert_eq!(session.failed(), None);
    session.receive(&settings(&[(0xff, 1); GRPC_SETTINGS_MAX + 1]));
    assert_eq!(session.failed(), Some(CALM));
}

/// Two bytes of a block can add a field with a long name to the table again.
#[test]
fn what_a_block_adds_to_the_table_is_bounded() {
    let long_name = [&[0x40, 0x7f, 0xa1, 0x1e][..], &[b'a'; 4_000], &[0]].concat();
    let mut session = Session::new();
    session.receive(&framed(
        kind::HEADERS,
        flag::END_HEADERS,
        1,
        &[&head("/a")[..], &long_name, &[0x7e, 0]].concat(),
    ));
    assert_eq!(session.failed(), None, "once is no harm");
    session.receive(&framed(
        kind::HEADERS,
        flag::END_HEADERS,
        3,
        &[&head("/a")[..], &[0x7e, 0].repeat(100)].concat(),
    ));
    assert_eq!(session.failed(), Some(CALM));
}

/// Refusals are responses too: while the socket accepts nothing, they wait in their streams.
#[test]
fn refusals_are_not_collected_without_bound() {
    let mut session = Session::new();
    session.shared.lock().set_blocked(true);
    let refusal = block(&[(":status", "200"), ("grpc-message", &"x".repeat(400))]);
    for id in ids().take(2_000) {
        session.receive(&call(id));
        for (id, _) in std::mem::take(&mut session.calls) {
            session.response(id).send_only(&refusal);
        }
    }
    assert_eq!(session.open_streams(), STREAMS_MAX as usize);
    assert!(session.sent().iter().all(|frame| frame.kind == kind::RST_STREAM));
    session.shared.lock().set_blocked(false);
    let answered = session.sent().iter().filter(|frame| frame.kind == kind::HEADERS).count();
    assert_eq!((answered, session.open_streams()), (STREAMS_MAX as usize, 0));
}

/// A client can also make the server reset its streams.
#[test]
fn streams_that_break_rules_are_bounded() {
    let mut session = Session::new();
    let mut resets = 0;
    for id in ids() {
        session.receive(&[call(id), window_update(id, 0)].concat());
        resets += 1;
        if session.failed() == Some(CALM) {
            break;
        }
    }
    assert_eq!(resets, GRPC_RESETS_MAX + 1);
}

#[test]
fn who_cancels_now_and_then_goes_on() {
    let mut session = Session::new();
    let mut ids = ids();
    for _ in 0..3 * GRPC_RESETS_MAX {
        let (answered, cancelled) = (ids.next().expect("endless"), ids.next().expect("endless"));
        session.receive(&call(answered));
        session.response(answered).send_only(&block(&[(":status", "200")]));
        session.receive(&[call(cancelled), reset(cancelled)].concat());
        assert_eq!(session.failed(), None);
    }
}

#[test]
fn frames_without_calls_are_bounded() {
    for useless in [
        framed(kind::PING, 0, 0, &[0; 8]),
        framed(kind::PING, flag::ACK, 0, &[0; 8]),
        framed(kind::SETTINGS, 0, 0, &[]),
        framed(kind::PRIORITY, 0, 1, &[0; 5]),
        framed(kind::DATA, 0, 1, &[]),
        framed(kind::DATA, flag::PADDED, 1, &[0]),
        framed(kind::DATA, 0, 3, b"x"),
        framed(kind::GOAWAY, 0, 0, &[0; 8]),
        window_update(0, 1),
        window_update(1, 1),
        reset(3),
        framed(0xff, 0, 0, &[]),
    ] {
        let mut session = Session::new();
        session.receive(&[opening(1), call(3), reset(3)].concat());
        let frames = (1..).find(|_| {
            session.receive(&useless);
            session.failed().is_some_and(|code| code == CALM)
        });
        let frames = frames.expect("it ends");
        assert!(frames <= GRPC_IDLE_FRAMES_MAX + 1, "{useless:?}: {frames}");
    }
}

#[test]
fn the_frames_and_bytes_of_a_block_are_bounded() {
    let mut session = Session::new();
    session.receive(&framed(kind::HEADERS, flag::END_STREAM, 1, &head("/a")));
    for _ in 1..HEAD_FRAMES_MAX {
        session.receive(&framed(kind::CONTINUATION, 0, 1, &[]));
        assert_eq!(session.failed(), None);
    }
    session.receive(&framed(kind::CONTINUATION, 0, 1, &[]));
    assert_eq!(session.failed(), Some(CALM));

    let mut session = Session::new();
    session.receive(&framed(kind::HEADERS, flag::END_STREAM, 1, &[0; 16_000]));
    session.receive(&framed(kind::CONTINUATION, 0, 1, &[0; 16_000]));
    assert_eq!(session.failed(), None);
    session.receive(&framed(kind::CONTINUATION, 0, 1, &[0; 16_000]));
    assert_eq!(session.failed(), Some(CALM));
}

/// A block of one byte per field can stand for much more.
#[test]
fn a_head_that_is_large_when_decoded_is_refused_alone() {
    let mut session = Session::new();
    let mut bomb = head("/a");
    bomb.extend_from_slice(&[0x40, 1, b'a', 0x7f, 0x81, 0x0f]);
    bomb.extend_from_slice(&[b'x'; 2_048]);
    bomb.extend_from_slice(&[0xbe; 10_000]);
    assert!(10_000 * 2_048 > HTTP2_HEAD_BYTES_MAX as usize);
    session.receive(&framed(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, 1, &bomb));
    let [refused] = session.sent().try_into().expect("one frame");
    assert_eq!(
        (refused.kind, &refused.payload[..]),
        (kind::HEADERS, &[NO_TABLE, &block(&[(":status", "431")])].concat()[..])
    );
    assert_eq!((session.calls.len(), session.open_streams()), (0, 0));
    session.receive(&framed(kind::HEADERS, flag::END_HEADERS, 3, &[&head("/a")[..], &[0xbe]].concat()));
    assert_eq!(session.calls.len(), 1, "the table is still the client's");
}

#[test]
fn concurrent_streams_are_bounded() {
    let mut session = Session::new();
    let all: Vec<u32> = ids().take(STREAMS_MAX as usize + 3).collect();
    all.iter().for_each(|id| _ = session.receive(&call(*id)));
    let refused: Vec<Sent> =
        all[STREAMS_MAX as usize..].iter().map(|id| Sent::reset(*id, Http2Code::RefusedStream)).collect();
    assert_eq!(session.sent(), refused);
    assert_eq!(session.open_streams(), STREAMS_MAX as usize);
    session.response(all[0]).send_only(&block(&[(":status", "200")]));
    session.receive(&call(9_999));
    assert_eq!(session.open_streams(), STREAMS_MAX as usize, "one has made room");
}

#[test]
fn bodies_are_bounded_by_the_windows() {
    let full = framed(kind::DATA, 0, 1, &[0; 16_384]);
    let mut session = Session::new();
    session.receive(&opening(1));
    (0..8).for_each(|_| _ = session.receive(&full));
    assert_eq!(session.sent(), [], "128 KiB are the window of a stream");
    session.receive(&framed(kind::DATA, 0, 1, b"x"));
    assert_eq!(session.sent(), [Sent::reset(1, Http2Code::FlowControl)]);

    let mut session = Session::new();
    for id in ids().take(8) {
        session.receive(&opening(id));
        (0..8).for_each(|_| _ = session.receive(&framed(kind::DATA, 0, id, &[0; 16_384])));
    }
    assert_eq!(session.sent(), [], "1 MiB is the window of the connection");
    session.receive(&[opening(99), framed(kind::DATA, 0, 99, b"x")].concat());
    assert_eq!(session.failed(), Some(FLOW_CONTROL));
}

/// However the bodies end, the connection's window comes back.
#[test]
fn the_window_of_the_connection_does_not_leak() {
    let mut session = Session::new();
    let mut given_back = 0;
    for (round, id) in ids().take(400).enumerate() {
        session.receive(&[opening(id), framed(kind::DATA, flag::PADDED, id, &[7; 10_000])].concat());
        match round % 4 {
            0 => _ = session.body(id),
            1 => _ = session.receive(&reset(id)),
            2 => _ = session.receive(&window_update(id, 0)),
            _ => session.response(id).send_only(&block(&[(":status", "200")])),
        }
        if round % 4 == 0 {
            session.response(id).send_only(&block(&[(":status", "200")]));
        }
        session.receive(&framed(kind::DATA, 0, id, &[0; 1_000]));
        for frame in
            session.sent().iter().filter(|frame| (frame.kind, frame.stream) == (kind::WINDOW_UPDATE, 0))
        {
            given_back += u32::from_be_bytes(*frame.payload.first_chunk().expect("four bytes"));
        }
        assert!(!session.shared.lock().is_over(), "{round}");
    }
    assert!((3_800_000..=4_400_000).contains(&given_back), "{given_back}");
}
