//! Answers the commands of one client, without IO.

use std::task::{Context, Poll};

use tidegate::{Clock, Later, Nanos};

use super::pending::PendingReplies;
use super::protocol::decode::{DecodeStep, Decoder};
use super::protocol::reply::ReplyWriter;
use super::session::Session;
use crate::bounds::{RESP_REPLIES_BYTES_MAX, RESP_WAITING_MAX};
use crate::node::Node;
use crate::observe::Protocol;
use crate::settings::Listener;

/// The commands of one read.
#[derive(Debug)]
pub(super) struct Batch<'n, 'w> {
    pub(super) node: &'n Node,
    /// The clock, which is read once for all of them.
    pub(super) now: Nanos,
    /// How many decisions ad hoc buckets made; reported to the metrics once, when all commands are answered.
    pub(super) decisions: usize,
    /// The replies that wait for the store.
    waiting: &'w mut PendingReplies<'n>,
}

/// How much of the input was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExchangeProgress {
    /// Bytes of input that are no longer needed; the next input must begin with the rest.
    pub used: usize,
    /// Commands that were answered.
    pub commands: usize,
    /// Does the input have more commands, to be answered once the replies are sent?
    pub paused: bool,
}

/// The protocol state of one client: its decoder, its session and its pending replies.
#[derive(Debug)]
pub struct Exchange<'n> {
    node: &'n Node,
    decoder: Decoder,
    session: Session,
    waiting: PendingReplies<'n>,
}

impl<'n> Exchange<'n> {
    /// The state of a new client.
    pub fn new(node: &'n Node) -> Exchange<'n> {
        Exchange {
            node,
            decoder: Decoder::new(),
            session: Session::new(node),
            waiting: PendingReplies::default(),
        }
    }

    /// Waits for the pending replies and writes them. Until then, [`Exchange::answer`] must not be called.
    pub(super) fn poll_waiting(&mut self, cx: &mut Context<'_>, out: &mut Vec<u8>) -> Poll<()> {
        self.waiting.poll(cx, out)
    }

    /// Are replies pending?
    pub(super) fn is_waiting(&self) -> bool {
        self.waiting.len() > 0
    }

    /// Must the connection be closed, once the replies are sent?
    pub fn is_over(&self) -> bool {
        self.session.is_over
    }

    /// Has the client authenticated, or is no password set?
    pub fn has_access(&self) -> bool {
        self.session.has_access
    }

    /// How many bytes of commands are kept between `MULTI` and the last reply of `EXEC`.
    pub(super) fn kept_bytes(&self) -> usize {
        self.session.kept_bytes()
    }

    /// Is the client between `MULTI` and `EXEC`?
    pub(super) fn is_in_transaction(&self) -> bool {
        self.session.is_in_transaction()
    }

    /// Answers the commands in the input, at most `most`, and no more than [`RESP_REPLIES_BYTES_MAX`] of replies.
    pub fn answer(&mut self, input: &[u8], most: usize, out: &mut Vec<u8>) -> ExchangeProgress {
        let (node, now) = (self.node, self.node.clock().now());
        let mut batch = Batch { node, now, decisions: 0, waiting: &mut self.waiting };
        let mut progress = ExchangeProgress { used: 0, commands: 0, paused: false };
        while (self.session.is_running() || progress.used < input.len()) && !self.session.is_over {
            let is_full = out.len() >= RESP_REPLIES_BYTES_MAX || batch.waiting.len() >= RESP_WAITING_MAX;
            if progress.commands == most || is_full {
                progress.paused = true;
                break;
            }
            if self.session.is_running() {
                self.session.run_next(&mut batch, out);
                progress.commands += 1;
                continue;
            }
            let rest = &input[progress.used..];
            match self.decoder.step(rest) {
                DecodeStep::Command(bytes) => {
                    self.session.answer(&mut batch, self.decoder.args(rest), out);
                    progress.used += bytes;
                    progress.commands += 1;
                }
                DecodeStep::Refused(bytes, refusal) => {
                    self.session.refuse_transaction();
                    reply(&self.session, out).error(format_args!("ERR {refusal}"));
                    progress.used += bytes;
                    progress.commands += 1;
                }
                DecodeStep::More(bytes) => {
                    progress.used += bytes;
                    break;
                }
                DecodeStep::Broken(broken) => {
                    node.metrics().protocol_error(Listener::Resp);
                    reply(&self.session, out).error(format_args!("ERR Protocol error: {broken}"));
                    self.session.is_over = true;
                }
            }
        }
        node.measure_many(Protocol::Resp, batch.decisions, now);
        self.waiting.keep(out);
        progress
    }

    /// The version of the protocol in use: 2 or 3.
    pub fn version(&self) -> u8 {
        self.session.version as u8
    }
}

fn reply<'o>(session: &Session, out: &'o mut Vec<u8>) -> ReplyWriter<'o> {
    ReplyWriter { out, version: session.version }
}

impl<'n> Batch<'n, '_> {
    /// Adds a reply that waits for the store. Replies are sent in the order of their commands.
    pub(super) fn wait<T: Send + 'n>(
        &mut self,
        later: Later<'n, T>,
        write: fn(T, &mut ReplyWriter<'_>),
        reply: &mut ReplyWriter<'_>,
    ) {
        self.waiting.add(later, write, reply);
    }
}
