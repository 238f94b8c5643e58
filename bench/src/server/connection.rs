//! A connection to a server, on a socket that never blocks.

use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;

use mio::net::TcpStream;
use mio::{Interest, Poll, Token};

use super::wire::{CheckedAnswer, Dialogue, WireError};

/// Why there is no conversation.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TalkError {
    #[error("the connection failed: {0}")]
    Io(#[from] std::io::Error),
    #[error("the server closed the connection")]
    Closed,
    #[error("the server said nothing for {0} seconds")]
    Silent(u64),
    #[error(transparent)]
    Wire(#[from] WireError),
}

/// Room for what is received at once; grows where an answer is longer.
const ROOM: usize = 16 * 1_024;

/// Instants of questions that are remembered. Answers may come in another order than the questions, but
/// not in one that is this far off.
const REMEMBERED: usize = 4_096;

/// A connection, and when its questions were asked.
pub(crate) struct Connection {
    stream: TcpStream,
    dialogue: Box<dyn Dialogue>,
    heard: Vec<u8>,
    /// How much of `heard` was received.
    filled: usize,
    out: Vec<u8>,
    asked_at: Vec<u64>,
    asked: u32,
    /// Questions that are not answered yet.
    pub(crate) under_way: usize,
}

impl Connection {
    /// Connects, and greets as the protocol wants it.
    pub(crate) fn open(
        address: SocketAddr,
        mut dialogue: Box<dyn Dialogue>,
        poll: &Poll,
        number: usize,
    ) -> Result<Connection, TalkError> {
        let stream = std::net::TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        let mut stream = TcpStream::from_std(stream);
        poll.registry().register(&mut stream, Token(number), Interest::READABLE | Interest::WRITABLE)?;
        let mut out = Vec::with_capacity(ROOM);
        dialogue.greet(&mut out);
        let (heard, asked_at) = (vec![0; ROOM], vec![0; REMEMBERED]);
        Ok(Connection { stream, dialogue, heard, filled: 0, out, asked_at, asked: 0, under_way: 0 })
    }

    /// Asks about a key; [`Connection::flush`] sends it. `at` is when it was, or should have been, asked.
    pub(crate) fn ask(&mut self, key: u32, at: u64) {
        self.dialogue.ask(key, &mut self.out);
        self.asked_at[self.asked as usize % REMEMBERED] = at;
        self.asked = self.asked.wrapping_add(1);
        self.under_way += 1;
    }

    /// When the question of this answer was asked.
    pub(crate) fn asked_at(&self, answer: CheckedAnswer) -> u64 {
        self.asked_at[answer.question as usize % REMEMBERED]
    }

    /// Sends what is to be sent, as far as the socket takes it; the rest goes when it is writable again.
    pub(crate) fn flush(&mut self) -> Result<(), TalkError> {
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

    /// Receives what there is, and adds the answers in it.
    pub(crate) fn listen(&mut self, answers: &mut Vec<CheckedAnswer>) -> Result<(), TalkError> {
        loop {
            if self.filled == self.heard.len() {
                self.heard.resize(2 * self.heard.len(), 0);
            }
            let room = self.heard.len() - self.filled;
            let received = match self.stream.read(&mut self.heard[self.filled..]) {
                Ok(0) => return Err(TalkError::Closed),
                Ok(received) => received,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error.into()),
            };
            self.filled += received;
            let before = answers.len();
            let taken = self.dialogue.hear(&self.heard[..self.filled], &mut self.out, answers)?;
            self.heard.copy_within(taken..self.filled, 0);
            self.filled -= taken;
            self.under_way -= answers.len() - before;
            // Less than there was room for: that was all, and more will be told by another event.
            if received < room {
                return Ok(());
            }
        }
    }
}
