//! The reference page of everything that is bounded, from the constants themselves.

use std::fmt::Write;
use std::time::Duration;

use crate::bounds::*;

/// The page, as Markdown.
pub(crate) fn reference() -> String {
    let mut page = String::from(INTRODUCTION);
    for (title, rows) in sections() {
        write!(page, "\n## {title}\n\n| what | at most |\n|---|---|\n")
            .expect("writing to memory does not fail");
        for (what, most) in rows {
            writeln!(page, "| {what} | {most} |").expect("writing to memory does not fail");
        }
    }
    page
}

const INTRODUCTION: &str = "\
# Limits of the server

Whatever a client can make the server hold or do is bounded. What is beyond is refused with an error that
says so, and the others go on being answered.

Of what there is for bodies, and for answers that are not taken, one address (or one /64 of IPv6) gets a quarter at
most. Loopback, or a trusted proxy, stands for many clients and gets three quarters.
";

type Row = (&'static str, String);

fn sections() -> [(&'static str, Vec<Row>); 6] {
    [
        ("Connections", connections()),
        ("Answers that are not taken", answers()),
        ("HTTP", http()),
        ("gRPC", grpc()),
        ("The Redis protocol", resp()),
        ("Files and shutdown", files()),
    ]
}

fn connections() -> Vec<Row> {
    vec![
        (
            "connections that ask for decisions, at once; fewer if the system allows fewer files",
            number(CONNECTIONS_MAX),
        ),
        (
            "of these, from one address, or one /64 of IPv6, that is neither loopback nor a trusted proxy",
            number(CONNECTIONS_PER_ADDRESS_MAX),
        ),
        ("connections to `admin`, at once; they do not count above", number(ADMIN_CONNECTIONS_MAX)),
        ("of these, from one address as above", number(ADMIN_CONNECTIONS_PER_ADDRESS_MAX)),
        ("connections that wait in the kernel", BACKLOG.to_string()),
        ("a TLS handshake", seconds(HANDSHAKE_TIMEOUT)),
        (
            "signatures of tokens checked in vain for one address as above, a second; others of its tokens that are not \
             known to hold are then refused unchecked",
            FAILED_CHECKS_PER_SECOND_MAX.to_string(),
        ),
        ("until the first byte comes, but on `resp`", seconds(HEAD_TIMEOUT)),
        ("until a quiet connection is asked by TCP whether its other end is there", seconds(KEEPALIVE_TIME)),
    ]
}

fn answers() -> Vec<Row> {
    vec![
        ("until a client must have taken an answer, whatever else it sends", seconds(TAKE_TIMEOUT)),
        (
            "or at least, of a larger one, each time; a sixteenth of it on an HTTP/2 stream",
            bytes(TAKE_BYTES_MIN),
        ),
        (
            "on one connection; nothing more is decided there until some is taken",
            bytes(ANSWERS_PER_CONNECTION_BYTES_MAX),
        ),
        ("on all connections together", bytes(ANSWERS_BYTES_MAX)),
        ("on a connection, before they count for all together", bytes(ANSWERS_FREE_BYTES)),
        ("in the kernel, unsent, for one connection", bytes(KERNEL_UNSENT_BYTES_MAX as usize)),
    ]
}

fn http() -> Vec<Row> {
    vec![
        ("until the head of a request is there", seconds(HEAD_TIMEOUT)),
        ("until its body is there", seconds(BODY_TIMEOUT)),
        ("without a request, on a connection that is kept", seconds(IDLE_TIMEOUT)),
        ("headers of a request", number(HEADERS_MAX)),
        ("the head of a request", bytes(HEAD_BYTES_MAX)),
        ("the headers of an HTTP/2 request", bytes(HTTP2_HEAD_BYTES_MAX as usize)),
        ("the body of a request", bytes(BODY_BYTES_MAX)),
        ("the body of a batch", bytes(BATCH_BYTES_MAX)),
        ("requests of a batch", number(BATCH_MAX)),
        ("requests of a batch that wait for a shared store at once", number(BATCH_WAITING_MAX)),
        (
            "all bodies together, of which the rest is still to come or not yet decided",
            bytes(BODIES_BYTES_MAX),
        ),
        ("answers of the express lane, or of a batch, that are sent at once", bytes(ANSWERS_AT_ONCE_BYTES)),
        ("then, a piece of a batch", bytes(BATCH_PIECE_BYTES)),
        ("the name of a header, claim or descriptor in a body", bytes(NAME_BYTES_MAX)),
        ("its value", bytes(VALUE_BYTES_MAX)),
        (
            "headers, claims and descriptors of a request in a body, counted by their values",
            number(PAIRS_MAX),
        ),
        ("requests at once on one HTTP/2 connection", STREAMS_MAX.to_string()),
        ("requests that were taken back before they were looked at", number(PENDING_RESETS_MAX)),
        ("until a quiet HTTP/2 connection is asked whether it is alive", seconds(PING_INTERVAL)),
        ("until it answers", seconds(PING_TIMEOUT)),
    ]
}

fn grpc() -> Vec<Row> {
    vec![
        ("a message", bytes(BODY_BYTES_MAX)),
        ("descriptors of a rate limit request", number(DESCRIPTORS_MAX)),
        ("entries of a descriptor", number(DESCRIPTOR_ENTRIES_MAX)),
        (
            "the age of a connection, give or take a tenth; it is then asked to reconnect",
            seconds(GRPC_CONNECTION_AGE),
        ),
    ]
}

fn resp() -> Vec<Row> {
    vec![
        ("arguments of a command", number(RESP_ARGS_MAX)),
        ("an argument", bytes(RESP_ARG_BYTES_MAX)),
        ("commands that are read before they are answered", bytes(RESP_BUFFER_MAX)),
        ("one command", bytes(RESP_COMMAND_BYTES_MAX)),
        ("commands that are answered before the answers are sent", number(RESP_PIPELINE_MAX)),
        ("commands that wait for a shared store at once", number(RESP_WAITING_MAX)),
        ("answers that are collected before they are sent, beside the last", bytes(RESP_ANSWER_BYTES_MAX)),
        ("until a client that is sent away must have read why", seconds(RESP_LINGER)),
        ("wrong passwords on one connection", RESP_AUTH_ATTEMPTS_MAX.to_string()),
        ("until the password must have come, where one is set", seconds(RESP_AUTH_TIMEOUT)),
    ]
}

fn files() -> Vec<Row> {
    vec![
        ("between two looks at the files that are watched", seconds(WATCH_INTERVAL)),
        ("until the first attempt to reach a shared store has failed", seconds(STORE_ATTEMPT_MAX)),
        ("for giving leases back to it at the end", seconds(STORE_LEAVE_MAX)),
        ("from being told to stop until connections are asked to end", seconds(DRAIN_NOTICE)),
        ("from being told to stop until the end", seconds(DRAIN_TIMEOUT)),
    ]
}

fn number(number: usize) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

fn seconds(span: Duration) -> String {
    match span.subsec_millis() {
        0 => format!("{} s", span.as_secs()),
        _ => format!("{} ms", span.as_millis()),
    }
}

fn bytes(bytes: usize) -> String {
    match bytes {
        mib if mib.is_multiple_of(1 << 20) => format!("{} MiB", mib >> 20),
        kib if kib.is_multiple_of(1 << 10) => format!("{} KiB", kib >> 10),
        bytes => format!("{} bytes", number(bytes)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bound_is_told() {
        let page = reference();
        for row in
            ["| 16,384 |", "| 64 KiB |", "| 1 MiB |", "| 250 ms |", "| 256 bytes |", "| 75 s |", "| 1,000 |"]
        {
            assert!(page.contains(row), "{row}");
        }
        // Not what a client can make the server do, or said with another.
        let untold = ["OTHER_FILES_MAX", "KEEPALIVE_INTERVAL", "ACCEPT_PAUSE_MAX", "CHECK_TIMEOUT"];
        let rows = include_str!("limits.rs").split("#[cfg(test)]").next().unwrap();
        let names =
            include_str!("../bounds/mod.rs").lines().filter_map(|line| line.strip_prefix("pub const "));
        for name in names.map(|line| line.split(':').next().unwrap()) {
            assert!(rows.contains(name) || untold.contains(&name), "`{name}` has no row in the reference");
        }
    }
}
