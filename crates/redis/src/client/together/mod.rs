//! Calls that begin at the same time, sent as one.
//!
//! A candidate decides the same requests as the policy in force, by buckets of its own on the same server. Two script
//! calls would be nearly twice the work for the server and for the connection, so they are one call of two groups.
//!
//! [`send_together`] polls the futures of such calls. While it polls them, plain calls to its client that begin are
//! gathered and not sent. If there are any, it polls all of them again: then the one that came first sends all, and when
//! the reply arrives, it passes the replies on.

mod reply_slot;

use std::cell::RefCell;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use redis::Value;
use smallvec::SmallVec;

use crate::calls::wire::{self, EncodedCall, PlainCall, ReplyLayout};
use crate::calls::{LinkError, ScriptCall};
pub(super) use reply_slot::CallReply;
use reply_slot::ReplySlot;

thread_local! {
    /// What is polled together on this thread at the moment.
    static POLLED: RefCell<Option<PolledTogether>> = const { RefCell::new(None) };
}

/// What happens while futures are polled together.
struct PolledTogether {
    /// Identifies the client whose calls are gathered; `None` once no more are.
    client: Option<usize>,
    gathered: Option<Arc<GatheredCalls>>,
    /// Those that have got their replies. Most of them take them before the poll ends, and need not be woken then.
    passed_on: SmallVec<[Arc<ReplySlot>; 2]>,
}

/// Calls of one client that are gathered, and then sent as one.
#[derive(Debug)]
pub(super) struct GatheredCalls(Mutex<GatherState>);

#[derive(Debug)]
struct GatherState {
    /// All calls so far as one; `None` once they are sent.
    joined: Option<PlainCall>,
    others: WaitingCalls,
    is_complete: bool,
    /// Of the calls that wait until no more are gathered.
    wakers: SmallVec<[Waker; 2]>,
}

/// Where calls wait for their replies, in the order of the calls, without the first.
#[derive(Debug, Default)]
struct WaitingCalls(SmallVec<[Arc<ReplySlot>; 2]>);

/// How a call is sent.
pub(super) enum SendRole {
    /// By itself.
    Alone(EncodedCall),
    /// By itself, after those that are gathered: the call that somebody waits for is the first of them.
    After(Arc<GatheredCalls>, EncodedCall),
    /// It sends all that are gathered.
    First(Arc<GatheredCalls>),
    /// The first one sends it.
    Joined(Arc<ReplySlot>),
}

impl SendRole {
    /// Of a call that a client begins now.
    pub(super) fn of(call: &ScriptCall, client: usize) -> SendRole {
        let plain = PlainCall::of(call);
        let encode =
            |plain: Option<PlainCall>| plain.map_or_else(|| wire::encode_general(call), PlainCall::encode);
        POLLED.with_borrow_mut(|polled| match polled {
            Some(polled) if polled.client == Some(client) => polled.add(plain, encode),
            _ => SendRole::Alone(encode(plain)),
        })
    }
}

/// The calls of a client that are gathered at the moment. Whatever else begins now is sent after them.
pub(super) fn gathering(client: usize) -> Option<Arc<GatheredCalls>> {
    POLLED.with_borrow(|polled| {
        let polled = polled.as_ref().filter(|polled| polled.client == Some(client))?;
        polled.gathered.clone()
    })
}

impl PolledTogether {
    /// `call` is `None` if it is no plain one.
    fn add(
        &mut self,
        call: Option<PlainCall>,
        encode: impl Fn(Option<PlainCall>) -> EncodedCall,
    ) -> SendRole {
        match (&self.gathered, call) {
            (None, None) => SendRole::Alone(encode(None)),
            (None, Some(call)) => {
                let first = self.gathered.insert(Arc::new(GatheredCalls::beginning_with(call)));
                SendRole::First(Arc::clone(first))
            }
            (Some(gathered), None) => SendRole::After(Arc::clone(gathered), encode(None)),
            (Some(gathered), Some(call)) => match gathered.join(call) {
                Ok(slot) => SendRole::Joined(slot),
                Err(call) => SendRole::After(Arc::clone(gathered), encode(Some(call))),
            },
        }
    }
}

impl GatheredCalls {
    fn beginning_with(call: PlainCall) -> GatheredCalls {
        GatheredCalls(Mutex::new(GatherState {
            joined: Some(call),
            others: WaitingCalls::default(),
            is_complete: false,
            wakers: SmallVec::new(),
        }))
    }

    /// Adds a call, and returns where it waits for its reply.
    ///
    /// # Errors
    /// Returns the call if it cannot be one with the others.
    fn join(&self, call: PlainCall) -> Result<Arc<ReplySlot>, PlainCall> {
        let mut state = self.state();
        let joined = state.joined.as_mut().expect("they are sent only when no more are gathered");
        joined.join(call)?;
        let slot = Arc::new(ReplySlot::default());
        state.others.0.push(Arc::clone(&slot));
        Ok(slot)
    }

    fn state(&self) -> MutexGuard<'_, GatherState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Resolves once no more are gathered.
    pub(super) async fn complete(&self) {
        poll_fn(|context| {
            let mut state = self.state();
            if !state.is_complete {
                state.wakers.push(context.waker().clone());
                return Poll::Pending;
            }
            // Calls of one task have equal wakers, so each removes only one.
            let own = state.wakers.iter().position(|waker| waker.will_wake(context.waker()));
            own.map(|own| state.wakers.swap_remove(own));
            Poll::Ready(())
        })
        .await;
    }

    /// No more are gathered. Wakes those that wait for that: most were polled meanwhile, and wait no longer.
    fn end(&self) {
        let wakers = {
            let mut state = self.state();
            state.is_complete = true;
            std::mem::take(&mut state.wakers)
        };
        wakers.into_iter().for_each(Waker::wake);
    }

    /// All calls as one, and those that wait for their replies. Only for the first one, once they are complete.
    pub(super) fn take(&self) -> (PlainCall, SentCalls) {
        let mut state = self.state();
        let call = state.joined.take().expect("only the first call takes them, once");
        let sent = SentCalls { layout: call.reply_layout(), others: std::mem::take(&mut state.others) };
        (call, sent)
    }
}

/// Calls that were sent as one.
pub(super) struct SentCalls {
    layout: ReplyLayout,
    others: WaitingCalls,
}

impl SentCalls {
    /// Is it only the first call?
    pub(super) fn is_only_first(&self) -> bool {
        self.others.0.is_empty()
    }

    /// Passes the replies on, and returns that to the first call. An error is the error of all of them; but the reply to
    /// all can have an error in place of the reply to one, so each is read by `read`.
    pub(super) fn pass_on(self, reply: CallReply, read: impl Fn(Value) -> CallReply) -> CallReply {
        if self.is_only_first() {
            return reply;
        }
        match reply.and_then(|reply| self.layout.split(reply)) {
            Ok(replies) => {
                let mut replies = replies.into_iter();
                let mut next = || read(replies.next().unwrap_or_default());
                let first = next();
                self.others.answer(next);
                first
            }
            Err(error) => Err(self.fail(error)),
        }
    }

    /// The first call failed, and the others with it.
    pub(super) fn fail(self, error: LinkError) -> LinkError {
        self.others.answer(|| Err(LinkError::SentWith(Box::new(error.clone()))));
        error
    }
}

impl WaitingCalls {
    /// Gives each its reply. They stay here until all have been woken: if one panics, the others are still told.
    fn answer(mut self, mut next: impl FnMut() -> CallReply) {
        self.0.iter().for_each(|slot| slot.put(next()));
        for slot in &self.0 {
            let is_polled = POLLED.with_borrow_mut(|polled| {
                let polled = polled.as_mut()?;
                polled.passed_on.push(Arc::clone(slot));
                Some(())
            });
            if is_polled.is_none() {
                slot.wake();
            }
        }
        self.0.clear();
    }
}

impl Drop for WaitingCalls {
    /// The call that would have passed their replies on was cancelled.
    fn drop(&mut self) {
        self.0.iter().for_each(|slot| slot.cancel());
    }
}

/// Runs `poll`, which polls futures of calls to a client. The plain ones that begin are sent as one; then it is run twice,
/// and must poll all that are pending.
pub(super) fn send_together(client: usize, poll: &mut dyn FnMut()) {
    let polled = PolledTogether { client: Some(client), gathered: None, passed_on: SmallVec::new() };
    let _polling = Polling { outer: POLLED.replace(Some(polled)) };
    poll();
    let gathered = POLLED.with_borrow_mut(|polled| {
        let polled = polled.as_mut()?;
        polled.client = None;
        polled.gathered.clone()
    });
    if let Some(gathered) = gathered {
        gathered.state().is_complete = true;
        poll();
    }
}

/// Ends the polling, also if it panics.
struct Polling {
    outer: Option<PolledTogether>,
}

impl Drop for Polling {
    fn drop(&mut self) {
        let Some(ended) = POLLED.replace(self.outer.take()) else { return };
        if let Some(gathered) = ended.gathered {
            // A poll may have panicked, or left some out: those are woken, and are sent when they are polled again.
            gathered.end();
        }
        ended.passed_on.iter().for_each(|slot| slot.wake());
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::pin::pin;
    use std::task::{Context, Wake};

    use super::*;

    struct PanicsWhenWoken;

    impl Wake for PanicsWhenWoken {
        fn wake(self: Arc<Self>) {
            panic!("on purpose");
        }
    }

    #[test]
    fn one_that_panics_when_it_is_woken_keeps_no_reply_from_the_others() {
        let slots: [Arc<ReplySlot>; 3] = Default::default();
        let waker = Waker::from(Arc::new(PanicsWhenWoken));
        {
            let mut waiting = pin!(slots[0].reply());
            assert!(waiting.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        }
        let waiting = WaitingCalls(slots.iter().cloned().collect());
        let answer = || waiting.answer(|| Ok(Value::Okay));
        assert!(catch_unwind(AssertUnwindSafe(answer)).is_err());
        for slot in slots {
            let reply = pin!(slot.reply()).poll(&mut Context::from_waker(Waker::noop()));
            assert_eq!(reply, Poll::Ready(Ok(Value::Okay)));
        }
    }

    #[test]
    fn a_reply_that_cannot_be_made_cancels_those_that_wait_for_it() {
        let slots: [Arc<ReplySlot>; 2] = Default::default();
        let waiting = WaitingCalls(slots.iter().cloned().collect());
        assert!(catch_unwind(AssertUnwindSafe(|| waiting.answer(|| panic!("on purpose")))).is_err());
        for slot in slots {
            let reply = pin!(slot.reply()).poll(&mut Context::from_waker(Waker::noop()));
            assert_eq!(reply, Poll::Ready(Err(LinkError::Cancelled)));
        }
    }
}
