//! What the server does with one call, and the record of it.

use tidegate_core::Nanos;
use tidegate_redis::{CallAnswer, LinkError, ScriptCall};

use super::message::Message;
use super::{Network, sabotaged};
use crate::Model;
use crate::invariants::token_record::CallOrigin;
use crate::model::OutOfMemory;

impl Network {
    /// The server executes a call.
    pub(super) fn execute(
        &self,
        model: &mut Model,
        call: &ScriptCall,
        at: Nanos,
    ) -> Result<CallAnswer, LinkError> {
        if self.refuses_candidate && call.entries.iter().all(|entry| self.record.is_of_candidate(&entry.key))
        {
            return Err(LinkError::Refused("a policy that is tried out".to_owned()));
        }
        sabotaged::call(self.sabotage, model, call, at).map_err(refused)
    }

    /// Notes what a call has done.
    pub(super) fn note_served(
        &self,
        message: &Message,
        to_old: bool,
        call: &ScriptCall,
        answer: &CallAnswer,
    ) {
        let served = format_args!("is served: {:?} {:?}", answer.outcome, answer.leased);
        self.world.note(Some(message.from), served);
        let caller = CallOrigin { task: message.task, node: message.from, sent: message.sent, to_old };
        self.record.executed(caller, self.world.now(), call, answer);
        if sabotaged::is_repeated_later(self.sabotage, call) {
            self.repeat_later(Box::new(call.clone()));
        }
    }
}

/// What the server says that is out of memory.
pub(super) fn refused(error: OutOfMemory) -> LinkError {
    LinkError::Refused(error.to_string())
}
