//! Generates the reference page of the server's bounds from the constants in `bounds`.

mod live;

use std::fmt::Write;
use std::time::Duration;

use tidegate::engine::BURST_KEYS_MAX;
use tidegate::engine::trust::TrustOptions;
use tidegate::engine::trust::score::VIOLATIONS_MAX;
use tidegate_database::{ANSWERS_MAX, SESSIONS_PER_TOKEN, TOKENS_MAX};

use crate::bounds::*;
use crate::observe::events::{OPEN_EVENTS_PER_SHARD, OPEN_EVENTS_SHARED};

/// The page, as Markdown.
pub(crate) fn reference() -> String {
    let mut page = String::from(INTRODUCTION);
    for (title, rows) in sections() {
        write!(page, "\n## {title}\n\n| bound | maximum |\n|---|---|\n")
            .expect("writing to memory does not fail");
        for (what, most) in rows {
            writeln!(page, "| {what} | {most} |").expect("writing to memory does not fail");
        }
    }
    page
}

const INTRODUCTION: &str = "\
# Limits of the server

Everything that a client can make the server store or do is bounded. A request beyond a bound is refused with an error
that names the bound, a connection beyond one is closed, and all other clients are still answered.

Of the memory for request bodies, and of the memory for unread responses, one client address (or one /64 of IPv6) gets
at most a quarter. Loopback addresses and trusted proxies stand for many clients and get three quarters.
";

type Row = (&'static str, String);

fn sections() -> [(&'static str, Vec<Row>); 9] {
    [
        ("Connections", connections()),
        ("Unread responses", unread_responses()),
        ("HTTP", http()),
        ("gRPC", grpc()),
        ("The Redis protocol", resp()),
        ("The admin API", [admin_api(), live::live_actions(), live::trials()].concat()),
        ("Trust and burst detectors", trust_and_bursts()),
        ("Events", events()),
        ("Files and shutdown", files()),
    ]
}

fn connections() -> Vec<Row> {
    vec![
        (
            "open connections for decisions; fewer if the system allows fewer open files",
            number(CONNECTIONS_MAX),
        ),
        (
            "of these, from one address (or one /64 of IPv6) that is neither loopback nor a trusted proxy",
            number(CONNECTIONS_PER_ADDRESS_MAX),
        ),
        ("open connections to `admin`; they do not count above", number(ADMIN_CONNECTIONS_MAX)),
        ("of these, from one address as above", number(ADMIN_CONNECTIONS_PER_ADDRESS_MAX)),
        ("connections in the kernel's accept queue (backlog)", LISTEN_BACKLOG.to_string()),
        ("duration of a TLS handshake", seconds(HANDSHAKE_TIMEOUT)),
        (
            "failed signature checks of tokens per second from one address as above; further tokens from it that are not \
             cached as valid are then refused without a check",
            FAILED_CHECKS_PER_SECOND_MAX.to_string(),
        ),
        ("wait for the first byte, except on `resp`", seconds(HEAD_TIMEOUT)),
        ("idle time of a connection before the first TCP keepalive probe", seconds(KEEPALIVE_TIME)),
    ]
}

fn unread_responses() -> Vec<Row> {
    vec![
        ("time for a client to read a response, whatever else it sends", seconds(CLIENT_READ_TIMEOUT)),
        (
            "or, of a larger response, to read at least this much each time; a sixteenth of it on an HTTP/2 stream",
            bytes(CLIENT_READ_BYTES_MIN),
        ),
        (
            "unread responses of one connection; until some are read, nothing more is decided on it",
            bytes(BACKLOG_PER_CONNECTION_BYTES_MAX),
        ),
        ("unread responses of all connections together", bytes(BACKLOG_BYTES_MAX)),
        ("unread responses of a connection that do not count towards that total", bytes(BACKLOG_FREE_BYTES)),
        ("unsent bytes in the kernel for one connection", bytes(KERNEL_UNSENT_BYTES_MAX as usize)),
    ]
}

fn http() -> Vec<Row> {
    vec![
        ("time until the head of a request has arrived", seconds(HEAD_TIMEOUT)),
        ("time until its body has arrived", seconds(BODY_TIMEOUT)),
        ("idle time of a kept-alive connection", seconds(IDLE_TIMEOUT)),
        ("number of headers of a request", number(HEADERS_MAX)),
        ("size of the head of a request", bytes(HEAD_BYTES_MAX)),
        ("size of an API key; a longer one is not known", bytes(API_KEY_BYTES_MAX)),
        ("size of the headers of an HTTP/2 request", bytes(HTTP2_HEAD_BYTES_MAX as usize)),
        ("size of the body of a request", bytes(BODY_BYTES_MAX)),
        ("size of the body of a batch", bytes(BATCH_BYTES_MAX)),
        ("requests in a batch", number(BATCH_MAX)),
        ("requests of a batch that wait for a shared store at the same time", number(BATCH_WAITING_MAX)),
        (
            "all bodies together that have not arrived completely or are not yet decided",
            bytes(BODIES_BYTES_MAX),
        ),
        (
            "responses of the express lane, or of a batch, that are sent in one write",
            bytes(RESPONSES_AT_ONCE_BYTES),
        ),
        ("size of the further pieces of a batch's response", bytes(BATCH_PIECE_BYTES)),
        ("the name of a header, claim or descriptor in a body", bytes(NAME_BYTES_MAX)),
        ("its value", bytes(VALUE_BYTES_MAX)),
        (
            "headers, claims and descriptors of a request in a body, counted by their values",
            number(PAIRS_MAX),
        ),
        ("concurrent requests on one HTTP/2 connection", STREAMS_MAX.to_string()),
        ("HTTP/2 streams reset before they were accepted", number(PENDING_RESETS_MAX)),
        ("idle time of an HTTP/2 connection before a PING", seconds(PING_INTERVAL)),
        ("time until the PING is answered", seconds(PING_TIMEOUT)),
    ]
}

fn grpc() -> Vec<Row> {
    vec![
        ("size of a message", bytes(BODY_BYTES_MAX)),
        ("frames with the headers of a call", number(HEAD_FRAMES_MAX)),
        ("bytes read from a connection at once", bytes(GRPC_READ_BYTES)),
        (
            "calls that the client resets before they are answered, beyond one for each answered and a tenth of this \
             number per second",
            number(GRPC_RESETS_MAX),
        ),
        ("the same for loopback and trusted proxies", number(GRPC_PROXY_RESETS_MAX)),
        ("calls that wait on one connection, before nothing more is read", number(GRPC_WAITING_MAX)),
        ("bytes of a message that do not count against all bodies", bytes(GRPC_BODY_FREE_BYTES)),
        ("bytes of the request that an error quotes", bytes(GRPC_QUOTED_BYTES_MAX)),
        ("settings in one SETTINGS frame", number(GRPC_SETTINGS_MAX)),
        ("frames in a row that are not part of a call", number(GRPC_IDLE_FRAMES_MAX)),
        ("time for a client to read why its connection ends", seconds(GRPC_LINGER)),
        ("descriptors of a rate limit request", number(DESCRIPTORS_MAX)),
        ("entries of a descriptor", number(DESCRIPTOR_ENTRIES_MAX)),
        (
            "age of a connection, plus or minus a tenth; the client is then told to reconnect (GOAWAY)",
            seconds(GRPC_CONNECTION_AGE),
        ),
    ]
}

fn resp() -> Vec<Row> {
    vec![
        ("arguments of a command", number(RESP_ARGS_MAX)),
        ("size of an argument", bytes(RESP_ARG_BYTES_MAX)),
        ("size of the commands that are read ahead of their replies", bytes(RESP_BUFFER_MAX)),
        ("size of one command", bytes(RESP_COMMAND_BYTES_MAX)),
        ("commands between `MULTI` and `EXEC`", number(RESP_QUEUED_MAX)),
        ("size of the commands between `MULTI` and `EXEC`", bytes(RESP_QUEUED_BYTES_MAX)),
        ("pipelined commands that are executed before their replies are sent", number(RESP_PIPELINE_MAX)),
        ("commands that wait for a shared store at the same time", number(RESP_WAITING_MAX)),
        (
            "replies that are collected before they are sent, not counting the last",
            bytes(RESP_REPLIES_BYTES_MAX),
        ),
        ("time for a client to read the error before its connection is closed", seconds(RESP_LINGER)),
        ("wrong passwords on one connection", RESP_AUTH_ATTEMPTS_MAX.to_string()),
        ("time until a client has sent the password, if one is set", seconds(RESP_AUTH_TIMEOUT)),
    ]
}

fn admin_api() -> Vec<Row> {
    vec![
        ("size of the body of a call", bytes(API_BODY_BYTES_MAX)),
        (
            "calls at once that compute for long, such as checking a policy; others wait",
            number(LONG_TASKS_MAX),
        ),
        ("calls of one token", rate(API_CALLS_PER_SECOND, "second", API_CALLS_BURST)),
        (
            "calls without a valid token from one address (or one /64 of IPv6)",
            rate(OPEN_CALLS_PER_SECOND, "second", OPEN_CALLS_BURST),
        ),
        (
            "wrong tokens from one address as above; other tokens from it that were not valid a short time ago are then \
             refused without a check",
            rate(FAILED_LOGINS_PER_MINUTE, "minute", FAILED_LOGINS_BURST),
        ),
        (
            "tokens, and addresses, that are counted for that; those beyond share one count",
            number(API_CALLERS_MAX),
        ),
        (
            "tokens that are kept; one more makes the one that ended first be forgotten, and is refused with 409 if none \
             has ended",
            number(TOKENS_MAX as usize),
        ),
        ("sessions of one token; one more ends the oldest", number(SESSIONS_PER_TOKEN as usize)),
        (
            "answers that are kept for requests with an `Idempotency-Key`; one more makes the oldest be forgotten",
            number(ANSWERS_MAX as usize),
        ),
        ("tokens and sessions that are accepted while the database is away", number(SEEN_CREDENTIALS_MAX)),
        ("interval of writing when tokens were used last", seconds(TOKEN_USES_INTERVAL)),
    ]
}

fn rate(rate: u32, unit: &str, burst: u32) -> String {
    format!("{rate} a {unit}, {} at once", number(burst as usize))
}

fn trust_and_bursts() -> Vec<Row> {
    let usual = TrustOptions::default();
    vec![
        ("users in the file of `trust.file`", number(TRUST_ACCOUNTS_MAX)),
        ("users of whom something is known by the admin API", number(TRUST_KEPT_MAX)),
        (
            "the same on Redis, with those of whom nothing is known any more for less than an hour",
            number(TRUST_SHARED_MAX),
        ),
        ("entries of one call that tells outcomes", number(OUTCOMES_MAX)),
        (
            "users whose scores and violations are kept, about, by default (`trust.max_users`)",
            number(usual.max_users),
        ),
        ("the same, at most", number(TRUST_USERS_MAX)),
        ("violations of a user that are kept and make a difference", VIOLATIONS_MAX.to_string()),
        (
            "keys that burst detectors watch; others are not watched, and a metric counts them",
            number(BURST_KEYS_MAX),
        ),
    ]
}

fn events() -> Vec<Row> {
    vec![
        ("interval of writing open events", seconds(EVENT_FLUSH_INTERVAL)),
        (
            "open events in each of eight tables; each thread adds to one of them, and a full one is written at once",
            number(OPEN_EVENTS_PER_SHARD),
        ),
        (
            "open events beyond that, in all tables together, those in full tables that wait included",
            number(OPEN_EVENTS_SHARED),
        ),
        (
            "full tables of open events that wait to be written; beyond it, events are merged into one for each name",
            number(EVENT_TABLES_QUEUED_MAX),
        ),
        (
            "single events that wait to be written; more are dropped, and a metric counts them",
            number(EVENTS_QUEUED_MAX),
        ),
        (
            "events about limits, and about exemptions, for one change of the policy",
            number(POLICY_CHANGES_MAX),
        ),
        ("size of a line of the events file that is read", bytes(EVENT_LINE_BYTES_MAX)),
        (
            "size of the events files from which violations are read back at the start, newest first",
            bytes(VIOLATION_BYTES_MAX as usize),
        ),
        ("number of these files", number(VIOLATION_FILES_MAX)),
        ("time for writing the last events at the end", seconds(EVENT_FLUSH_TIMEOUT)),
        ("denials that wait for the database", number(RECORDS_DENIALS_MAX)),
        ("changes and security events that wait for the database", number(RECORDS_OTHERS_MAX)),
        ("security events of a node in the audit, each on its own, in 10 s", number(RECORDS_SECURITY_MAX)),
        ("records that are written to the database at once", number(RECORDS_BATCH_MAX)),
        ("longest pause between attempts to write them", seconds(RECORDS_RETRY_MAX)),
        ("time for writing the last records to the database at the end", seconds(RECORDS_FLUSH_TIMEOUT)),
    ]
}

fn files() -> Vec<Row> {
    vec![
        ("API keys in the file of `api_keys`", number(API_KEYS_MAX)),
        ("interval of checking files for changes", seconds(WATCH_INTERVAL)),
        ("wait for a shared store at the start", seconds(STORE_ATTEMPT_MAX)),
        ("time for giving leases back to a shared store at the end", seconds(STORE_LEAVE_MAX)),
        ("time from the signal to stop until connections are told to end", seconds(DRAIN_NOTICE)),
        ("time from the signal to stop until connections are closed", seconds(DRAIN_TIMEOUT)),
        ("of that, time that is left at least for writing the last figures", seconds(LAST_FIGURES_TIME)),
    ]
}

fn number(number: usize) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
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
        // Bounds that no client can reach, or that belong to one in the list.
        let unlisted = [
            "OTHER_FILES_MAX",
            "KEEPALIVE_INTERVAL",
            "ACCEPT_PAUSE_MAX",
            "CHECK_TIMEOUT",
            "LONG_CALL_TIMEOUT",
        ];
        let rows =
            [include_str!("mod.rs").split("#[cfg(test)]").next().unwrap(), include_str!("live.rs")].concat();
        let names =
            include_str!("../../bounds/mod.rs").lines().filter_map(|line| line.strip_prefix("pub const "));
        for name in names.map(|line| line.split(':').next().unwrap()) {
            assert!(rows.contains(name) || unlisted.contains(&name), "`{name}` has no row in the reference");
        }
    }
}
