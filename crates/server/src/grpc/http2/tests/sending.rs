//! Responses within the windows of the client.

use bytes::Bytes;
use std::task::Poll;

use super::*;
use crate::bounds::BACKLOG_PER_CONNECTION_BYTES_MAX;
use crate::grpc::http2::hpack::encoder::{GRPC_HEAD, NO_TABLE, STATUS_OK};
use crate::grpc::http2::session::setting;

fn message(bytes: usize) -> Bytes {
    (0..bytes).map(|n| n as u8).collect::<Vec<u8>>().into()
}

fn answer(session: &Session, id: u32, bytes: usize) {
    session.response(id).send_whole(GRPC_HEAD, message(bytes), STATUS_OK);
}

/// The data in frames, and whether the stream has ended.
fn data(sent: &[Sent], id: u32) -> (Vec<u8>, bool) {
    let mine = sent.iter().filter(|frame| frame.stream == id);
    let data = mine.clone().filter(|frame| frame.kind == kind::DATA);
    let ended = mine.clone().any(|frame| frame.kind == kind::HEADERS && frame.flags & flag::END_STREAM != 0);
    (data.flat_map(|frame| frame.payload.clone()).collect(), ended)
}

#[test]
fn a_response_has_a_head_a_message_and_trailers() {
    let mut session = Session::new();
    session.receive(&call(1));
    answer(&session, 1, 10);
    let sent = session.sent();
    let shape: Vec<(u8, u8)> = sent.iter().map(|frame| (frame.kind, frame.flags)).collect();
    assert_eq!(shape, [(kind::HEADERS, 4), (kind::DATA, 0), (kind::HEADERS, 5)]);
    assert_eq!(sent[0].payload, [NO_TABLE, GRPC_HEAD].concat());
    assert_eq!(sent[2].payload, STATUS_OK);
    assert_eq!(session.open_streams(), 0);
}

/// A client that makes its table smaller must be told that the server's encoder knows (RFC 9113, section 4.3.1).
#[test]
fn the_table_is_given_up_in_the_first_block_after_each_setting() {
    let mut session = Session::fresh();
    session.receive(&settings(&[(setting::HEADER_TABLE_SIZE, 0)]));
    session.receive(&[call(1), call(3), call(5)].concat());
    answer(&session, 1, 1);
    answer(&session, 3, 1);
    let mut fifth = session.response(5);
    fifth.send_head(GRPC_HEAD);
    session.receive(&settings(&[(setting::HEADER_TABLE_SIZE, 4_096), (setting::HEADER_TABLE_SIZE, 100)]));
    fifth.send_data(backlog(&session).count_until_sent(message(1))).expect("it is open");
    fifth.send_trailers(STATUS_OK);
    let sent = session.sent();
    let blocks = sent.iter().filter(|frame| frame.kind == kind::HEADERS);
    let begins: Vec<bool> = blocks.map(|frame| frame.payload[0] == 0x20).collect();
    assert_eq!(begins, [true, false, false, false, false, true]);
}

#[test]
fn an_early_response_ends_the_request() {
    let mut session = Session::new();
    session.receive(&opening(1));
    answer(&session, 1, 10);
    assert_eq!(session.sent().last(), Some(&Sent::reset(1, Http2Code::NoError)));
    assert_eq!(session.open_streams(), 0);
    session.receive(&framed(kind::DATA, flag::END_STREAM, 1, b"late"));
    assert_eq!(session.sent(), []);
}

#[test]
fn a_response_that_is_dropped_is_cancelled() {
    let mut session = Session::new();
    session.receive(&call(1));
    drop(session.response(1));
    assert_eq!(session.sent(), [Sent::reset(1, Http2Code::Cancel)]);
}

#[test]
fn the_window_of_a_stream_is_respected() {
    let mut session = Session::new();
    session.receive(&settings(&[(setting::INITIAL_WINDOW_SIZE, 4)]));
    session.receive(&[call(1), call(3)].concat());
    answer(&session, 1, 10);
    answer(&session, 3, 4);
    let sent = session.sent();
    assert_eq!(data(&sent, 1), (message(10)[..4].to_vec(), false));
    assert_eq!(data(&sent, 3), (message(4).to_vec(), true), "another stream has its own");
    session.receive(&window_update(1, 5));
    assert_eq!(data(&session.sent(), 1), (message(10)[4..9].to_vec(), false));
    // It gets negative, and then opens again.
    session.receive(&settings(&[(setting::INITIAL_WINDOW_SIZE, 0)]));
    session.receive(&window_update(1, 4));
    assert_eq!(data(&session.sent(), 1), (Vec::new(), false));
    session.receive(&window_update(1, 1));
    assert_eq!(data(&session.sent(), 1), (message(10)[9..].to_vec(), true));
    assert_eq!(session.open_streams(), 0);
}

#[test]
fn the_window_of_the_connection_is_shared() {
    let mut session = Session::new();
    session.receive(&settings(&[(setting::INITIAL_WINDOW_SIZE, 1_000_000)]));
    session.receive(&[call(1), call(3)].concat());
    answer(&session, 1, 50_000);
    answer(&session, 3, 50_000);
    let mut both = session.sent();
    assert_eq!(data(&both, 1).0.len() + data(&both, 3).0.len(), 65_535);
    assert!(both.iter().all(|frame| frame.payload.len() <= 16_384));
    assert!(data(&both, 3).0.len() > 15_000, "both get on");
    session.receive(&window_update(0, 100_000));
    both.append(&mut session.sent());
    for id in [1, 3] {
        assert_eq!(data(&both, id), (message(50_000).to_vec(), true));
    }
    assert_eq!(session.open_streams(), 0);
}

/// Responses that the client does not let the server send are counted, and no more after a reset.
#[test]
fn unread_responses_are_counted() {
    let mut session = Session::new();
    let backlog = backlog(&session);
    session.receive(&settings(&[(setting::INITIAL_WINDOW_SIZE, 0)]));
    let ids: Vec<u32> = (0..5).map(|n| 2 * n + 1).collect();
    for id in &ids {
        session.receive(&call(*id));
        answer(&session, *id, BACKLOG_PER_CONNECTION_BYTES_MAX / 5 + 1);
    }
    assert!(backlog.is_full());
    session.receive(&reset(1));
    assert!(!backlog.is_full());
}

/// While the socket accepts nothing, responses wait in their streams.
#[test]
fn responses_are_not_collected_without_bound() {
    let mut session = Session::new();
    let backlog = backlog(&session);
    session.receive(
        &[window_update(0, 10_000_000), settings(&[(setting::INITIAL_WINDOW_SIZE, 10_000_000)])].concat(),
    );
    session.shared.lock().set_blocked(true);
    for id in (0..100).map(|n| 2 * n + 1) {
        session.receive(&call(id));
        answer(&session, id, 10_000);
    }
    assert!(backlog.is_full());
    let sent = session.sent();
    assert!(sent.iter().all(|frame| frame.kind != kind::DATA), "only heads");
    session.shared.lock().set_blocked(false);
    let mut all = 0;
    while session.open_streams() > 0 {
        let sent: usize = session.sent().iter().map(|frame| frame.payload.len()).sum();
        assert!(0 < sent && sent < 100_000, "{sent} at once");
        all += sent;
    }
    assert!(all >= 1_000_000 && !backlog.is_full());
}

#[test]
fn several_messages_are_sent_in_order() {
    let mut session = Session::new();
    session.receive(&[settings(&[(setting::INITIAL_WINDOW_SIZE, 3)]), call(1)].concat());
    let backlog = backlog(&session);
    let mut stream = session.response(1);
    let mut cx = Context::from_waker(Waker::noop());
    stream.send_head(GRPC_HEAD);
    for text in ["ab", "cd", "ef"] {
        stream.send_data(backlog.count_until_sent(Bytes::from_static(text.as_bytes()))).expect("it is open");
    }
    let mut sent = session.sent();
    assert_eq!(data(&sent, 1).0, b"abc");
    assert_eq!(stream.poll_sent(&mut cx), Poll::Pending);
    assert_eq!(stream.watch().poll_gone(&mut cx), Poll::Pending);
    session.receive(&window_update(1, 100));
    sent.append(&mut session.sent());
    assert_eq!(stream.poll_sent(&mut cx), Poll::Ready(Ok(())));
    stream.send_trailers(STATUS_OK);
    sent.append(&mut session.sent());
    assert_eq!(data(&sent, 1), (b"abcdef".to_vec(), true));
}

#[test]
fn who_resets_gets_nothing_more() {
    let mut session = Session::new();
    session.receive(&opening(1));
    let mut stream = session.response(1);
    stream.send_head(GRPC_HEAD);
    session.receive(&reset(1));
    session.sent();
    let mut cx = Context::from_waker(Waker::noop());
    assert_eq!(stream.watch().poll_gone(&mut cx), Poll::Ready(()));
    let bytes = backlog(&session).count_until_sent(Bytes::from_static(b"x"));
    assert!(stream.send_data(bytes).is_err());
    assert_eq!(session.body(1), (Vec::new(), false));
    stream.send_trailers(STATUS_OK);
    assert_eq!(session.sent(), []);
}
