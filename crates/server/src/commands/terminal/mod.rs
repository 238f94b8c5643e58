//! Output on the terminal: problems of documents (`report`), colours (`paint`), failures and exit codes (`exit`), and screens
//! that are drawn again and again (`full_screen`).

pub(crate) mod confirm;
pub(crate) mod exit;
pub(crate) mod full_screen;
pub(crate) mod paint;
pub(crate) mod report;
