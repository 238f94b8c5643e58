//! The server's side of HTTP/2 (RFC 9113), as much of it as gRPC needs.
//!
//! A call of the rate limit service is so short that a general library for HTTP/2 took more time than its decision. This
//! one reads frames in place, keeps only the headers that gRPC needs, writes responses of constant headers, and sends
//! all responses to one read with one write. It knows nothing about sockets: [`session`] has the state of a connection,
//! [`receive`] handles the frames of the client, [`send`] sends responses within the [`window`]s, and [`call_stream`]
//! is what the code that answers a call sees of it. [`frame`] and [`hpack`] are the encodings; [`head`] checks the
//! headers of a request.
//!
//! What a client can make the server hold or do is bounded: streams by their number, bodies by the windows, header
//! blocks by bytes and frames, streams that are reset unanswered by [`resets`], and frames without a call by their
//! number. Frames that the server sends in return count as unread responses: while there are too many, nothing more is
//! read.

pub(super) mod call_stream;
mod error;
mod frame;
pub(super) mod head;
pub(super) mod hpack;
mod receive;
mod resets;
mod send;
pub(super) mod session;
mod stream;
mod trial;
mod window;

pub use trial::Http2Trial;

/// What every client sends first.
pub(super) const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

#[cfg(test)]
mod tests;
