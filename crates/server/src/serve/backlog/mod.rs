//! Answers that were made and that clients have not read yet, and their bounds.

pub(super) mod outbox;
pub(super) mod progress;
pub(super) mod unsent;
