//! One HTTP connection: which protocol it speaks, how long it may be idle, how it ends.

pub(super) mod activity;
pub(super) mod detect;
pub(super) mod drive;
pub(super) mod patient;
