//! What happened: violations and the audit, as lists with filters.

mod cursor;
mod filter;
mod list;
pub(crate) mod page;
mod record;
mod violations;

pub use filter::HistoryFilter;
pub use list::HistoryRow;
pub use record::RecordBatch;
pub use violations::{Violation, ViolationRow};
