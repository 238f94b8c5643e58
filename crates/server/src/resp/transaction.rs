//! The commands between `MULTI` and `EXEC`. Client libraries wrap pipelines in these by default.
//!
//! Commands are only kept until `EXEC`, and none is charged before that. Then they are run in order, like the commands
//! of a pipeline: other clients may be answered in between.

use super::protocol::decode::{ArgRange, CommandArgs};
use crate::bounds::{RESP_QUEUED_BYTES_MAX, RESP_QUEUED_MAX};

/// Commands that wait for `EXEC`, or that it has begun to run.
#[derive(Debug, Default)]
pub(super) struct Transaction {
    /// The arguments of all commands, one after the other.
    bytes: Vec<u8>,
    args: Vec<ArgRange>,
    /// For each command, the end of its arguments in `args`.
    ends: Vec<usize>,
    /// Was a command refused? Then `EXEC` runs none.
    is_refused: bool,
    /// How many commands have been run.
    done: usize,
}

/// The transaction would hold too much.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too much in one transaction: at most {RESP_QUEUED_MAX} commands and {RESP_QUEUED_BYTES_MAX} bytes")]
pub(super) struct TransactionFull;

impl Transaction {
    /// Adds a command, unless one was refused: then none will run.
    ///
    /// # Errors
    /// If that is more than a transaction may hold.
    pub(super) fn add(&mut self, command: CommandArgs<'_>) -> Result<(), TransactionFull> {
        if self.is_refused {
            return Ok(());
        }
        let bytes: usize = command.iter().map(|arg| arg.len() + size_of::<ArgRange>()).sum();
        if self.ends.len() >= RESP_QUEUED_MAX || self.size() + bytes > RESP_QUEUED_BYTES_MAX {
            return Err(TransactionFull);
        }
        for arg in command.iter() {
            let start = self.bytes.len();
            self.bytes.extend_from_slice(arg);
            self.args.push(ArgRange::new(start, self.bytes.len()));
        }
        self.ends.push(self.args.len());
        Ok(())
    }

    /// Notes that a command was refused. What was kept is dropped, since nothing of it will run.
    pub(super) fn refuse(&mut self) {
        *self = Transaction { is_refused: true, ..Transaction::default() };
    }

    /// Was a command refused?
    pub(super) fn is_refused(&self) -> bool {
        self.is_refused
    }

    /// How many commands it has.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// How many bytes it holds.
    pub(super) fn size(&self) -> usize {
        self.bytes.len() + self.args.len() * size_of::<ArgRange>() + self.ends.len() * size_of::<usize>()
    }

    /// The next command to run; `None` if all have been run.
    pub(super) fn next(&mut self) -> Option<CommandArgs<'_>> {
        let end = *self.ends.get(self.done)?;
        let start = self.done.checked_sub(1).map_or(0, |before| self.ends[before]);
        self.done += 1;
        Some(CommandArgs::new(&self.bytes, &self.args[start..end]))
    }

    /// Have all commands been run?
    pub(super) fn is_done(&self) -> bool {
        self.done == self.ends.len()
    }
}
