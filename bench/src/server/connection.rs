//! A connection to a server, on a non-blocking socket.

use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;

use mio::net::TcpStream;
use mio::{Interest, Poll, Token};

use super::wire::{CheckedAnswer, ClientProtocol, WireError};

/// Why a connection failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ExchangeError {
    #[error("the connection failed: {0}")]
    Io(#[from] std::io::Error),
    #[error("the server closed the connection")]
    Closed,
    #[error("the server sent nothing for {0} seconds")]
    Silent(u64),
    #[error(transparent)]
    Wire(#[from] WireError),
}

/// The initial size of the receive buffer; it grows for longer responses.
const BUFFER_BYTES: usize = 16 * 1_024;

/// How many instants of requests are remembered. Responses may come in another order than the requests, but
/// not further apart than this.
const SENT_INSTANTS: usize = 4_096;

/// A connection, and the instants at which its requests were sent.
pub(crate) struct Connection {
    stream: TcpStream,
    protocol: Box<dyn ClientProtocol>,
    received_bytes: Vec<u8>,
    /// How many bytes of `received_bytes` are filled.
    filled: usize,
    out: Vec<u8>,
    sent_at: Vec<u64>,
    sent: u32,
    /// Requests without a response so far.
    pub(crate) in_flight: usize,
}

impl Connection {
    /// Connects, and writes the preface of the protocol.
    pub(crate) fn open(
        address: SocketAddr,
        mut protocol: Box<dyn ClientProtocol>,
        poll: &Poll,
        number: usize,
    ) -> Result<Connection, ExchangeError> {
        let stream = std::net::TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        let mut stream = TcpStream::from_std(stream);
        poll.registry().register(&mut stream, Token(number), Interest::READABLE | Interest::WRITABLE)?;
        let mut out = Vec::with_capacity(BUFFER_BYTES);
        protocol.write_preface(&mut out);
        let (received_bytes, sent_at) = (vec![0; BUFFER_BYTES], vec![0; SENT_INSTANTS]);
        Ok(Connection { stream, protocol, received_bytes, filled: 0, out, sent_at, sent: 0, in_flight: 0 })
    }

    /// Writes a request for a key; [`Connection::flush`] sends it. `at` is when it was, or should have been, sent.
    pub(crate) fn write_request(&mut self, key: u32, at: u64) {
        self.protocol.write_request(key, &mut self.out);
        self.sent_at[self.sent as usize % SENT_INSTANTS] = at;
        self.sent = self.sent.wrapping_add(1);
        self.in_flight += 1;
    }

    /// When the request of this response was sent.
    pub(crate) fn sent_at(&self, answer: CheckedAnswer) -> u64 {
        self.sent_at[answer.request as usize % SENT_INSTANTS]
    }

    /// Sends as much as the socket accepts; the rest is sent when it is writable again.
    pub(crate) fn flush(&mut self) -> Result<(), ExchangeError> {
        while !self.out.is_empty() {
            match self.stream.write(&self.out) {
                Ok(sent) => drop(self.out.drain(..sent)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Receives what is available, and adds the responses in it.
    pub(crate) fn receive(&mut self, answers: &mut Vec<CheckedAnswer>) -> Result<(), ExchangeError> {
        loop {
            if self.filled == self.received_bytes.len() {
                self.received_bytes.resize(2 * self.received_bytes.len(), 0);
            }
            let free = self.received_bytes.len() - self.filled;
            let received = match self.stream.read(&mut self.received_bytes[self.filled..]) {
                Ok(0) => return Err(ExchangeError::Closed),
                Ok(received) => received,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error.into()),
            };
            self.filled += received;
            let before = answers.len();
            let taken = self.protocol.receive(&self.received_bytes[..self.filled], &mut self.out, answers)?;
            self.received_bytes.copy_within(taken..self.filled, 0);
            self.filled -= taken;
            self.in_flight -= answers.len() - before;
            // The buffer was not filled, so the socket is empty; another event reports more data.
            if received < free {
                return Ok(());
            }
        }
    }
}
