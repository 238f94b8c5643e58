//! What commands print, and how they end: problems, colours, exit codes.

pub(crate) mod exit;
pub(crate) mod paint;
pub(crate) mod report;
