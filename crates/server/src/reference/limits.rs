//! Renders the reference page of all bounds from the constants in `bounds/mod.rs`.

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

Everything that a client can make the server hold or do has a bound. What exceeds it is refused with an error that says
so, and other clients are still answered.

One address (or one /64 of IPv6) gets at most a quarter of the memory for request bodies, and of that for unread
responses. Loopback or a trusted proxy, which carries many clients, gets three quarters.
";

type Row = (&'static str, String);

fn sections() -> [(&'static str, Vec<Row>); 6] {
    [
        ("Connections", connections()),
        ("Unread responses", unread_responses()),
        ("HTTP", http()),
        ("gRPC", grpc()),
        ("The Redis protocol", resp()),
        ("Files and shutdown", files()),
    ]
}

fn connections() -> Vec<Row> {
    vec![
        (
            "open connections, those to `admin` not counted; fewer if the system allows fewer open files",
            number(CONNECTIONS_MAX),
        ),
        (
            "of these, from one address, or one /64 of IPv6, that is neither loopback nor a trusted proxy",
            number(CONNECTIONS_PER_ADDRESS_MAX),
        ),
        ("open connections to `admin`", number(ADMIN_CONNECTIONS_MAX)),
        ("of these, from one address as above", number(ADMIN_CONNECTIONS_PER_ADDRESS_MAX)),
        ("connections that wait in the kernel to be accepted", LISTEN_BACKLOG.to_string()),
        ("duration of a TLS handshake", seconds(HANDSHAKE_TIMEOUT)),
        (
            "failed signature checks of tokens per second, for one address as above; beyond it, tokens from that \
             address that are not known to be valid are refused without a check",
            FAILED_CHECKS_PER_SECOND_MAX.to_string(),
        ),
        ("until the first byte of a connection arrives, except on `resp`", seconds(HEAD_TIMEOUT)),
        ("until TCP keepalive probes an idle connection", seconds(KEEPALIVE_TIME)),
    ]
}

fn unread_responses() -> Vec<Row> {
    vec![
        ("until a client must have read a response, even if it keeps sending", seconds(CLIENT_READ_TIMEOUT)),
        (
            "of a larger response, what it must read in each such period; a sixteenth on an HTTP/2 stream",
            bytes(CLIENT_READ_BYTES_MIN),
        ),
        (
            "unread bytes on one connection; beyond it, nothing is decided there until the client reads",
            bytes(BACKLOG_PER_CONNECTION_BYTES_MAX),
        ),
        ("unread bytes on all connections", bytes(BACKLOG_BYTES_MAX)),
        ("unread bytes on one connection that do not count against those of all", bytes(BACKLOG_FREE_BYTES)),
        ("unsent bytes in the kernel for one connection", bytes(KERNEL_UNSENT_BYTES_MAX as usize)),
    ]
}

fn http() -> Vec<Row> {
    vec![
        ("until the head of a request has arrived", seconds(HEAD_TIMEOUT)),
        ("until the body of a request has arrived", seconds(BODY_TIMEOUT)),
        ("until a connection without requests is closed", seconds(IDLE_TIMEOUT)),
        ("headers in a request", number(HEADERS_MAX)),
        ("size of the head of a request", bytes(HEAD_BYTES_MAX)),
        ("size of the headers of an HTTP/2 request", bytes(HTTP2_HEAD_BYTES_MAX as usize)),
        ("size of the body of a request", bytes(BODY_BYTES_MAX)),
        ("size of the body of a batch", bytes(BATCH_BYTES_MAX)),
        ("requests in a batch", number(BATCH_MAX)),
        ("requests in a batch that wait for a shared store at once", number(BATCH_WAITING_MAX)),
        (
            "size of all request bodies in memory: not fully arrived, or batches not fully answered",
            bytes(BODIES_BYTES_MAX),
        ),
        (
            "size of the responses that the express lane sends at once, and of the first piece of a batch's response",
            bytes(RESPONSES_AT_ONCE_BYTES),
        ),
        ("size of each later piece of a batch's response", bytes(BATCH_PIECE_BYTES)),
        ("length of the name of a header, claim or descriptor in a body", bytes(NAME_BYTES_MAX)),
        ("length of its value", bytes(VALUE_BYTES_MAX)),
        ("values of all headers, claims and descriptors in a request body", number(PAIRS_MAX)),
        ("concurrent requests on one HTTP/2 connection", STREAMS_MAX.to_string()),
        ("HTTP/2 streams reset by the client before they were accepted", number(PENDING_RESETS_MAX)),
        ("until an idle HTTP/2 connection gets a PING", seconds(PING_INTERVAL)),
        ("until the PING must be acknowledged", seconds(PING_TIMEOUT)),
    ]
}

fn grpc() -> Vec<Row> {
    vec![
        ("size of a message", bytes(BODY_BYTES_MAX)),
        ("descriptors in a rate limit request", number(DESCRIPTORS_MAX)),
        ("entries in a descriptor", number(DESCRIPTOR_ENTRIES_MAX)),
        (
            "age of a connection, plus or minus a tenth; GOAWAY then makes the client reconnect",
            seconds(GRPC_CONNECTION_AGE),
        ),
    ]
}

fn resp() -> Vec<Row> {
    vec![
        ("arguments of a command", number(RESP_ARGS_MAX)),
        ("size of an argument", bytes(RESP_ARG_BYTES_MAX)),
        ("size of the commands that are read and not yet answered", bytes(RESP_BUFFER_MAX)),
        ("size of one command", bytes(RESP_COMMAND_BYTES_MAX)),
        (
            "commands answered in a row before other connections of the thread get their turn",
            number(RESP_PIPELINE_MAX),
        ),
        ("commands of one connection that wait for a shared store at once", number(RESP_WAITING_MAX)),
        (
            "size of the replies that are collected before they are sent, the last not counted",
            bytes(RESP_REPLIES_BYTES_MAX),
        ),
        ("for a client to read the error that closes its connection", seconds(RESP_LINGER)),
        ("wrong passwords on one connection", RESP_AUTH_ATTEMPTS_MAX.to_string()),
        ("until a client must have authenticated, if a password is set", seconds(RESP_AUTH_TIMEOUT)),
    ]
}

fn files() -> Vec<Row> {
    vec![
        ("between two checks of the watched files", seconds(WATCH_INTERVAL)),
        (
            "at startup, until the first attempt to connect to a shared store gives up",
            seconds(STORE_ATTEMPT_MAX),
        ),
        ("at shutdown, for returning leases to a shared store", seconds(STORE_LEAVE_MAX)),
        ("from the stop signal until the server begins to close connections", seconds(DRAIN_NOTICE)),
        ("from the stop signal until the server has stopped", seconds(DRAIN_TIMEOUT)),
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
        // Not under a client's control, or part of another row.
        let without_row = ["OTHER_FILES_MAX", "KEEPALIVE_INTERVAL", "ACCEPT_PAUSE_MAX", "CHECK_TIMEOUT"];
        let rows = include_str!("limits.rs").split("#[cfg(test)]").next().unwrap();
        let names =
            include_str!("../bounds/mod.rs").lines().filter_map(|line| line.strip_prefix("pub const "));
        for name in names.map(|line| line.split(':').next().unwrap()) {
            assert!(
                rows.contains(name) || without_row.contains(&name),
                "`{name}` has no row in the reference"
            );
        }
    }
}
