//! Answers that must be waited for, since nodes share the limits: many at once, sent in their order.
//!
//! What one read has brought is asked together, so that a pipeline costs about as long as one command.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use tokio::task::JoinHandle;

use super::decode::{Args, OwnedArgs};
use super::reply::{Reply, Version};
use super::{check, throttle};
use crate::node::Node;

/// A command that asks for a decision.
#[derive(Clone, Copy, Debug)]
pub(super) enum Question {
    Throttle,
    Check,
}

/// Answers that are waited for.
#[derive(Debug)]
pub(super) struct Later {
    node: Arc<Node>,
    /// Each with what is to be sent before it.
    waiting: VecDeque<(Vec<u8>, JoinHandle<Vec<u8>>)>,
    /// What was waited for, and for what comes after it.
    done: Vec<u8>,
    /// What is to be sent after all of them.
    rest: Vec<u8>,
}

impl Later {
    pub(super) fn new(node: Arc<Node>) -> Later {
        Later { node, waiting: VecDeque::new(), done: Vec::new(), rest: Vec::new() }
    }

    /// Is any answer waited for?
    pub(super) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Begins to decide. What needs no waiting is answered at once, behind those that do.
    pub(super) fn ask(&mut self, question: Question, args: Args<'_>, reply: &mut Reply<'_>) {
        let node = Arc::clone(&self.node);
        let mut answer = Box::pin(answer(node, question, args.to_owned(), reply.version));
        // Asked once here, so that commands reach the store in their order.
        match answer.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(bytes) => reply.out.extend_from_slice(&bytes),
            // Whoever goes away has asked: it is decided all the same.
            Poll::Pending => self.waiting.push_back((std::mem::take(reply.out), tokio::spawn(answer))),
        }
    }

    /// Keeps what is written until those before it are answered.
    pub(super) fn keep(&mut self, out: &mut Vec<u8>) {
        if self.is_waiting() {
            self.rest = std::mem::take(out);
        }
    }

    /// Writes what was waited for, once all of it is there.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, out: &mut Vec<u8>) -> Poll<()> {
        while let Some((before, answer)) = self.waiting.front_mut() {
            let said = ready!(Pin::new(answer).poll(cx));
            self.done.append(before);
            match said {
                Ok(bytes) => self.done.extend_from_slice(&bytes),
                // The log tells of it.
                Err(_) => Reply { out: &mut self.done, version: Version::Two }
                    .error(format_args!("ERR a fault in the server: this command has no answer")),
            }
            self.waiting.pop_front();
        }
        out.append(&mut self.done);
        out.append(&mut self.rest);
        Poll::Ready(())
    }
}

/// The answer to one command.
async fn answer(node: Arc<Node>, question: Question, args: OwnedArgs, version: Version) -> Vec<u8> {
    let mut out = Vec::new();
    let mut reply = Reply { out: &mut out, version };
    match question {
        Question::Throttle => throttle::answer_later(&node, args.as_args(), &mut reply).await,
        Question::Check => check::answer_later(&node, args.as_args(), &mut reply).await,
    }
    out
}
