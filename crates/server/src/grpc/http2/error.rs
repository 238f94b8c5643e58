//! How HTTP/2 names what went wrong.

/// The error codes of HTTP/2 (RFC 9113, section 7) that the server sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Http2Code {
    NoError = 0,
    Protocol = 1,
    FlowControl = 3,
    StreamClosed = 5,
    FrameSize = 6,
    RefusedStream = 7,
    Cancel = 8,
    Compression = 9,
    EnhanceYourCalm = 11,
}

/// What a frame breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Http2Violation {
    /// The connection cannot go on: GOAWAY is sent, and it ends.
    Connection(Http2Code),
    /// The client passes a bound, which has this name: GOAWAY is sent, and the connection ends.
    Bound(&'static str),
    /// Only this stream ends: RST_STREAM is sent.
    Stream(u32, Http2Code),
}
