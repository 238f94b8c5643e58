//! Output on the terminal: problems of documents (`report`), colours (`paint`), failures and exit codes (`exit`).

pub(crate) mod confirm;
pub(crate) mod exit;
pub(crate) mod paint;
pub(crate) mod report;
