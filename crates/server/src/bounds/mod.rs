//! How much of everything a client can make the server hold or do.

pub(super) mod budget;

use std::time::Duration;

/// Connections at once, on all listeners together.
pub const CONNECTIONS_MAX: usize = 16_384;
/// Connections at once from one address that is neither loopback nor a trusted proxy.
pub const CONNECTIONS_PER_ADDRESS_MAX: usize = 256;
/// Connections at once on the admin listener, which has its own share so that it answers when the others
/// are full.
pub const ADMIN_CONNECTIONS_MAX: usize = 128;
/// Of these, from one address that is neither loopback nor a trusted proxy.
pub const ADMIN_CONNECTIONS_PER_ADDRESS_MAX: usize = 32;
/// File descriptors that are not connections: listeners, threads, files.
pub const OTHER_FILES_MAX: usize = 128;
/// Connections that the kernel holds before they are accepted.
pub const BACKLOG: i32 = 1_024;
/// A TLS handshake takes no longer.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);
/// The first byte of a connection, but on `resp`; then, on `http` and `admin`, the whole head of a request. Each
/// comes within this.
pub const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// The whole body of an HTTP request comes within this.
pub const BODY_TIMEOUT: Duration = Duration::from_secs(5);
/// A connection on which nothing happens is closed after this.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(75);
/// Signatures of tokens that are checked in vain for one address, or one /64 of IPv6, within a second. Tokens of that
/// address which are not known to hold are then refused unchecked until the second is over. A trusted proxy that does
/// not say for whom it asks has no such bound.
pub const FAILED_CHECKS_PER_SECOND_MAX: u64 = 256;
/// Headers of a request.
pub const HEADERS_MAX: usize = 64;
/// Bytes of all headers of a request.
pub const HEAD_BYTES_MAX: usize = 32 * 1_024;
/// Bytes of a request's body, and of a gRPC message.
pub const BODY_BYTES_MAX: usize = 64 * 1_024;
/// Bytes of the body of a batch.
pub const BATCH_BYTES_MAX: usize = 1_024 * 1_024;
/// Requests of a batch.
pub const BATCH_MAX: usize = 1_000;
/// Bytes of all bodies together that are kept: of those whose rest is still to come, and of batches that are not
/// answered whole. One that comes whole and is answered at once is read where it is, and does not count. One address
/// gets a quarter of it, loopback or a trusted proxy three quarters.
pub const BODIES_BYTES_MAX: usize = 64 * 1_024 * 1_024;
/// Bytes of all answers together that are made and that clients have not taken. It is shared by address like that
/// of bodies. Beyond it HTTP/2 and gRPC calls are refused before they are decided, and other connections are closed.
pub const ANSWERS_BYTES_MAX: usize = 32 * 1_024 * 1_024;
/// Bytes of answers on one connection that its client has not taken: no more is decided on it until it has.
pub const ANSWERS_PER_CONNECTION_BYTES_MAX: usize = 256 * 1_024;
/// Of these, bytes that do not count for all together, so that a client that reads is answered whatever others do.
pub const ANSWERS_FREE_BYTES: usize = 4 * 1_024;
/// Bytes of answers in the express lane that are written at once, and of a batch that are collected before it is
/// sent in pieces; the last answer may go beyond it.
pub const ANSWERS_AT_ONCE_BYTES: usize = 64 * 1_024;
/// Bytes of a piece of a batch; the last decision may go beyond it.
pub const BATCH_PIECE_BYTES: usize = 16 * 1_024;
/// Bytes of answers that the kernel takes for a connection and has not sent.
pub const KERNEL_UNSENT_BYTES_MAX: u32 = 128 * 1_024;
/// A client that does not take an answer within this is cut off, whatever it sends meanwhile.
pub const TAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Within that it must take the whole answer, or at least so many bytes; a sixteenth of it on each HTTP/2 stream.
pub const TAKE_BYTES_MIN: usize = 16 * 1_024;
/// Bytes of the name of a header, claim or descriptor in a request.
pub const NAME_BYTES_MAX: usize = 256;
/// Bytes of its value.
pub const VALUE_BYTES_MAX: usize = 4 * 1_024;
/// Headers, claims and descriptors of a request, counted by their values.
pub const PAIRS_MAX: usize = 128;
/// Requests at once on one HTTP/2 connection.
pub const STREAMS_MAX: u32 = 128;
/// Bytes of all headers of an HTTP/2 request.
pub const HTTP2_HEAD_BYTES_MAX: u32 = 16 * 1_024;
/// Streams that a client has reset before the server looked at them.
pub const PENDING_RESETS_MAX: usize = 20;
/// How often a quiet HTTP/2 connection is asked whether it is alive.
pub const PING_INTERVAL: Duration = Duration::from_secs(30);
/// How long it may take to answer.
pub const PING_TIMEOUT: Duration = Duration::from_secs(10);
/// A gRPC connection is asked to reconnect after this, give or take a tenth, so that clients find new nodes.
pub const GRPC_CONNECTION_AGE: Duration = Duration::from_secs(300);
/// Descriptors of a rate limit request.
pub const DESCRIPTORS_MAX: usize = 32;
/// Entries of a descriptor.
pub const DESCRIPTOR_ENTRIES_MAX: usize = 16;
/// Arguments of a RESP command, its name not counted.
pub const RESP_ARGS_MAX: usize = 128;
/// Bytes of a RESP argument.
pub const RESP_ARG_BYTES_MAX: usize = 4 * 1_024;
/// Bytes of RESP commands that are read before they are answered.
pub const RESP_BUFFER_MAX: usize = 64 * 1_024;
/// Bytes of one RESP command: what is held of one that is not complete, and of the next line's beginning, must
/// leave room to read on.
pub const RESP_COMMAND_BYTES_MAX: usize = RESP_BUFFER_MAX - 64;
/// Bytes of RESP answers that are collected before they are sent; the last answer may go beyond it.
pub const RESP_ANSWER_BYTES_MAX: usize = 64 * 1_024;
/// RESP commands that are answered before the answers are sent.
pub const RESP_PIPELINE_MAX: usize = 1_024;
/// Wrong passwords on one RESP connection before it is closed.
pub const RESP_AUTH_ATTEMPTS_MAX: u32 = 10;
/// Where a password is set, a RESP client that has not given it is sent away after this.
pub const RESP_AUTH_TIMEOUT: Duration = Duration::from_secs(10);
/// A quiet connection is asked by TCP whether its other end is there after this, then every
/// [`KEEPALIVE_INTERVAL`].
pub const KEEPALIVE_TIME: Duration = Duration::from_secs(60);
/// How often it is asked, four times, before it is given up.
pub const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(15);
/// The longest pause after a connection could not be accepted.
pub const ACCEPT_PAUSE_MAX: Duration = Duration::from_secs(1);
/// From being told to stop until connections are asked to end: load balancers notice meanwhile.
pub const DRAIN_NOTICE: Duration = Duration::from_millis(500);
/// How long what a RESP client still sends is passed over, so that it can read why it is sent away.
pub const RESP_LINGER: Duration = Duration::from_secs(1);
/// Requests under way have this long to end when the server shuts down.
pub const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);
/// Where nodes share their limits: RESP commands of one connection that wait for the store at once.
pub const RESP_WAITING_MAX: usize = 256;
/// There: requests of one batch that wait for the store at once.
pub const BATCH_WAITING_MAX: usize = 64;
/// Until the first attempt to reach a shared store has failed, and decisions are made without it.
pub const STORE_ATTEMPT_MAX: Duration = Duration::from_secs(1);
/// For giving leases back to a shared store when the server ends.
pub const STORE_LEAVE_MAX: Duration = Duration::from_millis(500);
/// How often files are looked at for changes.
pub const WATCH_INTERVAL: Duration = Duration::from_millis(250);
/// How long `tidegate check` waits for an answer; queues are waited for on the server, up to an hour by policy.
pub const CHECK_TIMEOUT: Duration = Duration::from_secs(30);
