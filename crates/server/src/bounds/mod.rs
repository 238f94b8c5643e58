//! Every bound on what a client can make the server hold or do. `docs/reference/limits.md` is generated from these
//! constants by `reference/limits.rs`. `budget` divides bounds on bytes among client addresses.

pub(super) mod budget;

use std::time::Duration;

/// Connections open at once, on all listeners but admin together.
pub const CONNECTIONS_MAX: usize = 16_384;
/// Of these, from one address (or one /64 of IPv6) that is neither loopback nor a trusted proxy.
pub const CONNECTIONS_PER_ADDRESS_MAX: usize = 256;
/// Connections open at once on the admin listener. It has a limit of its own, so that it answers when the others are
/// full.
pub const ADMIN_CONNECTIONS_MAX: usize = 128;
/// Of these, from one address that is neither loopback nor a trusted proxy.
pub const ADMIN_CONNECTIONS_PER_ADDRESS_MAX: usize = 32;
/// File descriptors kept free for other things than connections: listeners, threads, files.
pub const OTHER_FILES_MAX: usize = 128;
/// Connections that wait in the kernel to be accepted.
pub const LISTEN_BACKLOG: i32 = 1_024;
/// How long a TLS handshake may take.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a client may take for the first byte of a connection (not on `resp`), and then, on `http` and `admin`, for
/// the whole head of each request.
pub const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the whole body of an HTTP request, or a gRPC message, may take to arrive.
pub const BODY_TIMEOUT: Duration = Duration::from_secs(5);
/// A connection without requests is closed after this.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(75);
/// Failed signature checks of tokens per second from one address (or one /64 of IPv6). Beyond it, tokens from that
/// address that are not known to be valid are refused without a check until the second is over. Requests of a trusted
/// proxy that names no client have no such bound.
pub const FAILED_CHECKS_PER_SECOND_MAX: u64 = 256;
/// API keys in the file of the settings.
pub const API_KEYS_MAX: usize = 100_000;
/// Bytes of an API key in a request. A longer one is not known.
pub const API_KEY_BYTES_MAX: usize = 256;
/// Headers of a request.
pub const HEADERS_MAX: usize = 64;
/// Bytes of all headers of a request.
pub const HEAD_BYTES_MAX: usize = 32 * 1_024;
/// Bytes of a request's body, and of a gRPC message.
pub const BODY_BYTES_MAX: usize = 64 * 1_024;
/// Bytes of the body of a batch.
pub const BATCH_BYTES_MAX: usize = 1_024 * 1_024;
/// Requests in a batch.
pub const BATCH_MAX: usize = 1_000;
/// Bytes of all request bodies in memory: those that have not fully arrived, and batches that are not fully answered.
/// An HTTP body that arrives in one piece and is answered at once is read in place and does not count, nor does a small
/// gRPC message. One address gets at most a quarter of it, loopback or a trusted proxy three quarters.
pub const BODIES_BYTES_MAX: usize = 64 * 1_024 * 1_024;
/// Bytes of all responses that clients have not read, on all connections, and of RESP transactions. It is divided among
/// addresses like the budget for bodies. Beyond it, HTTP/2 and gRPC calls are refused before they are decided, and
/// other connections are closed.
pub const BACKLOG_BYTES_MAX: usize = 32 * 1_024 * 1_024;
/// Bytes of unread responses on one connection. Beyond it, nothing more is decided there until the client reads.
pub const BACKLOG_PER_CONNECTION_BYTES_MAX: usize = 256 * 1_024;
/// Of these, bytes that do not count against [`BACKLOG_BYTES_MAX`], so that a client that reads is always answered.
pub const BACKLOG_FREE_BYTES: usize = 4 * 1_024;
/// Bytes of responses that the express lane sends with one write, and bytes of a batch's response above which it is
/// sent in pieces. The last response or decision may exceed it.
pub const RESPONSES_AT_ONCE_BYTES: usize = 64 * 1_024;
/// Bytes of each later piece of a batch's response. The last decision may exceed it.
pub const BATCH_PIECE_BYTES: usize = 16 * 1_024;
/// Bytes of responses that the kernel buffers for a connection and has not sent.
pub const KERNEL_UNSENT_BYTES_MAX: u32 = 128 * 1_024;
/// A client that does not read a response within this is disconnected, even if it keeps sending.
pub const CLIENT_READ_TIMEOUT: Duration = Duration::from_secs(10);
/// In that time it must read the whole response, or at least this many bytes of it; a sixteenth on an HTTP/2 stream.
pub const CLIENT_READ_BYTES_MIN: usize = 16 * 1_024;
/// Bytes of the name of a header, claim or descriptor in a request.
pub const NAME_BYTES_MAX: usize = 256;
/// Bytes of the value of a header, claim or descriptor in a request.
pub const VALUE_BYTES_MAX: usize = 4 * 1_024;
/// Values of all headers, claims and descriptors of a request.
pub const PAIRS_MAX: usize = 128;
/// Concurrent requests (streams) on one HTTP/2 connection.
pub const STREAMS_MAX: u32 = 128;
/// Bytes of all headers of an HTTP/2 request.
pub const HTTP2_HEAD_BYTES_MAX: u32 = 16 * 1_024;
/// HTTP/2 streams reset by the client before they were accepted, on the HTTP listener.
pub const PENDING_RESETS_MAX: usize = 20;
/// Frames in which a gRPC client may send the headers of a call.
pub const HEAD_FRAMES_MAX: usize = 32;
/// Calls on a gRPC connection that the client resets, or that break the protocol, before they are answered. Each
/// answered call makes up for one, and each second for a tenth of the bound. Beyond it, the connection ends.
pub const GRPC_RESETS_MAX: usize = 1_000;
/// The same for loopback and trusted proxies, whose connections carry the calls of many users.
pub const GRPC_PROXY_RESETS_MAX: usize = 10 * GRPC_RESETS_MAX;
/// Settings in one SETTINGS frame of a gRPC client. Beyond it, the connection ends.
pub const GRPC_SETTINGS_MAX: usize = 64;
/// Frames in a row on a gRPC connection that are not part of a call, such as PING and SETTINGS. Beyond it, the
/// connection ends.
pub const GRPC_IDLE_FRAMES_MAX: usize = 10_000;
/// Calls of one gRPC connection that wait, with those that were reset and have not ended yet. Beyond it, nothing more
/// is read there until some end.
pub const GRPC_WAITING_MAX: usize = 2 * STREAMS_MAX as usize;
/// Bytes of a gRPC message that do not count against [`BODIES_BYTES_MAX`].
pub const GRPC_BODY_FREE_BYTES: usize = 2 * 1_024;
/// Bytes that a gRPC error quotes of what the client has sent.
pub const GRPC_QUOTED_BYTES_MAX: usize = 128;
/// Bytes that are read from a gRPC connection at once. A frame has at most half of it.
pub const GRPC_READ_BYTES: usize = 33 * 1_024;
/// How long input of a gRPC client is discarded after an error that ends the connection, so that the client can read
/// the error.
pub const GRPC_LINGER: Duration = Duration::from_secs(1);
/// How often an idle HTTP/2 connection gets a PING.
pub const PING_INTERVAL: Duration = Duration::from_secs(30);
/// How long a client may take to acknowledge a PING.
pub const PING_TIMEOUT: Duration = Duration::from_secs(10);
/// A gRPC connection gets GOAWAY after this, plus or minus a tenth, so that clients reconnect and find new nodes.
pub const GRPC_CONNECTION_AGE: Duration = Duration::from_secs(300);
/// Descriptors in a rate limit request (RLS).
pub const DESCRIPTORS_MAX: usize = 32;
/// Entries in a descriptor.
pub const DESCRIPTOR_ENTRIES_MAX: usize = 16;
/// Arguments of a RESP command, its name not counted.
pub const RESP_ARGS_MAX: usize = 128;
/// Bytes of a RESP argument.
pub const RESP_ARG_BYTES_MAX: usize = 4 * 1_024;
/// Bytes of RESP commands that are read and not yet answered.
pub const RESP_BUFFER_MAX: usize = 64 * 1_024;
/// Bytes of one RESP command. It is less than [`RESP_BUFFER_MAX`], so that the buffer always has space to read on while
/// it holds an incomplete command.
pub const RESP_COMMAND_BYTES_MAX: usize = RESP_BUFFER_MAX - 64;
/// Bytes of RESP replies that are collected before they are sent. The last reply may exceed it.
pub const RESP_REPLIES_BYTES_MAX: usize = 64 * 1_024;
/// RESP commands that one connection may have answered before other connections of its thread get their turn.
pub const RESP_PIPELINE_MAX: usize = 1_024;
/// RESP commands between `MULTI` and `EXEC`.
pub const RESP_QUEUED_MAX: usize = 10_000;
/// Bytes of all RESP commands between `MULTI` and `EXEC`, with a few for each argument. They count against
/// [`BACKLOG_BYTES_MAX`].
pub const RESP_QUEUED_BYTES_MAX: usize = 1_024 * 1_024;
/// Wrong passwords on one RESP connection before it is closed.
pub const RESP_AUTH_ATTEMPTS_MAX: u32 = 10;
/// If a password is set, a RESP client that has not authenticated is disconnected after this.
pub const RESP_AUTH_TIMEOUT: Duration = Duration::from_secs(10);
/// TCP keepalive: an idle connection is probed after this, then every [`KEEPALIVE_INTERVAL`].
pub const KEEPALIVE_TIME: Duration = Duration::from_secs(60);
/// The time between TCP keepalive probes. After four without a reply the connection is closed.
pub const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(15);
/// The longest pause after a failure to accept connections.
pub const ACCEPT_PAUSE_MAX: Duration = Duration::from_secs(1);
/// Time between the stop signal and the closing of connections, for load balancers to notice.
pub const DRAIN_NOTICE: Duration = Duration::from_millis(500);
/// How long input of a RESP client is discarded after an error that closes the connection, so that the client can
/// read the error.
pub const RESP_LINGER: Duration = Duration::from_secs(1);
/// How long requests in flight may take to end when the server shuts down.
pub const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);
/// Of the time at shutdown, how much requests in flight leave at least to the last figures, which are then written for the
/// other nodes.
pub const LAST_FIGURES_TIME: Duration = Duration::from_secs(1);
/// With a shared store: RESP commands of one connection that wait for the store at once.
pub const RESP_WAITING_MAX: usize = 256;
/// With a shared store: requests of one batch that wait for the store at once.
pub const BATCH_WAITING_MAX: usize = 64;
/// How long the server waits at startup for its first connection to a shared store, before it decides without it.
pub const STORE_ATTEMPT_MAX: Duration = Duration::from_secs(1);
/// How long returning leases to a shared store may take at shutdown.
pub const STORE_LEAVE_MAX: Duration = Duration::from_millis(500);
/// The largest `trust.max_users`; each user takes up to 300 bytes.
pub const TRUST_USERS_MAX: usize = 10_000_000;
/// Users in the file of `trust.file`.
pub const TRUST_ACCOUNTS_MAX: usize = 100_000;
/// Users of whom something is known by the admin API, in the database or in memory.
pub const TRUST_KEPT_MAX: usize = 100_000;
/// The same on Redis, with those of whom nothing is known any more for less than an hour.
pub const TRUST_SHARED_MAX: usize = 20_000;
/// Entries of one call that tells outcomes.
pub const OUTCOMES_MAX: usize = 1_000;
/// How often watched files are checked for changes.
pub const WATCH_INTERVAL: Duration = Duration::from_millis(250);
/// How often open events are written.
pub const EVENT_FLUSH_INTERVAL: Duration = Duration::from_secs(10);
/// How long the server waits at shutdown until the last events are written.
pub const EVENT_FLUSH_TIMEOUT: Duration = Duration::from_secs(1);
/// Full tables of open events that wait to be written. Beyond it, events are merged into one for each name.
pub const EVENT_TABLES_QUEUED_MAX: usize = 16;
/// Single events, such as changes of the policy, that wait to be written. Beyond it, they are dropped and counted.
pub const EVENTS_QUEUED_MAX: usize = 4_096;
/// Events about the limits, and about the exemptions, that a change of the policy leads to. The others are counted in
/// one more.
pub const POLICY_CHANGES_MAX: usize = 100;
/// Bytes of a line of the events file; longer ones are not read as events.
pub const EVENT_LINE_BYTES_MAX: usize = 64 * 1_024;
/// Bytes of the events files from which violations are read back at the start, newest first.
pub const VIOLATION_BYTES_MAX: u64 = 1_024 * 1_024 * 1_024;
/// Of these files, how many are read. They are open until then.
pub const VIOLATION_FILES_MAX: usize = 64;
/// Denials that wait for the database, equal ones as one. Beyond it, they are merged into one for each name.
pub const RECORDS_DENIALS_MAX: usize = 32_768;
/// Changes and security events that wait for the database. Beyond it, security events are merged into one for each name,
/// and changes are dropped and counted.
pub const RECORDS_OTHERS_MAX: usize = 4_096;
/// Security events of one node that become entries of the audit within [`EVENT_FLUSH_INTERVAL`]. Beyond it, they are
/// merged into one for each name: clients cause them, and must not be able to fill the audit.
pub const RECORDS_SECURITY_MAX: usize = 100;
/// Records that are written to the database at once.
pub const RECORDS_BATCH_MAX: usize = 1_000;
/// The longest pause between two attempts to write records to a database that does not answer.
pub const RECORDS_RETRY_MAX: Duration = Duration::from_secs(1);
/// How long the server waits at shutdown until the last records are in the database.
pub const RECORDS_FLUSH_TIMEOUT: Duration = Duration::from_secs(3);
/// How long `tidegate check` waits for a response. A wait queue on the server can take longer, up to an hour by policy.
pub const CHECK_TIMEOUT: Duration = Duration::from_secs(30);
/// How long `tidegate admin` waits for what takes long: a verification of the whole audit, a simulation.
pub const LONG_CALL_TIMEOUT: Duration = Duration::from_secs(3_600);
/// Bytes of a body in the admin API.
pub const API_BODY_BYTES_MAX: usize = 16 * 1_024 * 1_024;
/// Calls of the admin API at once that compute for long: checking a policy, replaying a trace.
pub const LONG_TASKS_MAX: usize = 2;
/// Streams of the admin API's overview at once.
pub const OVERVIEW_STREAMS_MAX: usize = 64;
/// How long such a stream lasts; browsers then open another, with a token that is checked again.
pub const OVERVIEW_STREAM_TIME_MAX: Duration = Duration::from_secs(240);
/// Calls of the admin API per second by one token.
pub const API_CALLS_PER_SECOND: u32 = 500;
/// How many of these may come at once.
pub const API_CALLS_BURST: u32 = 5_000;
/// Calls of the admin API per second without a valid token, from one address (or one /64 of IPv6).
pub const OPEN_CALLS_PER_SECOND: u32 = 20;
/// How many of these may come at once.
pub const OPEN_CALLS_BURST: u32 = 100;
/// Wrong tokens per minute from one address (or one /64 of IPv6) in the admin API. Beyond it, tokens from that address that
/// were not valid a short time ago are refused without a check.
pub const FAILED_LOGINS_PER_MINUTE: u32 = 10;
/// How many of these may come at once.
pub const FAILED_LOGINS_BURST: u32 = 10;
/// Tokens, and addresses, whose calls of the admin API are counted. Those beyond it share one count.
pub const API_CALLERS_MAX: usize = 16_384;
/// Tokens and sessions of the admin API that are remembered as valid, for when the database is away.
pub const SEEN_CREDENTIALS_MAX: usize = 1_024;
/// How often it is written down when tokens were used last.
pub const TOKEN_USES_INTERVAL: Duration = Duration::from_secs(5);
/// Live entries of one kind: clients that are blocked, for instance.
pub const LIVE_ENTRIES_MAX: usize = 10_000;
/// Live entries on Redis, with those that have ended or were removed in the last hour.
pub const LIVE_SHARED_MAX: usize = 100_000;
/// Buckets of limits that do not apply to a request, but have its key, where keys are looked up.
pub const OTHER_LIMITS_MAX: usize = 100;
/// Buckets of one override that are written in its numbers when it is added or ends.
pub const RENUMBERED_BUCKETS_MAX: usize = 1_024;
/// How long the start of a server waits for the live entries, as long as whoever keeps them has not failed to answer.
pub const LIVE_ENTRIES_WAIT: Duration = Duration::from_secs(3);
/// Candidates that decide beside the policy at once.
pub const CANDIDATES_MAX: usize = 4;
/// Candidates that are kept with what was found, those that have ended included. One more makes the oldest of these be
/// forgotten.
pub const CANDIDATES_KEPT_MAX: usize = 32;
/// How long a candidate decides beside the policy, unless it is told.
pub const CANDIDATE_TIME: Duration = Duration::from_secs(24 * 3_600);
/// How long it may.
pub const CANDIDATE_TIME_MAX: Duration = Duration::from_secs(7 * 24 * 3_600);
/// Comparisons of one candidate on one node that wait for the store after the decision was made. Beyond it, decisions are
/// not compared.
pub const CANDIDATE_WAITING_MAX: usize = 1_024;
/// Steps of half a minute that are kept of what was found: those of a day.
pub const CANDIDATE_STEPS_MAX: u64 = 2_880;
/// Simulations and explanations by another policy in the admin API at once.
pub const TRIALS_MAX: usize = 1;
/// How many calls may wait for their turn to do so. One more is refused.
pub const TRIALS_WAITING_MAX: usize = 16;
/// How long they are waited for, waiting for their turn and reading the policy included.
pub const TRIAL_TIME_MAX: Duration = Duration::from_secs(20);
/// Limits and burst detectors of a policy by which the admin API explains a request, if it is not the one in force.
pub const EXPLANATION_ENTRIES_MAX: usize = 10_000;
/// Bytes of such an explanation.
pub const EXPLANATION_BYTES_MAX: usize = 16 * 1_024 * 1_024;
/// How long a simulation in the admin API may take.
pub const SIMULATION_TIME_MAX: Duration = Duration::from_secs(10);
/// Keys of a simulation in the admin API.
pub const SIMULATION_KEYS_MAX: usize = 100_000;
/// Bytes of the decisions that a simulation in the admin API answers with as lines; as JSON, a sixteenth of it. The
/// others are counted.
pub const SIMULATION_BYTES_MAX: usize = 16 * 1_024 * 1_024;
