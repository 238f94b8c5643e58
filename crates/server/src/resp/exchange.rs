//! One client's commands and the answers to them, without the connection that carries them.

use std::task::{Context, Poll};

use tidegate::{Clock, Later, Nanos};

use super::later::PendingReplies;
use super::protocol::decode::{DecodeStep, Decoder};
use super::protocol::reply::ReplyWriter;
use super::session::Session;
use crate::bounds::{RESP_ANSWER_BYTES_MAX, RESP_WAITING_MAX};
use crate::node::Node;
use crate::observe::Protocol;
use crate::settings::Listener;

/// What the commands of one read have in common.
#[derive(Debug)]
pub(super) struct Batch<'n, 'w> {
    pub(super) node: &'n Node,
    /// The clock is read once for all of them.
    pub(super) now: Nanos,
    /// How often ad-hoc buckets have decided; told when all are answered.
    pub(super) decisions: usize,
    /// Where answers go that must be waited for.
    waiting: &'w mut PendingReplies<'n>,
}

/// How far the input was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExchangeProgress {
    /// Bytes that are done with; the next input begins with the others.
    pub used: usize,
    /// Commands that were answered.
    pub commands: usize,
    /// Is there more to answer in the input, once the answers are sent?
    pub paused: bool,
}

/// A client's side of the protocol: what it has sent so far, and who it is.
#[derive(Debug)]
pub struct Exchange<'n> {
    node: &'n Node,
    decoder: Decoder,
    session: Session,
    waiting: PendingReplies<'n>,
}

impl<'n> Exchange<'n> {
    /// With a client that has said nothing yet.
    pub fn new(node: &'n Node) -> Exchange<'n> {
        Exchange {
            node,
            decoder: Decoder::new(),
            session: Session::new(node),
            waiting: PendingReplies::default(),
        }
    }

    /// Waits for the answers that are not there yet, and writes them. Nothing more is to be answered before.
    pub(super) fn poll_waiting(&mut self, cx: &mut Context<'_>, out: &mut Vec<u8>) -> Poll<()> {
        self.waiting.poll(cx, out)
    }

    /// Are there answers that must be waited for?
    pub(super) fn is_waiting(&self) -> bool {
        self.waiting.len() > 0
    }

    /// Is there nothing more to say?
    pub fn is_over(&self) -> bool {
        self.session.is_over
    }

    /// May the client ask for decisions?
    pub fn has_access(&self) -> bool {
        self.session.has_access
    }

    /// Answers the commands in the input, at most so many, and no more than can be sent at once.
    pub fn answer(&mut self, input: &[u8], most: usize, out: &mut Vec<u8>) -> ExchangeProgress {
        let (node, now) = (self.node, self.node.clock().now());
        let mut batch = Batch { node, now, decisions: 0, waiting: &mut self.waiting };
        let mut progress = ExchangeProgress { used: 0, commands: 0, paused: false };
        while progress.used < input.len() && !self.session.is_over {
            let is_full = out.len() >= RESP_ANSWER_BYTES_MAX || batch.waiting.len() >= RESP_WAITING_MAX;
            if progress.commands == most || is_full {
                progress.paused = true;
                break;
            }
            let rest = &input[progress.used..];
            match self.decoder.step(rest) {
                DecodeStep::Command(bytes) => {
                    self.session.answer(&mut batch, self.decoder.args(rest), out);
                    progress.used += bytes;
                    progress.commands += 1;
                }
                DecodeStep::Refused(bytes, refusal) => {
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
    /// Answers with what is waited for, in its turn.
    pub(super) fn wait<T: Send + 'n>(
        &mut self,
        later: Later<'n, T>,
        write: fn(T, &mut ReplyWriter<'_>),
        reply: &mut ReplyWriter<'_>,
    ) {
        self.waiting.add(later, write, reply);
    }
}
