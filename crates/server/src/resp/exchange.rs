//! One client's commands and the answers to them, without the connection that carries them.

use std::sync::Arc;
use std::task::{Context, Poll};

use tidegate::{Clock, Nanos};

use super::decode::{Decoder, Step};
use super::later::Later;
use super::reply::Reply;
use super::session::Session;
use crate::bounds::{RESP_ANSWER_BYTES_MAX, RESP_WAITING_MAX};
use crate::node::Node;
use crate::observe::Protocol;
use crate::settings::Listener;

/// What the commands of one read have in common.
#[derive(Debug)]
pub(super) struct Batch<'n> {
    pub(super) node: &'n Node,
    /// The clock is read once for all of them.
    pub(super) now: Nanos,
    /// How often buckets without a policy have decided; told when all are answered.
    pub(super) decisions: usize,
    /// Where decisions go that must be waited for; without it they are made at once.
    pub(super) later: Option<&'n mut Later>,
}

/// How far the input was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Bytes that are done with; the next input begins with the others.
    pub used: usize,
    /// Commands that were answered.
    pub commands: usize,
    /// Is there more to answer in the input, once the answers are sent?
    pub paused: bool,
}

/// A client's side of the protocol: what it has sent so far, and who it is.
#[derive(Debug)]
pub struct Exchange {
    decoder: Decoder,
    session: Session,
    later: Option<Later>,
}

impl Exchange {
    /// With a client that has said nothing yet, where limits are this node's own: every command is answered at
    /// once.
    pub fn new(node: &Node) -> Exchange {
        Exchange { decoder: Decoder::new(), session: Session::new(node), later: None }
    }

    /// The same for a node whose limits may be shared: then some answers must be waited for.
    pub(super) fn with(node: &Arc<Node>) -> Exchange {
        let later = node.shared().map(|_| Later::new(Arc::clone(node)));
        Exchange { later, ..Exchange::new(node) }
    }

    /// Waits for the answers that are not there yet, and writes them. Nothing more is to be answered before.
    pub(super) fn poll_waiting(&mut self, cx: &mut Context<'_>, out: &mut Vec<u8>) -> Poll<()> {
        self.later.as_mut().map_or(Poll::Ready(()), |later| later.poll(cx, out))
    }

    /// Are there answers that must be waited for?
    pub(super) fn is_waiting(&self) -> bool {
        self.later.as_ref().is_some_and(Later::is_waiting)
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
    pub fn answer(&mut self, node: &Node, input: &[u8], most: usize, out: &mut Vec<u8>) -> Progress {
        let most = if self.later.is_some() { most.min(RESP_WAITING_MAX) } else { most };
        let now = node.limiter.clock().now();
        let mut batch = Batch { node, now, decisions: 0, later: self.later.as_mut() };
        let mut progress = Progress { used: 0, commands: 0, paused: false };
        while progress.used < input.len() && !self.session.is_over {
            if progress.commands == most || out.len() >= RESP_ANSWER_BYTES_MAX {
                progress.paused = true;
                break;
            }
            let rest = &input[progress.used..];
            match self.decoder.step(rest) {
                Step::Command(bytes) => {
                    self.session.answer(&mut batch, self.decoder.args(rest), out);
                    progress.used += bytes;
                    progress.commands += 1;
                }
                Step::Refused(bytes, refusal) => {
                    reply(&self.session, out).error(format_args!("ERR {refusal}"));
                    progress.used += bytes;
                    progress.commands += 1;
                }
                Step::More(bytes) => {
                    progress.used += bytes;
                    break;
                }
                Step::Broken(broken) => {
                    node.metrics.protocol_error(Listener::Resp);
                    reply(&self.session, out).error(format_args!("ERR Protocol error: {broken}"));
                    self.session.is_over = true;
                }
            }
        }
        batch.tell();
        if let Some(later) = &mut self.later {
            later.keep(out);
        }
        progress
    }

    /// The version of the protocol in use: 2 or 3.
    pub fn version(&self) -> u8 {
        self.session.version as u8
    }
}

fn reply<'o>(session: &Session, out: &'o mut Vec<u8>) -> Reply<'o> {
    Reply { out, version: session.version }
}

impl Batch<'_> {
    /// Tells the metrics what was decided, and how long it took: each an equal share of the whole.
    fn tell(&self) {
        if self.decisions == 0 {
            return;
        }
        let Node { metrics, limiter, .. } = self.node;
        let took = limiter.clock().now().saturating_sub(self.now);
        metrics.decisions_took(self.decisions, took);
        metrics.asked(Protocol::Resp, self.decisions);
    }
}
